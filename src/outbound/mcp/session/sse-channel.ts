import type { Caller } from '../../../core/caller.js';
import { within } from '../../../core/timing.js';
import type { Credential } from '../../../identity/upstream-credentials.js';
import { connectionProblem } from '../../http/connection-problem.js';
import type { Abortable, HttpFailure, HttpHeaders, HttpTarget } from '../../http/index.js';
import { httpTarget, inLane } from '../../http/index.js';
import { EventStream } from '../event-stream.js';
import { refusal } from '../http-status-errors.js';
import { post } from '../post-reply.js';
import { ssePostHeaders } from '../request-headers.js';
import type { CredentialHolder } from '../server-credential.js';
import { broken, unavailable, unconnected, withoutCredential } from '../server-errors.js';
import type { UpstreamContext } from '../upstream-context.js';
import type { Channel, ChannelEvents, Ticket } from './channel.js';
import { SessionCallers } from './session-callers.js';

const ACCEPT_PATIENCE = 1_000;
/** Milliseconds that a closing channel waits until the server has taken replies and notifications. */
const CLOSE_PATIENCE = 5_000;

/** HTTP+SSE: one stream for all messages of the server, and one POST for each message to it. */
export class SseChannel implements Channel {
  readonly correlates = false;
  readonly hears = true;
  private events!: ChannelEvents;
  private stream: EventStream | undefined;
  private endpoint: HttpTarget | undefined;
  /** The open POSTs, each with the timer that ends it. */
  private readonly posts = new Map<Abortable, NodeJS.Timeout>();
  /** Replies and notifications that the server has not taken yet. */
  private readonly untaken = new Set<Promise<void>>();
  private readonly speakers: SessionCallers;
  private closed = false;

  constructor(
    private readonly context: UpstreamContext,
    private readonly url: string,
    holder: CredentialHolder,
  ) {
    this.speakers = new SessionCallers(context, holder);
  }

  async open(events: ChannelEvents): Promise<void> {
    this.events = events;
    const given = this.speakers.credential();
    const credential =
      given instanceof Promise
        ? await given.catch((error: unknown) => Promise.reject(withoutCredential(this.context, error)))
        : given;
    // The caller has changed its credential since it requested the session: messages would belong to another account.
    if (!credential) throw withoutCredential(this.context, undefined);
    await this.connect(events, credential);
  }

  private connect(events: ChannelEvents, credential: Credential): Promise<void> {
    return new Promise((resolve, reject) => {
      const { context } = this;
      const give = (why: string, error?: Error): void => {
        clearTimeout(timer);
        this.stream?.close();
        reject(error ? unconnected(context, error) : unavailable(context, why));
      };
      const timer = setTimeout(() => give('it announced no endpoint for messages'), context.timeouts.call);
      this.stream = EventStream.open(
        context.http,
        inLane(httpTarget(this.url), credential.key),
        credential.headers,
        {
          event: (name, data) => {
            if (name === 'endpoint' && !this.endpoint) {
              const endpoint = this.sameOrigin(data.toString('utf8'));
              if (!endpoint) {
                give('it announced an endpoint for messages on another origin');
                return;
              }
              clearTimeout(timer);
              this.endpoint = endpoint;
              resolve();
            } else if (name === 'message') events.message(data, undefined);
          },
          refused: (status) => give(`it answered HTTP ${status}`),
          end: (why, error) => {
            if (!this.endpoint) give(why, error);
            else if (!this.closed) events.closed(why);
          },
        },
        context.limits.event,
      );
    });
  }

  /**
   * SSE-02: the server announces the endpoint. An endpoint on another origin is refused, because a server could make
   * the gateway send requests to any origin.
   */
  private sameOrigin(announced: string): HttpTarget | undefined {
    try {
      const url = new URL(announced, this.url);
      return url.origin === new URL(this.url).origin ? httpTarget(url) : undefined;
    } catch {
      return undefined;
    }
  }

  established(): void {}

  listen(): Promise<void> {
    return Promise.resolve();
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
    const done = ticket ? taken : this.untilTaken(taken);
    const post = (credential: Credential): void => this.post(credential, message, ticket, done);
    this.speakers.send({ ticket, taken: done, caller, post, events: this.events, closed: () => this.closed });
  }

  private untilTaken(taken: (() => void) | undefined): () => void {
    let resolve = (): void => {};
    const wait = new Promise<void>((done) => {
      resolve = done;
    });
    this.untaken.add(wait);
    return () => {
      if (!this.untaken.delete(wait)) return;
      resolve();
      taken?.();
    };
  }

  private post(credential: Credential, message: Buffer, ticket: Ticket | undefined, taken?: () => void): void {
    const { context, events } = this;
    const lost = (failure: HttpFailure): void => {
      if (!ticket || ticket.done) return;
      const why = connectionProblem(failure.error);
      events.lost(
        ticket,
        failure.sent ? broken(context, `failed before it answered: ${why}`) : unconnected(context, failure.error),
      );
    };
    const wire = post(
      context.http,
      inLane(this.endpoint!, credential.key),
      ssePostHeaders(credential),
      message,
      {
        // The answer arrives on the stream, so the body of this response is ignored.
        message: () => {},
        refused: (status: number, headers: HttpHeaders, body: Buffer) => {
          this.forget(wire);
          taken?.();
          if (status === 404) events.expired(ticket);
          else if (ticket) events.lost(ticket, refusal(context, status, headers, body));
        },
        end: () => {
          this.forget(wire);
          taken?.();
        },
        fail: (failure) => {
          this.forget(wire);
          taken?.();
          lost(failure);
        },
      },
      context.limits,
    );
    const timer = setTimeout(() => {
      // Some servers end the POST of a request only after they have answered the request on the stream.
      if (ticket && !ticket.done) timer.refresh();
      else {
        this.abort(wire);
        taken?.();
      }
    }, context.timeouts.call).unref();
    this.posts.set(wire, timer);
  }

  private forget(wire: Abortable): void {
    clearTimeout(this.posts.get(wire));
    this.posts.delete(wire);
  }

  private abort(wire: Abortable): void {
    this.forget(wire);
    wire.abort();
  }

  /** The end of the stream ends the session at the server, so replies to questions and cancellations go first. */
  async close(): Promise<void> {
    this.closed = true;
    if (this.untaken.size > 0) await within(Promise.all(this.untaken), CLOSE_PATIENCE);
    this.stream?.close();
    for (const wire of this.posts.keys()) this.abort(wire);
  }
}
