/** Finds the card, the versions and the bindings of an agent. */
import { interfacesOf } from '../../protocol/a2a/index.js';
import type { JsonObject } from '../../protocol/jsonrpc/raw.js';
import { asObject, isObject, isText, type Json } from '../json.js';
import type { Surface } from '../run.js';
import type { GrpcClient, GrpcDialer } from '../wire/grpc-wire.js';
import type { HttpWire } from '../wire/http-wire.js';
import type { Reply } from '../wire/reply.js';
import { A2A_VERSIONS, type A2aBinding, type A2aVersion, OPERATIONS, RPC_METHODS } from './operations.js';
import { A2aPeer } from './peer.js';
import { type A2aSurface, UNKNOWN } from './probe.js';
import { A2A_OBSERVATIONS, A2A_PROBES } from './probes.js';

export interface A2aTarget {
  readonly name: string;
  readonly version: A2aVersion;
  readonly binding: A2aBinding;
  /** The address; for gRPC it may be `host:port`. */
  readonly url: string;
  readonly tenant: string | undefined;
  readonly card: Json;
  readonly cardReply: Reply;
  /** Whether the card was given to a client of another version. */
  readonly second?: boolean;
}

const NEW_PLACE = '/.well-known/agent-card.json';
const OLD_PLACE = '/.well-known/agent.json';

/** An agent may give clients of each version another card. `places` are the paths where clients of `versions` look. */
const CLIENTS: readonly { readonly versions: readonly A2aVersion[]; readonly places: readonly string[] }[] = [
  { versions: ['0.3'], places: [NEW_PLACE, OLD_PLACE] },
  { versions: ['1.0'], places: [NEW_PLACE, OLD_PLACE] },
  { versions: ['0.2', '0.1'], places: [OLD_PLACE] },
];

/**
 * The interfaces on the cards of an agent, at the host of the target only. With `atRoot`, cards are also looked for at
 * the root of the origin.
 */
export async function detectA2a(http: HttpWire, atRoot: boolean): Promise<A2aTarget[]> {
  const found: A2aTarget[] = [];
  for (const { versions, places } of CLIENTS) {
    const reply = await findCard(http, versions, places, atRoot);
    if (reply === undefined) continue;
    const own = targetsOf(asObject(reply.messages[0]), reply, http.url);
    // For each version, the card that its own clients get comes first.
    found.push(...own.filter(({ version }) => versions.includes(version)));
    found.push(...own.filter(({ version }) => !versions.includes(version)).map((each) => ({ ...each, second: true })));
    if (versions.includes('0.1')) found.push(...(await unnamedFirst(http, own)));
  }
  const first = [...found.filter(({ second }) => !second), ...found];
  return first.filter(({ name }, i) => first.findIndex((each) => each.name === name) === i);
}

/** The codes of an agent of 0.1 for a webhook of an unknown task. */
const KNOWN_METHOD: ReadonlySet<number | undefined> = new Set([-32001, -32003]);

/**
 * The interface of 0.1 beside that of a later version. A card of 0.1 names no version, so an agent may serve clients of
 * 0.1 with a card of 0.2; it then knows a method that only 0.1 has.
 */
async function unnamedFirst(http: HttpWire, own: readonly A2aTarget[]): Promise<A2aTarget[]> {
  const target = own.find(({ binding, card, url }) => binding === 'JSONRPC' && card['url'] === url);
  if (target === undefined || own.some(({ version }) => version === '0.1')) return [];
  const first = { ...target, version: '0.1', name: nameOf('0.1', 'JSONRPC') } as const;
  const { result, code } = await new A2aPeer({ ...first, http }).call('getPush', { id: UNKNOWN });
  return result !== undefined || KNOWN_METHOD.has(code) ? [first] : [];
}

const nameOf = (version: A2aVersion, binding: A2aBinding): string => `A2A ${version} over ${binding}`;

