/** Finds the card, the versions and the bindings of an agent. */
import { asList, asObject, isObject, isText, type Json } from '../json.js';
import type { Surface } from '../run.js';
import type { HttpWire } from '../wire/http-wire.js';
import type { Reply } from '../wire/reply.js';
import { A2aPeer, type A2aVersion } from './peer.js';
import { A2A_OBSERVATIONS, A2A_PROBES, type A2aSurface } from './probes.js';

export interface A2aTarget {
  readonly name: string;
  readonly version: A2aVersion;
  readonly binding: 'JSONRPC' | 'HTTP+JSON';
  readonly url: URL;
  readonly card: Json;
  readonly cardReply: Reply;
  /** Whether the card was given to a client of another version. */
  readonly second?: boolean;
}

const VERSIONS: readonly A2aVersion[] = ['0.3', '1.0'];
const KNOWN = ['/.well-known/agent-card.json', '/.well-known/agent.json'];

/**
 * The interfaces on the card of an agent, at the origin of the target only. `atRoot` also looks for a card at the root of
 * the origin.
 */
export async function detectA2a(http: HttpWire, atRoot: boolean): Promise<A2aTarget[]> {
  const found: A2aTarget[] = [];
  for (const asked of VERSIONS) {
    const reply = await findCard(http, asked, atRoot);
    if (reply === undefined) continue;
    const own = interfacesOf(asObject(reply.messages[0]), reply, http.url);
    // The card that an agent gives to clients of a version is the one that counts for it.
    found.push(...own.filter(({ version }) => version === asked));
    found.push(...own.filter(({ version }) => version !== asked).map((each) => ({ ...each, second: true })));
  }
  const first = [...found.filter(({ second }) => !second), ...found];
  return first.filter(({ name }, i) => first.findIndex((each) => each.name === name) === i);
}

async function findCard(http: HttpWire, version: A2aVersion, atRoot: boolean): Promise<Reply | undefined> {
  const base = http.url.pathname.replace(/\/$/, '');
  const own = /agent(-card)?\.json$/.test(base) ? [base] : [];
  for (const path of [...own, ...KNOWN.map((each) => `${base}${each}`), ...(atRoot ? KNOWN : [])]) {
    const headers = { Accept: 'application/json', ...(version === '1.0' && { 'A2A-Version': '1.0' }) };
    const reply = await http.send({ method: 'GET', url: new URL(path, http.url), headers });
    if (reply.status === undefined) return undefined;
    const card = asObject(reply.messages[0]);
    if (reply.status === 200 && isText(card['name']) && isObject(card['capabilities'])) return reply;
  }
  return undefined;
}

function interfacesOf(card: Json, cardReply: Reply, base: URL): A2aTarget[] {
  const declared: [unknown, unknown, unknown][] = [
    ...asList(card['supportedInterfaces'])
      .map(asObject)
      .map((each): [unknown, unknown, unknown] => [each['url'], each['protocolBinding'], each['protocolVersion']]),
    ...(isText(card['protocolVersion'])
      ? [
          [card['url'], card['preferredTransport'] ?? 'JSONRPC', card['protocolVersion']] as [
            unknown,
            unknown,
            unknown,
          ],
          ...asList(card['additionalInterfaces'])
            .map(asObject)
            .map((each): [unknown, unknown, unknown] => [each['url'], each['transport'], card['protocolVersion']]),
        ]
      : []),
  ];
  return declared.flatMap(([address, binding, number]): A2aTarget[] => {
    if (!isText(address) || !URL.canParse(address, base.href)) return [];
    if (binding !== 'JSONRPC' && binding !== 'HTTP+JSON') return [];
    const version = VERSIONS.find((each) => String(number).startsWith(each));
    const url = new URL(address, base);
    // Another origin is the agent's word only; it is not examined.
    if (version === undefined || url.origin !== base.origin) return [];
    return [{ name: `A2A ${version} over ${binding}`, version, binding, url, card, cardReply }];
  });
}

export interface A2aSurfaceOptions {
  readonly http: HttpWire;
  readonly active: boolean;
  readonly credentials: boolean;
}

export function a2aSurfaces(
  targets: readonly A2aTarget[],
  { http, active, credentials }: A2aSurfaceOptions,
): (() => Promise<Surface>)[] {
  return targets.map((target) => async (): Promise<Surface> => {
    const peer = new A2aPeer(http, target.version, target.binding, target.url, target.card, target.cardReply);
    const kept = new Map<string, Promise<unknown>>();
    const once = <T>(name: string, make: () => Promise<T>): Promise<T> => {
      if (!kept.has(name)) kept.set(name, make());
      return kept.get(name) as Promise<T>;
    };
    const surface: A2aSurface = { peer, active, credentials, once };
    return {
      name: target.name,
      transport: target.binding,
      version: VERSIONS.indexOf(target.version),
      probe: async (name) => {
        const probe = A2A_PROBES[name] ?? A2A_OBSERVATIONS[name];
        if (probe === undefined) throw new Error(`there is no probe ${name}`);
        return probe(surface);
      },
      late: (name) => A2A_OBSERVATIONS[name] !== undefined,
      close: async () => {},
    };
  });
}
