import type { JsonObject } from '../../protocol/jsonrpc/raw.js';
import { type ClientCapabilities, isObject, TASKS_EXTENSION } from '../../protocol/mcp/model.js';

/** What crosses the gateway, by configuration (BR-30). */
export interface BridgeSwitches {
  readonly roots: boolean;
  readonly sampling: boolean;
  readonly logging: boolean;
}

/** Extensions that live in data the gateway passes on untouched: declaring them onwards promises nothing it cannot keep. */
const TRANSPARENT: readonly string[] = ['io.modelcontextprotocol/ui', 'io.modelcontextprotocol/skills'];

/**
 * What is declared to a server on a caller's behalf: what the caller can do and the gateway can carry (GW-06).
 * `alone` is a caller that sees one server only, whose messages all go there: any extension can pass.
 */
export function relayable(declared: ClientCapabilities, switches: BridgeSwitches, alone: boolean): ClientCapabilities {
  const out: ClientCapabilities = {};
  if (isObject(declared.elicitation)) out.elicitation = declared.elicitation;
  if (isObject(declared.sampling) && switches.sampling) {
    // The context of other servers stays out of reach of this one (mcp.md 4.10).
    const { context: _, ...sampling } = declared.sampling;
    out.sampling = sampling;
  }
  if (isObject(declared.roots) && switches.roots) out.roots = declared.roots;
  const extensions = passingExtensions(declared.extensions, alone);
  if (Object.keys(extensions).length > 0) out.extensions = extensions;
  return out;
}

/** The extensions that can pass: those that are data, and any other where all its messages have one place to go. */
export function passingExtensions(declared: JsonObject | undefined, alone: boolean): JsonObject {
  if (!isObject(declared)) return {};
  return Object.fromEntries(
    Object.entries(declared).filter(([id]) => id !== TASKS_EXTENSION && (alone || TRANSPARENT.includes(id))),
  );
}
