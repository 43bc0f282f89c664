import { ANONYMOUS, Cancellation, type Principal } from '../../core/caller.js';
import type { Cluster } from '../../core/cluster.js';
import type { View } from '../../core/gateway.js';
import { ProtocolError } from '../../protocol/errors.js';
import type { StructureLimits } from '../../protocol/jsonrpc/json-depth-limit.js';
import {
  type Incoming,
  type RpcMessage,
  type RpcRequest,
  readIncoming,
  writeResult,
} from '../../protocol/jsonrpc/message.js';
import { type Classified, classify, type HeaderLookup, unsupportedVersion } from '../../protocol/mcp/client-version.js';
import { HEADER } from '../../protocol/mcp/mirrored-headers.js';
import { NEWEST, revisionOf, soundsModern } from '../../protocol/mcp/revisions/index.js';
import { EVENT_STREAM, writeEvent } from '../../protocol/sse/writer.js';
import { type Accepted, accepted, isJson } from '../http/accept-header.js';
import { STREAM_AGE } from '../http/event-stream-response.js';
import type { InboundRequest } from '../http/request.js';
import type { InboundResponse } from '../http/response.js';
import type { Method, RequestContext, Route } from '../http/route.js';
import { sendBody, sendEmpty, sendJson } from '../http/send-body.js';
import { sendPage } from './html-page.js';
import { answerLost, connect, ModernReplyChannel, RETRY, SessionReplyChannel } from './http-reply-channels.js';
import type { InfoPage } from './info-page.js';
import { MCP_ERRORS, refuse, versionOf, withVersion } from './mcp-errors.js';
import type { ModernRequestHandler } from './modern-requests.js';
import { isPublic } from './public-discovery.js';
import type { Refused, ReplyChannel } from './reply-channel.js';
import { Batch } from './session/batch.js';
import type { ClientSession } from './session/client-session.js';
import { isGetEvent, requestOf, streamOf } from './session/event-ids.js';
import { EventLog, LoggedStream } from './session/event-log.js';
import { GetStreams, madeEverywhere } from './session/get-stream-forwarding.js';
import type { Carrier, Sessions } from './session/sessions.js';
import type { Resumable, SharedStreams } from './session/shared-streams.js';

/** Minimum time between two messages that ask the replicas for the GET stream of a session, in milliseconds. */
const WANTED_EVERY = 5_000;

/** A session of Streamable HTTP. Its streams are logged so that they can be resumed. */
export class HttpCarrier implements Carrier {
  readonly reachable = true;
  private events: EventLog | undefined;
  private wantedAt = Number.NEGATIVE_INFINITY;

  constructor(
    private readonly session: string,
    private readonly shared: SharedStreams | undefined,
    private readonly gets: GetStreams | undefined,
  ) {}

  /** Created on first use, because most sessions are idle most of the time. */
  get log(): EventLog {
    this.events ??= new EventLog(this.session, this.shared);
    return this.events;
  }

  get connected(): boolean {
    return this.events?.hasGet === true;
  }

  get messages(): LoggedStream | undefined {
    return this.events?.messages;
  }

  unsolicited(message: Buffer): void {
    const { general } = this.log;
    general.append([message]);
    if (!general.connected) this.wantGet(message);
  }

  /** Asks the other replicas for the GET stream of the session, because they may not know that messages wait here. */
  private wantGet(message: Buffer): void {
    const now = performance.now();
    if (!this.gets || now - this.wantedAt < WANTED_EVERY || madeEverywhere(message.toString('utf8', 0, 100))) return;
    this.wantedAt = now;
    this.gets.wanted(this.session);
  }

  requestReconnect(): void {
    if (this.connected) this.log.general.closeForReconnect(RETRY);
  }

  followed(stream: string): void {
    this.events?.followed(stream);
  }

  /** A stream of the session that this replica produces. */
  stream(id: string): Resumable | undefined {
    return this.events?.here(id);
  }

  /** The client of the session sent a message over this connection. */
  messageReceived(connection: object | undefined): void {
    if (connection) this.events?.read(connection);
  }

  ended(): void {
    if (this.connected) this.log.general.finish();
    this.events?.close();
  }
}

export interface McpHttpEndpointOptions {
  readonly modern: ModernRequestHandler;
  readonly sessions: Sessions<HttpCarrier>;
  readonly info: InfoPage;
  readonly limits: StructureLimits & { readonly body: number; readonly batch: number };
  /** The replicas at which a client may have its GET stream open. */
  readonly cluster?: Cluster;
  /** The store in which other replicas find streams; absent without other replicas. */
  readonly shared?: SharedStreams;
  /** How long a call continues after its client lost the connection, in milliseconds. */
  readonly resumeWindow: number;
  readonly strictAccept: boolean;
  readonly refused?: Refused | undefined;
  readonly clientTermination: boolean;
  /** The error for a caller without a credential, if such callers may read the lists (C-14); otherwise absent. */
  readonly anonymous?: ((req: InboundRequest) => ProtocolError) | undefined;
}

