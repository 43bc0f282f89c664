/**
 * Keeps parts of results for a short time. Only the caller that got a link can read it, at any replica, and only with the
 * rights that the result needed.
 */
import { randomUUID } from 'node:crypto';
import type { Cluster } from '../../core/cluster.js';
import { type Seal, SealBroken } from '../../core/seal.js';
import { isObject } from '../../protocol/jsonrpc/raw.js';
import type { JsonObject } from '../api.js';

export const RESULT_SCHEME = 'parley-result';

export interface KeptResultsOptions {
  readonly seal: Seal;
  readonly cluster: Cluster;
  /** Distinguishes the stores of several plugins. */
  readonly name: string;
  /** In milliseconds. */
  readonly ttl: number;
  /** The most bytes of one caller. Older results of the caller make room for newer ones. */
  readonly perCaller: number;
  /** The most bytes of all callers. No caller displaces the results of another. */
  readonly inAll: number;
  readonly now?: () => number;
}

/** The origin of a result: credentials of one caller may have different rights. */
export interface Origin {
  readonly server: string;
  readonly tool: string;
  /** The scopes of the credential. */
  readonly scopes: readonly string[];
}

/** The contents of a resource. */
export interface KeptPart {
  readonly contents: JsonObject;
  readonly origin: Origin;
}

interface Kept extends KeptPart {
  readonly id: string;
  readonly bytes: number;
  readonly expires: number;
}

const SWEEP = 30_000;
/** Memory of a kept part besides its text, in bytes; it bounds the number of small parts. */
const OVERHEAD = 1_024;

/** The kept parts of one caller, the oldest first. */
interface Owner {
  readonly parts: Map<string, Kept>;
  bytes: number;
}

export class KeptResults {
  private readonly callers = new Map<string, Owner>();
  private bytes = 0;
  private readonly now: () => number;
  private readonly stopHandling: () => void;
  private sweeping: NodeJS.Timeout | undefined;

  constructor(private readonly options: KeptResultsOptions) {
    this.now = options.now ?? (() => performance.now());
    this.stopHandling = options.cluster.handle(this.subject, async (payload) => {
      const { caller, id } = payload as { caller: string; id: string };
      return (this.find(caller, id) as unknown as JsonObject | undefined) ?? null;
    });
  }

  private get subject(): string {
    return `plugin.${this.options.name}.result`;
  }

  /** Keeps the contents of a resource. Returns its URI, or undefined if there is no room. */
  keep(caller: string, origin: Origin, contents: JsonObject): string | undefined {
    const { perCaller, inAll, ttl, seal, cluster } = this.options;
    const bytes = Buffer.byteLength(JSON.stringify(contents)) + OVERHEAD;
    if (bytes > perCaller) return undefined;
    if (this.bytes + bytes > inAll) this.sweep();
    const own = this.callers.get(caller) ?? { parts: new Map<string, Kept>(), bytes: 0 };
    for (const each of own.parts.values()) {
      if (own.bytes + bytes <= perCaller && this.bytes + bytes <= inAll) break;
      this.drop(caller, own, each);
    }
    if (this.bytes + bytes > inAll) return undefined;
    const id = randomUUID();
    own.parts.set(id, { id, contents, origin, bytes, expires: this.now() + ttl });
    own.bytes += bytes;
    this.callers.set(caller, own);
    this.bytes += bytes;
    this.sweeping ??= setInterval(() => this.sweep(), SWEEP).unref();
    return `${RESULT_SCHEME}:///${seal.close('result', caller, [cluster.self, id], ttl)}`;
  }

  /** The part for this URI; undefined if it has expired or was given to another caller. */
  async read(caller: string, uri: string): Promise<KeptPart | undefined> {
    const { seal, cluster } = this.options;
    let place: unknown;
    try {
      place = seal.open('result', caller, uri.slice(`${RESULT_SCHEME}:///`.length));
    } catch (error) {
      if (error instanceof SealBroken) return undefined;
      throw error;
    }
    const [replica, id] = place as [string, string];
    if (replica === cluster.self) return this.find(caller, id);
    // A replica that is gone has lost its results.
    const found = await cluster.ask(replica, this.subject, { caller, id }).catch(() => undefined);
    return isObject(found) && isObject(found['contents']) && isObject(found['origin'])
      ? (found as unknown as KeptPart)
      : undefined;
  }

  get size(): number {
    return this.bytes;
  }

  close(): void {
    clearInterval(this.sweeping);
    this.stopHandling();
    this.callers.clear();
    this.bytes = 0;
  }

  private find(caller: string, id: string): KeptPart | undefined {
    const found = this.callers.get(caller)?.parts.get(id);
    return found && found.expires > this.now() ? { contents: found.contents, origin: found.origin } : undefined;
  }

  private drop(caller: string, own: Owner, { id, bytes }: Kept): void {
    if (!own.parts.delete(id)) return;
    own.bytes -= bytes;
    this.bytes -= bytes;
    if (own.parts.size === 0) this.callers.delete(caller);
  }

  private sweep(): void {
    const now = this.now();
    for (const [caller, own] of this.callers) {
      for (const each of own.parts.values()) {
        // All parts live equally long, so the later ones have not expired either.
        if (each.expires > now) break;
        this.drop(caller, own, each);
      }
    }
    if (this.callers.size > 0) return;
    clearInterval(this.sweeping);
    this.sweeping = undefined;
  }
}
