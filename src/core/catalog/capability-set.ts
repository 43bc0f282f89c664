import type { JsonObject } from '../../protocol/jsonrpc/raw.js';
import { type ClientCapabilities, isObject } from '../../protocol/mcp/model.js';
import { declares } from '../../protocol/mcp/translate/questions.js';

/**
 * The client capabilities by which servers choose the content of their lists, one bit each. Callers with the same set
 * see the same lists. The number of sets is fixed, whatever callers declare.
 */
export type CapabilitySet = number;

/** The set of a client that declares none of these capabilities. */
export const NO_CAPABILITIES: CapabilitySet = 0;

const APPS = 'io.modelcontextprotocol/ui';
const APP_TYPE = 'text/html;profile=mcp-app';

interface Flag {
  readonly name: string;
  readonly declaration: ClientCapabilities;
  /** Checks a capability whose presence needs more than a matching declaration. */
  readonly holds?: (declared: ClientCapabilities) => boolean;
}

const FLAGS: readonly Flag[] = [
  { name: 'elicitation.form', declaration: { elicitation: { form: {} } } },
  { name: 'elicitation.url', declaration: { elicitation: { url: {} } } },
  { name: 'sampling', declaration: { sampling: {} } },
  { name: 'sampling.tools', declaration: { sampling: { tools: {} } } },
  { name: 'roots', declaration: { roots: {} } },
  {
    name: APPS,
    declaration: { extensions: { [APPS]: { mimeTypes: [APP_TYPE] } } },
    // APP-02: the client declares the media types of the pages that it shows.
    holds: ({ extensions }) => {
      const apps = extensions?.[APPS];
      return isObject(apps) && Array.isArray(apps['mimeTypes']) && apps['mimeTypes'].includes(APP_TYPE);
    },
  },
];

export function capabilitySet(declared: ClientCapabilities): CapabilitySet {
  let set = NO_CAPABILITIES;
  for (const [bit, { declaration, holds }] of FLAGS.entries())
    if (holds ? holds(declared) : declares(declared, declaration)) set |= 1 << bit;
  return set;
}

/** The capabilities that a client of this set declares. */
export function declarationOf(set: CapabilitySet): ClientCapabilities {
  let declared = DECLARATIONS.get(set);
  if (!declared) {
    declared = flagsOf(set).reduce<ClientCapabilities>((sum, { declaration }) => merged(sum, declaration), {});
    DECLARATIONS.set(set, declared);
  }
  return declared;
}

const DECLARATIONS = new Map<CapabilitySet, ClientCapabilities>();

/** The names of the capabilities in the set. */
export const namesOf = (set: CapabilitySet): string[] => flagsOf(set).map(({ name }) => name);

/** The capabilities of `wanted` that `has` does not contain. */
export const lacking = (has: CapabilitySet, wanted: CapabilitySet): CapabilitySet => wanted & ~has;

export function sizeOf(set: CapabilitySet): number {
  return flagsOf(set).length;
}

const flagsOf = (set: CapabilitySet): readonly Flag[] => FLAGS.filter((_, bit) => (set & (1 << bit)) !== 0);

function merged(a: JsonObject, b: JsonObject): JsonObject {
  const out: JsonObject = { ...a };
  for (const [key, value] of Object.entries(b)) {
    const before = out[key];
    out[key] = isObject(before) && isObject(value) ? merged(before, value) : (value ?? null);
  }
  return out;
}
