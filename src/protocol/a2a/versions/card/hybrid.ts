/** Cards for readers that do not name their version (G-14). */
import { isObject, type JsonObject, type JsonValue } from '../../../jsonrpc/raw.js';
import type { AgentCard } from '../../model.js';
import { entriesOf } from '../tolerant-readers.js';
import { schemeNames } from './security.js';
import { writeOldCard } from './write.js';

/**
 * One card for readers of 1.0 and of 0.3. The two versions give `securitySchemes` different shapes, so each scheme
 * contains both shapes, and each reader ignores the members of the other.
 */
export function hybridCard(card: AgentCard): JsonObject {
  const old = writeOldCard(card, '0.3');
  const schemes = merged(old['securitySchemes'], card.securitySchemes);
  return {
    ...old,
    ...card,
    capabilities: { ...(old['capabilities'] as JsonObject), ...card.capabilities },
    ...(schemes !== undefined && { securitySchemes: schemes }),
    skills: card.skills.map((skill, index) => ({ ...((old['skills'] as JsonObject[])[index] ?? {}), ...skill })),
  };
}

function merged(old: JsonValue | undefined, modern: JsonObject | undefined): JsonObject | undefined {
  if (!modern) return undefined;
  const made: JsonObject = {};
  for (const [name, scheme] of entriesOf(modern)) {
    const other = isObject(old) ? old[name] : undefined;
    made[name] = { ...(isObject(other) ? other : {}), ...(isObject(scheme) ? scheme : {}) };
  }
  return made;
}

/** The card at `agent.json`: a card of 0.2 that readers of 0.1 also understand. */
export function legacyCard(card: AgentCard, { url }: { readonly url?: string } = {}): JsonObject {
  const schemes = schemeNames(card.securitySchemes);
  const old = writeOldCard(card, '0.2');
  return { ...(url === undefined ? old : atUrl(old, url)), ...(schemes.length > 0 && { authentication: { schemes } }) };
}

/** The card with another URL for JSON-RPC. */
function atUrl(card: JsonObject, url: string): JsonObject {
  const others = Array.isArray(card['additionalInterfaces']) ? card['additionalInterfaces'] : [];
  const rest = others.filter((each) => isObject(each) && each['transport'] !== 'JSONRPC');
  const own = { url, transport: 'JSONRPC' };
  return { ...card, url, preferredTransport: 'JSONRPC', additionalInterfaces: [own, ...rest] };
}
