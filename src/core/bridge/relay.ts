import type { ClientCapabilities } from '../../protocol/mcp/model.js';
import { isObject } from '../../protocol/mcp/model.js';

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
  if (isObject(declared.extensions)) {
    const passing = Object.entries(declared.extensions).filter(([id]) => alone || TRANSPARENT.includes(id));
    if (passing.length > 0) out.extensions = Object.fromEntries(passing);
  }
  return out;
}
