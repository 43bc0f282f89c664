import type { JsonObject } from '../../protocol/jsonrpc/raw.js';
import { type ClientCapabilities, isObject, TASKS_EXTENSION } from '../../protocol/mcp/model.js';

/** Which features cross the gateway, by configuration (BR-30). */
export interface BridgeSwitches {
  readonly roots: boolean;
  readonly sampling: boolean;
  readonly logging: boolean;
}

/**
 * Extensions that consist only of data, which the gateway passes unchanged. The gateway can declare them without
 * further support.
 */
const TRANSPARENT: readonly string[] = ['io.modelcontextprotocol/ui', 'io.modelcontextprotocol/skills'];

/**
 * The capabilities to declare to a server for a caller: the capabilities that the caller has and the gateway can relay
 * (GW-06). `alone` means that the view shows one server only. All messages then go to that server, so any extension can
 * pass.
 */
export function relayable(declared: ClientCapabilities, switches: BridgeSwitches, alone: boolean): ClientCapabilities {
  const out: ClientCapabilities = {};
  if (isObject(declared.elicitation)) out.elicitation = declared.elicitation;
  if (isObject(declared.sampling) && switches.sampling) {
    // `context` would include the context of other servers, which this server must not see (mcp.md 4.10).
    const { context: _, ...sampling } = declared.sampling;
    out.sampling = sampling;
  }
  if (isObject(declared.roots) && switches.roots) out.roots = declared.roots;
  const extensions = passingExtensions(declared.extensions, alone);
  if (Object.keys(extensions).length > 0) out.extensions = extensions;
  return out;
}

/**
 * The extensions that can pass: extensions that consist only of data, or all extensions if all messages go to one
 * server.
 */
export function passingExtensions(declared: JsonObject | undefined, alone: boolean): JsonObject {
  if (!isObject(declared)) return {};
  return Object.fromEntries(
    Object.entries(declared).filter(([id]) => id !== TASKS_EXTENSION && (alone || TRANSPARENT.includes(id))),
  );
}
