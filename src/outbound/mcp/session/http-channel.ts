import type { Caller } from '../../../core/caller.js';
import { backoff, within } from '../../../core/timing.js';
import type { Credential } from '../../../identity/upstream-credentials.js';
import type { ProtocolError } from '../../../protocol/errors.js';
import type { GappedText } from '../../../protocol/jsonrpc/gapped-message.js';
import { HEADER } from '../../../protocol/mcp/mirrored-headers.js';
import type { Revision } from '../../../protocol/mcp/revisions/index.js';
import { isEventStream } from '../../../protocol/sse/reader.js';
import { connectionProblem } from '../../http/connection-problem.js';
import {
  type Abortable,
  type HttpFailure,
  type HttpHeaders,
  type HttpTarget,
  headerOf,
  inLane,
} from '../../http/index.js';
import { EventStream } from '../event-stream.js';
import { refusal } from '../http-status-errors.js';
import { type PostEvents, post } from '../post-reply.js';
import { ReplyEndTimer } from '../reply-end-timer.js';
import { isSendableEventId, lastEventIdHeader, POST_HEADERS, sessionHeaders } from '../request-headers.js';
import type { CredentialHolder } from '../server-credential.js';
import { broken, foreignReply, unconnected, withoutCredential } from '../server-errors.js';
import type { UpstreamContext } from '../upstream-context.js';
import type { Channel, ChannelEvents, Ticket } from './channel.js';
import { SessionCallers } from './session-callers.js';

const DEFAULT_RETRY = 1_000;
const MIN_RETRY = 100;
const MAX_RETRY = 30_000;
const RESUMES = 10;
const ACCEPT_PATIENCE = 1_000;
const LISTEN_PATIENCE = 500;

/** Limits the retry time of a server to a range that is neither a busy loop nor too long for a timer. */
const bounded = (retry: number): number => Math.min(MAX_RETRY, Math.max(MIN_RETRY, retry));

/** Legacy Streamable HTTP: one POST per message, the reply in the response, other messages on a GET stream. */
export class HttpChannel implements Channel {
  readonly correlates = true;
  private events!: ChannelEvents;
  private sessionId: string | undefined;
  private revision: Revision | undefined;
  private unsolicited: EventStream | undefined;
  /** Whether the stream for messages that belong to no request is open. */
  hears = false;
  /** Open HTTP requests, each with the MCP request whose reply it carries. */
  private readonly inFlight = new Map<Abortable, Ticket | undefined>();
  /** The headers of POST requests with one credential; built again when the credential or a header changes. */
  private posting: { readonly as: Credential; readonly headers: readonly string[] } | undefined;
  private readonly speakers: SessionCallers;
  private readonly timers = new Set<NodeJS.Timeout>();
  private closed = false;

  constructor(
    private readonly context: UpstreamContext,
    private readonly target: HttpTarget,
    holder: CredentialHolder,
    /** The id of a session that another process opened. */
    adopted?: string,
  ) {
    this.speakers = new SessionCallers(context, holder);
    this.sessionId = adopted;
  }

  /** Calls `run` with the credential of the next request. Calls it at once if the credential is known. */
  private authorized(run: (credential: Credential) => void, refused: (error: ProtocolError) => void): void {
    const given = this.speakers.credential();
    if (!(given instanceof Promise)) {
      this.use(given, run);
      return;
    }
    given.then(
      (credential) => {
        if (!this.closed) this.use(credential, run);
      },
      (error: unknown) => refused(withoutCredential(this.context, error)),
    );
  }

  /** Sends with the credential. Ends the session if there is no credential because the callers have changed theirs. */
  private use(credential: Credential | undefined, run: (credential: Credential) => void): void {
    if (credential) run(credential);
    else this.events.expired(undefined);
  }

  get portable(): { readonly session: string | undefined; readonly credential: string; leave(): void } {
    return { session: this.sessionId, credential: this.speakers.key, leave: () => this.leave() };
  }

