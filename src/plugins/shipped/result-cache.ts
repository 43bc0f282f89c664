/** Answers repeated calls of read-only tools from memory. */
import { createHash } from 'node:crypto';
import type { Cluster } from '../../core/cluster.js';
import type { JsonObject, JsonValue, Plugin, PluginCall, PluginResponse } from '../api.js';

export interface ResultCacheOptions {
  /** How long a result is used, in milliseconds. */
  readonly ttl: number;
  /** Whether all callers of a tenant share results. Only for servers that give every caller the same answer. */
  readonly shared: boolean;
  /** The most bytes of one caller. */
  readonly perCaller: number;
  /** The most bytes of all callers. */
  readonly inAll: number;
  /** Other replicas, which are told of calls that may have changed something. */
  readonly cluster: Pick<Cluster, 'tell' | 'onTold'>;
  /** Distinguishes the caches of several plugins. */
  readonly name: string;
  readonly now?: () => number;
}

/** The shortest time between two messages to other replicas, in milliseconds. */
const TELL_EVERY = 100;
/** Memory of a result besides its text, in bytes; it bounds the number of small results. */
const OVERHEAD = 512;

interface Entry {
  readonly text: string;
  readonly bytes: number;
  readonly stored: number;
}

/** Results of one caller, or of all callers if they share results; the oldest first. */
interface Owner {
  readonly entries: Map<string, Entry>;
  bytes: number;
}

export function resultCache({
  ttl,
  shared,
  perCaller,
  inAll,
  cluster,
  name,
  now = () => performance.now(),
}: ResultCacheOptions): Plugin {
  const owners = new Map<string, Owner>();
  /** The last call at each server that may have changed something. */
  const writes = new Map<string, number>();
  let total = 0;
  const most = shared ? inAll : perCaller;
  const ownerOf = ({ caller }: PluginCall): string => (shared ? JSON.stringify(caller.tenant ?? null) : caller.key);
  const others = new OtherReplicas(cluster, `plugin.${name}.written`, (server) => void writes.set(server, now()));

  const drop = (key: string, owner: Owner, id: string): void => {
    const entry = owner.entries.get(id);
    if (!entry) return;
    owner.entries.delete(id);
    owner.bytes -= entry.bytes;
    total -= entry.bytes;
    if (owner.entries.size === 0) owners.delete(key);
  };
  const dropExpired = (): void => {
    const limit = now() - ttl;
    for (const [key, owner] of owners) {
      for (const [id, { stored }] of owner.entries) {
        // The later ones are younger.
        if (stored > limit) break;
        drop(key, owner, id);
      }
    }
  };
  /**
   * A tool that is not read-only may change the results of other tools of its server: earlier results are not used
   * again.
   */
  const written = (server: string): void => {
    writes.set(server, now());
    others.tell(server);
  };

  return {
    apiVersion: 1,
    onRequest: (call) => {
      if (!isToolCall(call)) return undefined;
      if (!isReadOnly(call)) {
        written(call.server);
        return undefined;
      }
      if (!isCacheable(call)) return undefined;
      const found = owners.get(ownerOf(call))?.entries.get(keyOf(call));
      if (!found || found.stored + ttl <= now() || found.stored <= (writes.get(call.server) ?? 0)) return undefined;
      const { _meta, ...reply } = JSON.parse(found.text) as JsonObject;
      const age = Math.floor((now() - found.stored) / 1_000);
      return { reply: { ...reply, _meta: { ...(_meta as JsonObject | undefined), 'parley/cachedForSeconds': age } } };
    },
    onResponse: (call, response: PluginResponse) => {
      if (!isToolCall(call)) return undefined;
      if (!isReadOnly(call)) {
        written(call.server);
        return undefined;
      }
      if (!isCacheable(call) || response.size > most || (writes.get(call.server) ?? 0) >= call.began) return undefined;
      const { result } = response;
      if (result['isError'] === true) return undefined;
      if (total + response.size > inAll) dropExpired();
      const key = ownerOf(call);
      const owner = owners.get(key) ?? { entries: new Map(), bytes: 0 };
      const id = keyOf(call);
      drop(key, owner, id);
      const text = JSON.stringify(result);
      const bytes = Buffer.byteLength(text) + OVERHEAD;
      for (const oldest of owner.entries.keys()) {
        if (owner.bytes + bytes <= most && total + bytes <= inAll) break;
        drop(key, owner, oldest);
      }
      // Other callers keep their results.
      if (owner.bytes + bytes > most || total + bytes > inAll) return undefined;
      owner.entries.set(id, { text, bytes, stored: now() });
      owner.bytes += bytes;
      total += bytes;
      owners.set(key, owner);
      return undefined;
    },
    close: () => {
      others.close();
      owners.clear();
    },
  };
}

/** Tells the caches of other replicas which servers may have changed, in few messages. */
class OtherReplicas {
  private waiting = new Set<string>();
  private timer: NodeJS.Timeout | undefined;
  private readonly forget: () => void;

  constructor(
    private readonly cluster: ResultCacheOptions['cluster'],
    private readonly subject: string,
    written: (server: string) => void,
  ) {
    this.forget = cluster.onTold(subject, (servers) => {
      if (Array.isArray(servers)) for (const server of servers) written(String(server));
    });
  }

  tell(server: string): void {
    this.waiting.add(server);
    if (!this.timer) this.send();
  }

  close(): void {
    clearTimeout(this.timer);
    this.forget();
  }

  private send(): void {
    this.timer = undefined;
    if (this.waiting.size === 0) return;
    const servers = [...this.waiting];
    this.waiting.clear();
    this.timer = setTimeout(() => this.send(), TELL_EVERY).unref();
    // A replica that cannot be told uses its results until they are too old.
    this.cluster.tell(this.subject, servers).catch(() => {});
  }
}

type ToolCall = PluginCall & { readonly server: string };

const isToolCall = (call: PluginCall): call is ToolCall =>
  call.method === 'tools/call' && call.kind === 'tool' && call.server !== undefined;

/** A tool without annotations may change something. */
function isReadOnly({ tool }: PluginCall): boolean {
  const annotations = tool?.['annotations'];
  return (
    typeof annotations === 'object' &&
    annotations !== null &&
    !Array.isArray(annotations) &&
    annotations['readOnlyHint'] === true &&
    annotations['destructiveHint'] !== true
  );
}

/** A call that asks for a task, or answers a question, is a part of a longer exchange. */
const isCacheable = ({ params }: PluginCall): boolean =>
  params['task'] === undefined &&
  params['inputResponses'] === undefined &&
  params['requestState'] === undefined &&
  isExact(params['arguments']);

/** Whether all numbers in the value are exact here: a server may distinguish integers that are equal as doubles. */
function isExact(value: JsonValue | undefined): boolean {
  if (typeof value === 'number') return Math.abs(value) <= Number.MAX_SAFE_INTEGER;
  return typeof value !== 'object' || value === null || Object.values(value).every(isExact);
}

function keyOf({ server, name, account, params }: ToolCall): string {
  const text = JSON.stringify([server, name, account, sorted(params['arguments'] ?? {})]);
  return createHash('sha256').update(text).digest('base64');
}

/** The order of members does not matter. */
function sorted(value: JsonValue | undefined): JsonValue | undefined {
  if (Array.isArray(value)) return value.map((item) => sorted(item) ?? null);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.keys(value)
      .sort()
      .map((key) => [key, sorted(value[key])]),
  );
}
