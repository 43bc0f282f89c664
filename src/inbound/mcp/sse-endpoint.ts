import type { Principal } from '../../core/caller.js';
import type { View } from '../../core/gateway.js';
import { ProtocolError } from '../../protocol/errors.js';
import type { StructureLimits } from '../../protocol/jsonrpc/json-depth-limit.js';
import { type RpcRequest, readIncoming, writeResult } from '../../protocol/jsonrpc/message.js';
import { HTTP_SSE } from '../../protocol/mcp/revisions/index.js';
import { writeEvent } from '../../protocol/sse/writer.js';
import { accepted, isJson } from '../http/accept-header.js';
import { EventResponse } from '../http/event-stream-response.js';
import type { InboundResponse } from '../http/response.js';
import type { RequestContext, Route } from '../http/route.js';
import { sendBody } from '../http/send-body.js';
import { sendPage } from './html-page.js';
import type { InfoPage } from './info-page.js';
import { MCP_ERRORS } from './mcp-errors.js';
import type { Refused, ReplyChannel } from './reply-channel.js';
import { Batch } from './session/batch.js';
import { type ClientSession, notUnderstood } from './session/client-session.js';
import type { Carrier, Sessions } from './session/sessions.js';

/** One stream of HTTP+SSE, which carries all messages of the gateway to its client. */
export class SseCarrier implements Carrier {
  readonly reachable = true;

  constructor(private readonly response: EventResponse) {}

  /** Whether the stream is open. The session ends with the stream. */
  get connected(): boolean {
    return !this.response.over;
  }

  unsolicited(message: Buffer): void {
    this.send([message]);
  }

  send(message: readonly Buffer[]): void {
    if (message.length === 0) return;
    this.response.message(writeEvent(message));
  }

  ended(): void {
    this.response.end();
  }
}

/** A client that has opened its stream; its handshake may not be finished. */
interface SseConnection {
  readonly carrier: SseCarrier;
  /** The key of the client's principal. */
  readonly owner: string;
  readonly view: View;
  session: ClientSession | undefined;
  /** Whether the handshake is in progress. */
  opening: boolean;
}

export interface SseEndpointOptions {
  readonly sessions: Sessions<SseCarrier>;
  readonly info: InfoPage;
  readonly limits: StructureLimits & { readonly body: number; readonly batch: number };
  readonly refused?: Refused | undefined;
  mintId(principal: Principal): string;
}

const ACCEPTED = [Buffer.from('Accepted')];
const CLOSED = 'The client closed its stream';
/** S3-14: the transport is deprecated, and served as long as clients need it. */
const DEPRECATED = ['Deprecation', 'true'];

/** HTTP+SSE of the first revision: a stream that announces the URL for posts, and the posts. */
export class SseEndpoint {
  private readonly connections = new Map<string, SseConnection>();

  constructor(private readonly options: SseEndpointOptions) {}

  /** The stream at one path, and the clients' posts at another. */
  routes(stream: string, messages: string, viewOf: (context: RequestContext) => View): Route[] {
    const route = { access: 'user', errors: MCP_ERRORS } as const;
    return [
      {
        ...route,
        method: 'GET',
        path: stream,
        description: 'MCP over HTTP+SSE: the stream of a session',
        handle: (context) => {
          const view = viewOf(context);
          const { pathName } = view;
          return this.open(context, view, pathName === undefined ? messages : `/mcp/${pathName}/messages`);
        },
      },
      {
        ...route,
        method: 'POST',
        path: messages,
        description: 'MCP over HTTP+SSE: one message of a client',
        handle: (context) => this.post(context, viewOf(context)),
      },
    ];
  }

  private async open(context: RequestContext, view: View, messages: string): Promise<void> {
    const { req, res, principal, headers: base } = context;
    const accepts = accepted(req.header('accept'));
    if (!accepts.stream && !(req.header('accept') ?? '*/*').includes('*/*')) {
      if (!accepts.html) throw new ProtocolError('not_acceptable', 'Accept must allow text/event-stream');
      await sendPage(res, base, this.options.info.html(view, principal, req.reachedUrl));
      return;
    }
    if (context.query.get('view') === 'catalog') {
      await this.catalog(res, view, principal, base);
      return;
    }
    const id = this.options.mintId(principal);
    const headers = [
      ...base,
      ...DEPRECATED,
      'Mcp-Protocol-Version',
      HTTP_SSE.date,
      'Mcp-Session-Id',
      id,
      'X-SSE-Session-ID',
      id,
    ];
    const response = new EventResponse(res, headers);
    const connection: SseConnection = {
      carrier: new SseCarrier(response),
      owner: principal.key,
      view,
      session: undefined,
      opening: false,
    };
    this.connections.set(id, connection);
    res.onClose(() => {
      this.connections.delete(id);
      if (connection.session) this.end(connection.session);
    });
    response.write(`event: endpoint\ndata: ${messages}?sessionId=${id}\n\n`);
  }