  async open(events: ChannelEvents): Promise<void> {
    this.events = events;
  }

  established(revision: Revision): void {
    this.revision = revision;
    this.posting = undefined;
  }

  private headers(credential: Credential): string[] {
    return sessionHeaders(credential, this.sessionId, this.revision);
  }

  /** Waits only a short time, so that a slow server does not delay the messages that follow. */
  sendFirst(message: Buffer): Promise<void> {
    const accepted = new Promise<void>((resolve) => this.send(message, undefined, resolve));
    return within(accepted, ACCEPT_PATIENCE);
  }

  admit(caller: Caller): void {
    this.speakers.admit(caller);
  }

  send(message: Buffer, ticket?: Ticket, taken?: () => void, caller?: Caller): void {
    const post = (credential: Credential): void => this.post(credential, message, ticket, taken);
    this.speakers.send({ ticket, taken, caller, post, events: this.events, closed: () => this.closed });
  }

  private post(credential: Credential, message: Buffer, ticket: Ticket | undefined, taken?: () => void): void {
    if (this.posting?.as !== credential)
      this.posting = { as: credential, headers: [...POST_HEADERS, ...this.headers(credential)] };
    const reply = new Reply(this, ticket, taken);
    const target = inLane(this.target, credential.key);
    reply.wire = post(this.context.http, target, this.posting.headers, message, reply, this.context.limits);
    // A request needs no timer here, because its call has a timer.
    if (!ticket) reply.expireIn(this.context.timeouts.call);
    this.inFlight.set(reply, ticket);
  }

  drop(ticket: Ticket): void {
    for (const [wire, carried] of this.inFlight) if (carried === ticket) wire.abort();
  }

  /** Called by the reply stream of a POST. */
  forget(reply: Abortable): void {
    this.inFlight.delete(reply);
  }

  accepted(headers: HttpHeaders): void {
    if (this.sessionId !== undefined) return;
    this.sessionId = headerOf(headers, HEADER.session);
    this.posting = undefined;
  }

  received(text: Buffer | GappedText, ticket: Ticket | undefined, type: string | undefined): void {
    const foreign = ticket && foreignReply(this.context, type);
    if (foreign) this.events.lost(ticket, foreign);
    else this.events.message(text, ticket);
  }

  refused(status: number, headers: HttpHeaders, body: Buffer, ticket: Ticket | undefined): void {
    if (status === 404 && this.sessionId !== undefined) this.events.expired(ticket);
    else if (ticket) this.events.lost(ticket, refusal(this.context, status, headers, body));
  }

  /** The reply ended before the answer. Resumes the reply if the server sent event ids (HLC-06, HLC-07). */
  ended(ticket: Ticket | undefined, failure: HttpFailure | undefined, retry: number | undefined): void {
    if (!ticket || ticket.done || this.closed) return;
    if (failure && !failure.sent) this.events.lost(ticket, unconnected(this.context, failure.error));
    else if (ticket.lastEventId !== undefined && failure?.error.name !== 'ReplyTooLarge')
      this.poll(ticket, retry ?? DEFAULT_RETRY);
    else {
      const why = failure
        ? `failed before it answered: ${failure.error.name === 'ReplyTooLarge' ? failure.error.message : connectionProblem(failure.error)}`
        : 'ended its reply without an answer';
      this.events.lost(ticket, broken(this.context, why));
    }
  }

  private poll(ticket: Ticket, retry: number): void {
    ticket.polling(retry);
    this.resume(ticket, retry, 0);
  }

  /** Resumes a reply whose first part another process has read. Resolves when the rest starts to arrive. */
  resumeReply(ticket: Ticket): Promise<void> {
    return new Promise((resolve) => this.resume(ticket, 0, 0, resolve));
  }