/** One request at the MCP endpoint, and the parts of its response. */
interface Exchange {
  readonly req: InboundRequest;
  readonly res: InboundResponse;
  readonly view: View;
  readonly principal: Principal;
  /** Headers of every response. */
  readonly base: readonly string[];
  readonly accepts: Accepted;
}

const exchangeOf = ({ req, res, principal, headers: base }: RequestContext, view: View): Exchange => ({
  req,
  res,
  view,
  principal,
  base,
  accepts: accepted(req.header('accept')),
});

/** The MCP endpoint over HTTP: every revision, detected for each message (mcp.md 5.3). */
export class McpHttpEndpoint {
  private readonly gets: GetStreams | undefined;

  constructor(private readonly options: McpHttpEndpointOptions) {
    this.gets = options.cluster && new GetStreams(options.cluster, (key) => options.sessions.carrierOf(key));
    options.shared?.serve?.((session, stream) => options.sessions.carrierOf(session)?.stream(stream));
  }

  /** The routes of the endpoint at one path; `viewOf` returns the part of the catalog that the path serves. */
  routes(path: string, viewOf: (context: RequestContext) => View): Route[] {
    const route = (method: Method, description: string, handle: (exchange: Exchange) => Promise<void>): Route => ({
      method,
      path,
      access: 'user',
      errors: MCP_ERRORS,
      description,
      handle: (context) => handle(exchangeOf(context, viewOf(context))),
    });
    return [
      route('GET', 'MCP: the event stream of a session, or a description of the endpoint', (context) =>
        this.get(context),
      ),
      {
        ...route('POST', 'MCP: one message, or a batch of them', (context) => this.post(context)),
        access: this.options.anonymous ? 'public' : 'user',
      },
      ...(this.options.clientTermination
        ? [route('DELETE', 'MCP: ends a session', (context) => this.delete(context))]
        : []),
    ];
  }

  private async post(context: Exchange): Promise<void> {
    const { req, accepts } = context;
    if (!isJson(req.header('content-type'))) {
      throw new ProtocolError('unsupported_media_type', 'Content-Type must be application/json');
    }
    if (!accepts.json && !accepts.stream) {
      throw new ProtocolError('not_acceptable', 'Accept must allow application/json or text/event-stream');
    }
    if (this.options.strictAccept && !(accepts.json && accepts.stream)) {
      throw new ProtocolError('not_acceptable', 'Accept must list both application/json and text/event-stream');
    }
    const { limits } = this.options;
    const { anonymous } = this.options;
    const unknown = context.principal === ANONYMOUS && anonymous;
    // A request with a credential that is not valid is refused, because its sender expects more than the public lists.
    if (unknown && req.header('authorization') !== undefined) throw unknown(req);
    const incoming = readIncoming(await req.read(limits.body), limits);
    if (unknown && !isPublic(incoming)) throw unknown(req);
    if (incoming.kind === 'batch' || incoming.kind === 'response') {
      await this.inSession(context, incoming);
      return;
    }
    const header = lookup(req);
    let classified: Classified;
    try {
      classified = classify(incoming, header);
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      // Only requests that claim to be modern are refused here, independent of their version header.
      this.options.refused?.(error);
      refuse(context.res, context.base, error, NEWEST.date);
      return;
    }
    switch (classified.kind) {
      case 'modern':
        if (incoming.kind === 'notification')
          sendEmpty(context.res, 202, withVersion(context.base, classified.envelope.revision));
        else await this.modern(context, incoming, classified.envelope, header);
        break;
      case 'initialize':
        await this.initialize(context, incoming as RpcRequest);
        break;
      case 'session':
        // HDR-09: a modern client may send a notification with only the version header.
        if (incoming.kind === 'notification' && soundsModern(header(HEADER.version)?.trim() ?? ''))
          sendEmpty(context.res, 202, withVersion(context.base, NEWEST));
        else await this.inSession(context, incoming);
    }
  }

  private modern(
    context: Exchange,
    message: RpcRequest,
    envelope: Parameters<ModernRequestHandler['handle']>[0]['envelope'],
    header: HeaderLookup,
  ): Promise<void> {
    const { res, view, principal, accepts } = context;
    const cancellation = new Cancellation();
    const isListen = message.method === 'subscriptions/listen';
    if (isListen && !accepts.stream)
      throw new ProtocolError('not_acceptable', 'A subscription needs Accept: text/event-stream');
    if (isListen) context.req.listens = true;
    const channel = new ModernReplyChannel(
      context.req.id,
      context.req.clientAddress,
      res,
      withVersion(context.base, envelope.revision),
      accepts,
    );
    const maxAge = STREAM_AGE;
    const handled = this.options.modern.handle({
      principal,
      view,
      message,
      envelope,
      channel,
      cancellation,
      header,
      maxAge,
    });
    // By now the request has usually been sent to its server, so this work does not delay the request.
    channel.awaited();
    // A client of this era cancels a request by closing the stream (HM-10).
    res.onClose(() => {
      channel.stop();
      if (!res.finished) cancellation.cancel('the client closed the stream');
      else if (isListen) cancellation.cancel();
    });
    return handled;
  }

