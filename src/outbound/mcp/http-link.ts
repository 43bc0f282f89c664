import type { Caller } from '../../core/caller.js';
import type { ListNews, RawRequest, WatchEvent } from '../../core/upstream.js';
import type { Credential } from '../../identity/upstream-credentials.js';
import type { ClientCapabilities } from '../../protocol/mcp/model.js';
import type { Revision } from '../../protocol/mcp/revisions/index.js';
import type { Evidence } from '../../protocol/mcp/server-version.js';
import { httpTarget } from '../http/index.js';
import { probeHttp } from './http-version-probe.js';
import { ModernHttp } from './modern-http.js';
import { ModernPeer } from './modern-peer.js';
import type { Link, Peer } from './peer.js';
import { sendRaw } from './raw-http.js';
import { credentialOf } from './server-credential.js';
import { withoutCredential } from './server-errors.js';
import { FLOODED } from './server-traffic-limits.js';
import { HttpSessions } from './session/http-sessions.js';
import type { UpstreamContext } from './upstream-context.js';

export interface HttpLinkOptions {
  readonly context: UpstreamContext;
  readonly url: string;
  readonly transport: 'http' | 'sse' | undefined;
  readonly pool: number;
  readonly idle: number;
  found(transport: 'http' | 'sse'): void;
}

/** The link to a server with a URL. */
export class HttpLink implements Link {
  private sessions: HttpSessions | undefined;
  private readonly overhearing: ((event: WatchEvent) => void)[] = [];

  constructor(private readonly options: HttpLinkOptions) {}

  async probe(revision: Revision, caller: Caller): Promise<Evidence> {
    const { context, url, transport } = this.options;
    if (transport === 'sse') return { kind: 'legacy' };
    return probeHttp(new ModernHttp(context, httpTarget(url), revision), caller);
  }

  modern(revision: Revision): Peer {
    const { context, url } = this.options;
    return new ModernPeer(new ModernHttp(context, httpTarget(url), revision));
  }

  legacy(offer: Revision): Peer {
    this.sessions ??= new HttpSessions({
      ...this.options,
      offer,
      overheard: (event) => {
        for (const deliver of this.overhearing) deliver(event);
      },
    });
    return this.sessions;
  }

  readonly watchCosts = false;

  get answers(): number {
    return this.options.context.http.answers;
  }

  credentialKey(caller: Caller): string | Promise<string> {
    const given = this.credential(caller);
    return given instanceof Promise ? given.then(({ key }) => key) : given.key;
  }

  credential(caller: Caller): Credential | Promise<Credential> {
    const { context } = this.options;
    const given = credentialOf(context, caller);
    if (!(given instanceof Promise)) return given;
    return given.catch((error: unknown) => Promise.reject(withoutCredential(context, error)));
  }

  raw(caller: Caller, request: RawRequest): Promise<void> {
    const { context, url } = this.options;
    return sendRaw(context, url, caller, request);
  }

  overhear(deliver: (event: WatchEvent) => void): void {
    this.overhearing.push(deliver);
  }

  listNews(era: Revision['era'], capabilities: ClientCapabilities): ListNews {
    return era === 'legacy' && this.sessions?.hears(capabilities) ? 'pushed' : 'polled';
  }

  rootsChanged(session: string): void {
    this.sessions?.rootsChanged(session);
  }

  release(session: string): void {
    this.sessions?.release(session);
  }

  health(): { detail?: string } {
    const rest = Math.ceil(this.options.context.traffic.resting / 1_000);
    return rest > 0 ? { detail: `${FLOODED}; the gateway ignores its messages outside of calls for ${rest} s` } : {};
  }

  async close(): Promise<void> {
    await this.sessions?.close();
    await this.options.context.http.close();
  }
}