  private resume(ticket: Ticket, retry: number, attempt: number, opened?: () => void): void {
    const lost = (error: ProtocolError): void => {
      if (!ticket.done) this.events.lost(ticket, error);
    };
    const ask = (credential: Credential): void => {
      if (ticket.done) return;
      let wait = retry;
      let progressed = false;
      const again = (why: string): void => {
        this.inFlight.delete(handle);
        if (ticket.done || this.closed) return;
        if (!progressed && attempt >= RESUMES)
          this.events.lost(ticket, broken(this.context, `failed before it answered: ${why}`));
        else this.resume(ticket, bounded(wait), progressed ? 0 : attempt + 1, opened);
      };
      const stream = EventStream.open(
        this.context.http,
        inLane(this.target, credential.key),
        [...this.headers(credential), ...lastEventIdHeader(ticket.lastEventId!)],
        {
          open: () => opened?.(),
          event: (_, data) => {
            progressed = true;
            this.events.message(data, ticket);
            if (ticket.done) handle.abort();
          },
          eventId: (id) => {
            if (isSendableEventId(id)) ticket.lastEventId = id;
          },
          retry: (milliseconds) => {
            wait = milliseconds;
          },
          refused: (status) => {
            this.inFlight.delete(handle);
            if (status === 404) this.events.expired(undefined);
            this.events.lost(ticket, broken(this.context, `could not resume its reply (HTTP ${status})`));
          },
          end: again,
        },
        this.context.limits.event,
      );
      const handle: Abortable = {
        abort: () => {
          this.inFlight.delete(handle);
          stream.close();
        },
      };
      this.inFlight.set(handle, ticket);
    };
    this.later(retry, () => this.authorized(ask, lost));
  }

  /** Waits only a short time: some servers send no response headers before their first message. */
  listen(): Promise<void> {
    return within(new Promise<void>((resolve) => this.listenFrom(undefined, 0, resolve)), LISTEN_PATIENCE);
  }

  pauseListening(milliseconds: number): void {
    const listened = this.unsolicited !== undefined;
    this.unsolicited?.close();
    this.unsolicited = undefined;
    this.hears = false;
    // Also closes streams in reply to messages that are not requests: no call needs them.
    for (const wire of [...this.inFlight.keys()]) if (wire instanceof Reply && wire.stray) wire.abort();
    // Starts without an event id: messages sent during the pause are not requested again.
    if (listened) this.later(milliseconds, () => this.listenFrom(undefined, 1));
  }

  private listenFrom(lastEventId: string | undefined, attempt: number, answered?: () => void): void {
    if (this.closed) return;
    const { resting } = this.context.traffic;
    if (resting > 0) {
      answered?.();
      this.later(resting, () => this.listenFrom(lastEventId, attempt));
      return;
    }
    const again = backoff(attempt + 1, { first: DEFAULT_RETRY, longest: MAX_RETRY });
    this.authorized(
      (credential) => this.listenWith(credential, lastEventId, attempt, answered),
      () => {
        answered?.();
        this.later(again, () => this.listenFrom(lastEventId, attempt + 1));
      },
    );
  }

  private listenWith(
    credential: Credential,
    lastEventId: string | undefined,
    attempt: number,
    answered: (() => void) | undefined,
  ): void {
    let last = lastEventId;
    let wait = backoff(attempt + 1, { first: DEFAULT_RETRY, longest: MAX_RETRY });
    let opened = false;
    const headers = this.headers(credential);
    if (last !== undefined) headers.push(...lastEventIdHeader(last));
    this.unsolicited = EventStream.open(
      this.context.http,
      inLane(this.target, credential.key),
      headers,
      {
        open: () => {
          opened = true;
          this.hears = true;
          answered?.();
          // Without an event id, messages sent since the last stream are lost.
          if (attempt > 0 && lastEventId === undefined) this.events.gap();
        },
        event: (_, data) => this.events.message(data, undefined),
        eventId: (id) => {
          if (isSendableEventId(id)) last = id;
        },
        retry: (milliseconds) => {
          wait = bounded(milliseconds);
        },
        refused: (status) => {
          answered?.();
          if (status === 404 && this.sessionId !== undefined) this.events.expired(undefined);
          // On 405 the server offers no stream for messages outside of requests (HL-07). If the request had an event
          // id, the server may have refused only the id, so the next attempt has none.
          else if (lastEventId !== undefined) this.later(wait, () => this.listenFrom(undefined, attempt + 1));
          else if (status >= 500) this.later(wait, () => this.listenFrom(undefined, attempt + 1));
        },
        end: () => {
          answered?.();
          this.hears = false;
          this.later(wait, () => this.listenFrom(last, opened ? 1 : attempt + 1));
        },
      },
      this.context.limits.event,
    );
  }