async function findCard(
  http: HttpWire,
  versions: readonly A2aVersion[],
  places: readonly string[],
  atRoot: boolean,
): Promise<Reply | undefined> {
  const { pathname } = http.url;
  // The URL may be that of a card. Other versions may have theirs beside it.
  const own = /agent(-card)?\.json$/.test(pathname) ? [pathname] : [];
  const base = pathname.replace(/\/(\.well-known\/agent(-card)?\.json)?$/, '');
  for (const path of [...places.map((each) => `${base}${each}`), ...own, ...(atRoot ? places : [])]) {
    const headers = { Accept: 'application/json', ...(versions.includes('1.0') && { 'A2A-Version': '1.0' }) };
    const reply = await http.send({ method: 'GET', url: new URL(path, http.url), headers });
    if (reply.status === undefined) return undefined;
    const card = asObject(reply.messages[0]);
    if (reply.status === 200 && isText(card['name']) && isObject(card['capabilities'])) return reply;
  }
  return undefined;
}

function targetsOf(card: Json, cardReply: Reply, base: URL): A2aTarget[] {
  return interfacesOf(card as JsonObject).flatMap(({ url, binding, version, tenant }): A2aTarget[] => {
    // A card may name any host, so interfaces at other hosts are not examined.
    if (!isOwn(url, binding, base)) return [];
    return [{ name: nameOf(version, binding), version, binding, url, tenant, card, cardReply }];
  });
}

/** gRPC has a port of its own, and an address that may have no scheme. */
function isOwn(address: string, binding: A2aBinding, base: URL): boolean {
  if (binding !== 'GRPC') return URL.canParse(address, base.href) && new URL(address, base.href).origin === base.origin;
  return hostOf(address) === base.hostname;
}

function hostOf(address: string): string | undefined {
  const url = `http://${address.replace(/^[a-z]+:\/\//i, '')}`;
  return URL.canParse(url) ? new URL(url).hostname : undefined;
}

/** Whether credentials may travel to a gRPC address: never without TLS if the target has TLS. */
const maySend = (address: string, base: URL): boolean =>
  base.protocol === 'http:' || !/^(http|grpc):\/\//i.test(address);

/** The names of the methods in the versions of the targets. */
export const methodsOf = (targets: readonly A2aTarget[]): string[] =>
  targets.flatMap(({ version }) => OPERATIONS[version].map((operation) => RPC_METHODS[version][operation]));

export interface A2aSurfaceOptions {
  readonly http: HttpWire;
  readonly active: boolean;
  readonly credentials: readonly (readonly [string, string])[];
  readonly grpc: GrpcDialer;
  /** For each method of the tested versions, whether the agent serves the method; `null` until a surface has tried it. */
  readonly methods: Record<string, boolean | null>;
}

export function a2aSurfaces(
  targets: readonly A2aTarget[],
  { http, active, credentials, grpc, methods }: A2aSurfaceOptions,
): (() => Promise<Surface>)[] {
  return targets.map((target) => async (): Promise<Surface> => {
    const dialed: GrpcClient[] = [];
    const peerOf = (each: A2aTarget): A2aPeer => {
      const client = each.binding === 'GRPC' ? grpc(each.url) : undefined;
      if (client) dialed.push(client);
      const allowed = client !== undefined && maySend(each.url, http.url) ? credentials : [];
      return new A2aPeer({ ...each, http, grpc: client, grpcCredentials: allowed });
    };
    const kept = new Map<string, Promise<unknown>>();
    const once = <T>(name: string, make: () => Promise<T>): Promise<T> => {
      if (!kept.has(name)) kept.set(name, make());
      return kept.get(name) as Promise<T>;
    };
    const siblings = targets.filter((each) => each.version === target.version && each !== target).map(peerOf);
    const surface: A2aSurface = {
      peer: peerOf(target),
      siblings,
      active,
      credentials: credentials.length > 0,
      once,
    };
    return {
      name: target.name,
      transport: target.binding,
      version: A2A_VERSIONS.indexOf(target.version),
      probe: async (name) => {
        const probe = A2A_PROBES[name] ?? A2A_OBSERVATIONS[name];
        if (probe === undefined) throw new Error(`there is no probe ${name}`);
        return probe(surface);
      },
      late: (name) => A2A_OBSERVATIONS[name] !== undefined,
      close: async () => {
        for (const [operation, served] of surface.peer.served) {
          const method = RPC_METHODS[target.version][operation];
          if (Object.hasOwn(methods, method)) methods[method] = methods[method] === true || served;
        }
        for (const client of dialed) client.close();
      },
    };
  });
}
