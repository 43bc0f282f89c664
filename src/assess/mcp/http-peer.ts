import { headerOf } from '../../protocol/http/headers.js';
import type { Revision } from '../../protocol/mcp/revisions/index.js';
import type { Json } from '../json.js';
import type { HttpWire } from '../wire/http-wire.js';
import type { Reply } from '../wire/reply.js';
import { type CallOptions, initializeParams, messageOf, type OpenOptions, type Peer } from './peer.js';

const NAMED: Readonly<Record<string, string>> = {
  'tools/call': 'name',
  'prompts/get': 'name',
  'resources/read': 'uri',
};

/** Streamable HTTP, of the legacy era and of the modern era. */
export class HttpPeer implements Peer {
  readonly transport = 'http';
  readonly log: Reply[] = [];
  readonly early: unknown[] = [];
  opening!: Reply;
  session: string | undefined;
  private ids = 0;
  private closed = false;

  private constructor(
    readonly http: HttpWire,
    readonly revision: Revision,
  ) {}

  /** Opens the connection. Check `opening` for its outcome. */
  static async open(http: HttpWire, revision: Revision, how: OpenOptions = {}): Promise<HttpPeer> {
    const peer = new HttpPeer(http, revision);
    if (how.bare) return peer;
    if (revision.era === 'modern') {
      peer.opening = await peer.call('server/discover', {});
      return peer;
    }
    peer.opening = await peer.call('initialize', initializeParams(how.version ?? revision.date, how.capabilities));
    peer.session = headerOf(peer.opening.headers, 'mcp-session-id');
    if (peer.opening.result !== undefined) await peer.notify('notifications/initialized');
    return peer;
  }

  headersFor(method: string, params?: Json): Record<string, string> {
    const headers: Record<string, string> = {
      Accept: 'application/json, text/event-stream',
      'Content-Type': 'application/json',
    };
    if (this.session !== undefined) headers['Mcp-Session-Id'] = this.session;
    const modern = this.revision.era === 'modern';
    if (this.revision.versionHeader && (modern || method !== 'initialize'))
      headers['MCP-Protocol-Version'] = this.revision.date;
    if (!modern) return headers;
    if (method !== '') headers['Mcp-Method'] = method;
    const name = params?.[NAMED[method] ?? ''];
    if (typeof name === 'string') headers['Mcp-Name'] = name;
    return headers;
  }

  call(method: string, params?: Json, options: CallOptions = {}): Promise<Reply> {
    const id = options.id ?? ++this.ids;
    return this.post(method, params, messageOf(this.revision, method, params, id, options), options);
  }

  notify(method: string, params?: Json, options: CallOptions = {}): Promise<Reply> {
    return this.post(method, params, messageOf(this.revision, method, params, undefined, options), options);
  }

  async aside(message: Json): Promise<void> {
    await this.http.send({ method: 'POST', headers: this.headersFor(''), json: message });
  }

  async send(text: string, options: CallOptions = {}): Promise<Reply> {
    const headers = { ...this.headersFor(''), ...options.headers };
    return this.keep(await this.http.send({ method: 'POST', headers, text, ...limits(options) }));
  }

  async close(): Promise<undefined> {
    if (this.session === undefined || this.closed) return;
    this.closed = true;
    await this.http.send({ method: 'DELETE', headers: this.headersFor('') });
  }

  private async post(method: string, params: Json | undefined, json: Json, options: CallOptions): Promise<Reply> {
    const headers = { ...this.headersFor(method, params), ...options.headers };
    return this.keep(await this.http.send({ method: 'POST', headers, json, ...limits(options) }));
  }

  private keep(reply: Reply): Reply {
    this.log.push(reply);
    return reply;
  }
}

const limits = ({ limit, credentials, enough }: CallOptions): object => ({
  ...(limit !== undefined && { limit }),
  ...(credentials !== undefined && { credentials }),
  ...(enough !== undefined && { enough }),
});