  private later(milliseconds: number, run: () => void): void {
    if (this.closed) return;
    const timer = setTimeout(() => {
      this.timers.delete(timer);
      if (!this.closed) run();
    }, milliseconds);
    timer.unref();
    this.timers.add(timer);
  }

  private leave(): void {
    this.closed = true;
    this.hears = false;
    for (const timer of this.timers) clearTimeout(timer);
    this.unsolicited?.close();
    for (const wire of this.inFlight.keys()) wire.abort();
  }

  async close(): Promise<void> {
    if (this.closed) return;
    this.leave();
    if (this.sessionId === undefined) return;
    const given = this.speakers.credential();
    const credential = given instanceof Promise ? await given.catch(() => undefined) : given;
    if (!credential) return;
    await new Promise<void>((resolve) => {
      // HLC-03: DELETE lets the server free the session at once. The server may refuse it.
      const timer = setTimeout(() => {
        wire.abort();
        resolve();
      }, 1_000);
      const done = (): void => {
        clearTimeout(timer);
        resolve();
      };
      const wire = this.context.http.request(
        inLane(this.target, credential.key),
        { method: 'DELETE', headers: this.headers(credential) },
        { start: () => {}, data: () => {}, end: done, fail: done },
      );
    });
  }
}

class Reply implements PostEvents, Abortable {
  wire: Abortable | undefined;
  private wait: number | undefined;
  private type: string | undefined;
  private streamed = false;
  private grace: ReplyEndTimer | undefined;
  private expiry: NodeJS.Timeout | undefined;

  constructor(
    private readonly channel: HttpChannel,
    private readonly ticket: Ticket | undefined,
    /** Called when the server has accepted the message, and when sending has failed. */
    private readonly taken?: () => void,
  ) {}

  /** Whether this is a stream in reply to a message that is not a request. */
  get stray(): boolean {
    return this.streamed && this.ticket === undefined;
  }

  expireIn(milliseconds: number): void {
    this.expiry = setTimeout(() => this.abort(), milliseconds).unref();
  }

  abort(): void {
    this.over();
    this.wire?.abort();
  }

  private over(): void {
    if (this.expiry) clearTimeout(this.expiry);
    this.grace?.end();
    this.channel.forget(this);
    this.taken?.();
  }

  accepted(_: number, headers: HttpHeaders): void {
    this.type = headerOf(headers, 'content-type');
    this.streamed = isEventStream(this.type);
    this.channel.accepted(headers);
    this.taken?.();
  }

  message(text: Buffer | GappedText): void {
    this.channel.received(text, this.ticket, this.type);
    if (this.streamed && this.ticket?.done) this.grace ??= new ReplyEndTimer(this);
  }

  eventId(id: string): void {
    if (this.ticket && isSendableEventId(id)) this.ticket.lastEventId = id;
  }

  retry(milliseconds: number): void {
    this.wait = bounded(milliseconds);
  }

  refused(status: number, headers: HttpHeaders, body: Buffer): void {
    this.over();
    this.channel.refused(status, headers, body, this.ticket);
  }

  end(): void {
    this.over();
    this.channel.ended(this.ticket, undefined, this.wait);
  }

  fail(failure: HttpFailure): void {
    this.over();
    this.channel.ended(this.ticket, failure, this.wait);
  }
}