  /** C-12: a stream that shows the catalog to programs that do not speak the protocol. */
  private async catalog(
    res: InboundResponse,
    view: View,
    principal: Principal,
    base: readonly string[],
  ): Promise<void> {
    const page = await this.options.info.describe(view, principal);
    const { tools, serverInfo } = page['result'] as { tools: unknown; serverInfo: unknown };
    const response = new EventResponse(res, [...base, ...DEPRECATED]);
    response.write(`event: connection\ndata: ${JSON.stringify(serverInfo)}\n\n`);
    response.message([Buffer.from(`event: endpoint\ndata: ${JSON.stringify({ endpoints: tools })}\n\n`)]);
    const ping = setInterval(() => response.write(`event: ping\ndata: ${Date.now()}\n\n`), 15_000);
    ping.unref();
    res.onClose(() => clearInterval(ping));
  }

  private async post({ req, res, principal, headers: base, query }: RequestContext, view: View): Promise<void> {
    const sessionId = query.get('sessionId');
    if (!isJson(req.header('content-type')))
      throw new ProtocolError('unsupported_media_type', 'Content-Type must be application/json');
    if (!sessionId) throw new ProtocolError('session_required', 'sessionId is missing');
    const connection = this.connections.get(sessionId);
    // The path must be that of the session, because it decides which callers may use the view and which access tokens
    // are accepted.
    if (!connection || connection.owner !== principal.key || connection.view.key !== view.key)
      throw new ProtocolError('session_not_found', 'Session not found; open the stream again');
    const { limits, refused } = this.options;
    const incoming = readIncoming(await req.read(limits.body), limits);
    const channel: ReplyChannel = {
      requestId: req.id,
      address: req.clientAddress,
      send: (message) => connection.carrier.send([message]),
      finish: (message) => connection.carrier.send(message),
    };
    if (
      incoming.kind === 'batch' &&
      (!connection.session?.revision.expresses.batches ||
        incoming.items.length > limits.batch ||
        incoming.items.length === 0)
    ) {
      throw new ProtocolError(
        'batch_not_allowed',
        'This session does not support batches, or the batch is empty or too large',
      );
    }
    // The response itself is sent on the stream.
    sendBody(res, 202, [...base, ...DEPRECATED], 'text/plain', ACCEPTED);
    if (incoming.kind === 'batch')
      await new Batch(incoming.items, channel, refused).run((message, to) =>
        connection.session!.handle(principal, message, to),
      );
    else if (
      incoming.kind === 'request' &&
      incoming.method === 'initialize' &&
      !connection.session &&
      !connection.opening
    )
      await this.initialize(connection, principal, incoming, { requestId: req.id, address: req.clientAddress });
    else if (connection.session) await connection.session.handle(principal, incoming, channel);
    else if (incoming.kind === 'request') this.beforeHandshake(connection, incoming);
  }

  private async initialize(
    connection: SseConnection,
    principal: Principal,
    message: RpcRequest,
    about: { readonly requestId: string; readonly address: string },
  ): Promise<void> {
    connection.opening = true;
    try {
      const { session, result } = await this.options.sessions.open(
        principal,
        connection.view,
        message.params,
        () => connection.carrier,
        { ...about, id: message.id },
      );
      connection.session = session;
      if (!connection.carrier.connected) this.end(session);
      connection.carrier.send(writeResult(message.id, [Buffer.from(JSON.stringify(result))]));
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      connection.carrier.send([notUnderstood(message.id, error)]);
    } finally {
      connection.opening = false;
    }
  }

  /** A session of HTTP+SSE is not stored, so ending it does not need the database. */
  private end(session: ClientSession): void {
    this.options.sessions.end(session, CLOSED).catch(() => {});
  }

  private beforeHandshake(connection: SseConnection, { id, method }: RpcRequest): void {
    if (method === 'ping') connection.carrier.send(writeResult(id, [Buffer.from('{}')]));
    else {
      const error = new ProtocolError('invalid_request', 'The first request must be initialize');
      this.options.refused?.(error);
      connection.carrier.send([notUnderstood(id, error)]);
    }
  }
}