  private async initialize(context: Exchange, message: RpcRequest): Promise<void> {
    const { res, view, principal, base } = context;
    if (message.kind !== 'request') throw new ProtocolError('invalid_request', 'initialize must be a request');
    try {
      const { id, session, result } = await this.options.sessions.open(
        principal,
        view,
        message.params,
        (key) => this.carrierFor(key),
        { requestId: context.req.id, address: context.req.clientAddress, id: message.id },
      );
      const headers = [...withVersion(base, session.revision), 'Mcp-Session-Id', id];
      const body = writeResult(message.id, [Buffer.from(JSON.stringify(result))]);
      if (context.accepts.json) sendJson(res, 200, headers, body);
      else sendBody(res, 200, headers, EVENT_STREAM, writeEvent(body));
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      refuse(res, base, error, undefined, message.id);
    }
  }

  private async inSession(context: Exchange, incoming: Incoming): Promise<void> {
    const { req, res, base, accepts } = context;
    const { session, carrier } = await this.sessionOf(context, incoming);
    const headers = withVersion(base, session.revision);
    const connection = connectionOf(req);
    carrier.messageReceived(connection);
    if (incoming.kind === 'batch') {
      await this.batch(context, session, carrier, incoming.items, headers);
      return;
    }
    if (incoming.kind !== 'request') {
      await session.handle(context.principal, incoming, NOWHERE);
      sendEmpty(res, 202, headers);
      return;
    }
    const { primingEvents } = session.revision;
    const channel = new SessionReplyChannel(
      req.id,
      req.clientAddress,
      res,
      headers,
      accepts,
      carrier.log,
      primingEvents,
      incoming.id,
      connection,
    );
    const { id } = incoming;
    channel.awaitReconnect(this.options.resumeWindow, () => session.abandon([id]));
    await session.handle(context.principal, incoming, channel, accepts.stream);
  }

  private async batch(
    context: Exchange,
    session: ClientSession,
    carrier: HttpCarrier,
    items: readonly (RpcMessage | ProtocolError)[],
    headers: readonly string[],
  ): Promise<void> {
    const { limits } = this.options;
    if (!session.revision.expresses.batches) {
      throw new ProtocolError(
        'batch_not_allowed',
        `Protocol version ${session.revision.date} does not support batches`,
      );
    }
    if (items.length === 0) throw new ProtocolError('invalid_request', 'A batch must not be empty');
    if (items.length > limits.batch)
      throw new ProtocolError('invalid_request', `A batch may have at most ${limits.batch} messages`);
    const channel = new SessionReplyChannel(
      context.req.id,
      context.req.clientAddress,
      context.res,
      headers,
      context.accepts,
      carrier.log,
      false,
    );
    const ids = items.flatMap((item) => (!(item instanceof ProtocolError) && item.kind === 'request' ? [item.id] : []));
    channel.awaitReconnect(this.options.resumeWindow, () => session.abandon(ids));
    await new Batch(items, channel, this.options.refused).run((message, to) =>
      session.handle(context.principal, message, to, context.accepts.stream),
    );
  }

  private async sessionOf(
    context: Exchange,
    incoming?: Incoming,
  ): Promise<{ session: ClientSession; carrier: HttpCarrier }> {
    const { req, principal, view } = context;
    const id = req.header(HEADER.session);
    const about = incoming?.kind === 'request' ? { id: incoming.id } : {};
    const version = versionOf(req);
    // C-02: checked before the session, so that a client learns the supported versions (S2-04, HL-16).
    if (version !== undefined && !soundsModern(version) && revisionOf(version)?.era !== 'legacy')
      throw unsupportedVersion(version);
    if (id === undefined) {
      if (incoming?.kind === 'batch')
        throw new ProtocolError(
          'batch_not_allowed',
          'Batches are only supported in sessions of a revision with batches',
        );
      throw new ProtocolError(
        'session_required',
        'Mcp-Session-Id is missing: initialize first, or send the modern request metadata',
        about,
      );
    }
    const entry = await this.options.sessions.find(id, principal, view, (key) => this.carrierFor(key));
    if (version !== undefined && revisionOf(version)?.era !== 'legacy') throw unsupportedVersion(version);
    return entry;
  }

  /** C-01: a stream or a description of the endpoint, depending on the Accept header. */
  private async get(context: Exchange): Promise<void> {
    const { req, res, base, accepts } = context;
    const version = versionOf(req);
    if (version !== undefined && soundsModern(version)) {
      throw new ProtocolError('http_method_not_allowed', `HTTP method ${req.method} not allowed`, {
        headers: { Allow: 'POST' },
      });
    }
    if (accepts.stream && req.method === 'GET') {
      await this.openStream(context);
      return;
    }
    if (accepts.html) {
      await sendPage(res, base, this.options.info.html(context.view, context.principal, req.reachedUrl));
      return;
    }
    if (!accepts.json)
      throw new ProtocolError('not_acceptable', 'Accept must allow application/json, text/event-stream or text/html');
    const page = Buffer.from(JSON.stringify(await this.options.info.describe(context.view, context.principal)));
    const headers = [...withVersion(base, NEWEST), 'Vary', 'Accept'];
    sendJson(res, 200, headers, [page]);
  }

  private async openStream(context: Exchange): Promise<void> {
    const { req, res, base } = context;
    const { session, carrier } = await this.sessionOf(context);
    const headers = [...withVersion(base, session.revision), 'Vary', 'Accept'];
    const last = req.header(HEADER.lastEventId);
    if (last !== undefined) {
      await this.resume(context, session, carrier, last, headers);
      return;
    }
    if (carrier.connected) throw new ProtocolError('stream_conflict', 'This session already has an open stream');
    this.openGet(res, headers, session, carrier);
  }

  /** Opens the stream for messages that belong to no request. `last` is the last event that another replica sent. */
  private openGet(
    res: InboundResponse,
    headers: readonly string[],
    session: ClientSession,
    carrier: HttpCarrier,
    last?: string,
  ): void {
    const { primingEvents: priming } = session.revision;
    connect(res, headers, carrier.log.general, { priming, maxAge: STREAM_AGE });
    this.gets?.opened(session.key, last);
  }

  private carrierFor(key: string): HttpCarrier {
    return new HttpCarrier(key, this.options.shared, this.gets);
  }

  private async resume(
    { res }: Exchange,
    session: ClientSession,
    carrier: HttpCarrier,
    last: string,
    headers: readonly string[],
  ): Promise<void> {
    // The messages of a stopped replica are lost, but the stream continues at any replica.
    if (isGetEvent(last) && !carrier.stream(streamOf(last)!.stream)) {
      this.openGet(res, headers, session, carrier, last);
      return;
    }
    try {
      const { stream, seq } = await carrier.log.find(last, session.owner);
      connect(res, headers, stream, { after: seq, maxAge: STREAM_AGE });
      if (!(stream instanceof LoggedStream)) this.follow(session, last, res);
      else if (stream === carrier.messages) this.gets?.opened(session.key);
    } catch (error) {
      const request = requestOf(last);
      if (!(error instanceof ProtocolError) || error.reason !== 'event_not_found' || request === undefined) throw error;
      answerLost(res, headers, request);
    }
  }

  /** Keeps the replica that produces the stream informed that a client is reading it. */
  private follow(session: ClientSession, eventId: string, res: InboundResponse): void {
    const stream = eventId.slice(0, eventId.lastIndexOf('.'));
    const tell = (): void => this.options.sessions.follow(session, stream);
    tell();
    const timer = setInterval(tell, this.options.resumeWindow / 4).unref();
    res.onClose(() => clearInterval(timer));
  }

  private async delete(context: Exchange): Promise<void> {
    const { req, res, base } = context;
    const version = versionOf(req);
    if (version !== undefined && soundsModern(version)) {
      throw new ProtocolError('http_method_not_allowed', 'HTTP method DELETE not allowed', {
        headers: { Allow: 'GET, HEAD, POST, OPTIONS' },
      });
    }
    const { session } = await this.sessionOf(context);
    await this.options.sessions.end(session, 'The client ended the session');
    sendJson(res, 200, withVersion(base, session.revision), [
      Buffer.from('{"success":true,"message":"Session terminated"}'),
    ]);
  }
}

const NOWHERE: ReplyChannel = { send: () => {}, finish: () => {} };

/**
 * Headers that proxies add. A proxy reads responses before its clients read them, and sends requests of several clients
 * over one connection.
 */
const PROXIED = ['forwarded', 'via', 'x-forwarded-for', 'x-real-ip'];

/** The client's own connection; undefined if there is a proxy in between. */
function connectionOf(req: InboundRequest): object | undefined {
  for (const name of PROXIED) if (req.header(name) !== undefined) return undefined;
  return req.source.identity;
}

function lookup(req: InboundRequest): HeaderLookup {
  return (name) => req.header(name);
}
