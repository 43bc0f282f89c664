import type { Caller } from '../../core/caller.js';
import { failed, type Outcome } from '../../core/gateway.js';
import { TokenBucket } from '../../core/token-bucket.js';
import type { UpstreamCall } from '../../core/upstream.js';
import type { Credential } from '../../identity/upstream-credentials.js';
import { ProtocolError, UpstreamRpcError } from '../../protocol/errors.js';
import { byteLength, type GappedText } from '../../protocol/jsonrpc/gapped-message.js';
import { type RpcMessage, readReplies, writeRequest } from '../../protocol/jsonrpc/message.js';
import { type JsonObject, RawObject } from '../../protocol/jsonrpc/raw.js';
import {
  atLeast,
  type ClientCapabilities,
  isLogLevel,
  META,
  type Notification,
  type SubscriptionFilter,
} from '../../protocol/mcp/model.js';
import type { Revision } from '../../protocol/mcp/revisions/index.js';
import { stampParams } from '../../protocol/mcp/translate/meta.js';
import { decodeOutcome } from '../../protocol/mcp/translate/result-kind.js';
import { isEventStream } from '../../protocol/sse/reader.js';
import { connectionProblem } from '../http/connection-problem.js';
import {
  type Abortable,
  type HttpFailure,
  type HttpHeaders,
  type HttpTarget,
  headerOf,
  inLane,
} from '../http/index.js';
import { nextId } from '../request-ids.js';
import { Deadline } from './deadline.js';
import { refusal } from './http-status-errors.js';
import type { ModernWire } from './modern-peer.js';
import { type PostEvents, post } from './post-reply.js';
import { ReplyEndTimer } from './reply-end-timer.js';
import { modernCallHeaders, modernHeaders } from './request-headers.js';
import { credentialOf } from './server-credential.js';
import {
  broken,
  foreignReply,
  invalidReply,
  lateCredential,
  resting,
  timedOut,
  tooMuch,
  unavailable,
  unconnected,
  withoutCredential,
} from './server-errors.js';
import { FLOODED } from './server-traffic-limits.js';
import type { UpstreamContext } from './upstream-context.js';

/** Modern Streamable HTTP: requests are independent of each other. Closing the reply stream of a request cancels it. */
export class ModernHttp implements ModernWire {
  constructor(
    private readonly context: UpstreamContext,
    private readonly target: HttpTarget,
    readonly revision: Revision,
  ) {}

  get name(): string {
    return this.context.name;
  }

  get place(): string | undefined {
    return this.context.place;
  }

  send(capabilities: ClientCapabilities, call: UpstreamCall, caller: Caller): Promise<Outcome> {
    const credential = credentialOf(this.context, caller);
    return new Promise((resolve) => {
      const exchange = new Exchange(this.context, call, resolve);
      if (!(credential instanceof Promise)) {
        exchange.start(this.target, this.revision, capabilities, credential);
        return;
      }
      exchange.attend();
      credential
        .then((obtained) => exchange.start(this.target, this.revision, capabilities, obtained))
        .catch((error: unknown) => exchange.abort(withoutCredential(this.context, error)));
    });
  }

  /**
   * Opens a subscription stream. Resolves with the acknowledged filter. `lost` is called when the server ends the
   * stream.
   */
  listen(
    filter: SubscriptionFilter,
    deliver: (notification: Notification) => void,
    lost: (why: string) => void,
    caller: Caller,
    key?: string,
  ): Promise<Stream> {
    const rest = this.context.traffic.resting;
    if (rest > 0) return Promise.reject(resting(this.context, rest));
    const credential = credentialOf(this.context, caller);
    return new Promise((resolve, reject) => {
      const stream = new Stream(this.context, deliver, lost, resolve, reject);
      const start = (obtained: Credential): void => {
        if (key !== undefined && obtained.key !== key) reject(withoutCredential(this.context, undefined));
        else stream.start(this.target, this.revision, filter, obtained);
      };
      if (credential instanceof Promise)
        credential.then(start).catch((error: unknown) => reject(withoutCredential(this.context, error)));
      else start(credential);
    });
  }

  async close(): Promise<void> {}
}

const NOT_SENT = { outcome: 'not_executed' } as const;

/** One request to a modern server, up to its single outcome. */
class Exchange implements PostEvents {
  private readonly id = nextId();
  private wire: Abortable | undefined;
  private deadline: Deadline | undefined;
  private stopListening: (() => void) | undefined;
  private settled = false;
  private type: string | undefined;
  private streamed = false;
  private grace: ReplyEndTimer | undefined;
  private unwantedRate: TokenBucket | undefined;

  constructor(
    private readonly context: UpstreamContext,
    private readonly call: UpstreamCall,
    private readonly resolve: (outcome: Outcome) => void,
  ) {}

  start(target: HttpTarget, revision: Revision, capabilities: ClientCapabilities, credential: Credential): void {
    const { context, call, id } = this;
    // The call timed out or was cancelled while it waited for the credential.
    if (this.settled) return;
    if (call.cancellation.cancelled) {
      this.settle(failed(new ProtocolError('cancelled', 'The request was cancelled')));
      return;
    }
    const params = stampParams(call.params, {
      revision,
      clientInfo: context.clientInfo,
      capabilities,
      logLevel: call.logLevel,
      progressToken: call.wantsProgress ? id : undefined,
      trace: call.trace,
    });
    const headers = modernCallHeaders(revision, call, credential);
    const at = inLane(target, credential.key);
    this.wire = post(context.http, at, headers, writeRequest(id, call.method, params), this, context.limits);
    if (this.deadline) this.deadline.extend();
    else this.attend();
  }

  /** Starts the time limit and listens for cancellation, before the request is sent. */
  attend(): void {
    const { context, call } = this;
    const { call: idle, callMax } = call.timeouts ?? context.timeouts;
    this.deadline = new Deadline(idle, callMax, () =>
      this.abort(this.wire ? timedOut(context, idle) : lateCredential(context, idle)),
    );
    this.stopListening = call.cancellation.onCancel(() =>
      this.abort(new ProtocolError('cancelled', 'The request was cancelled', this.wire ? {} : NOT_SENT)),
    );
  }

  private settle(outcome: Outcome): void {
    if (this.settled) return;
    this.settled = true;
    this.deadline?.clear();
    this.stopListening?.();
    this.resolve(outcome);
  }

  abort(error: ProtocolError): void {
    if (this.settled) return;
    this.settle(failed(error));
    this.wire?.abort();
  }

  accepted(_: number, headers: HttpHeaders): void {
    this.type = headerOf(headers, 'content-type');
    this.streamed = isEventStream(this.type);
  }

  message(text: Buffer | GappedText): void {
    let messages: RpcMessage[];
    try {
      messages = readReplies(text);
    } catch {
      this.abort(
        foreignReply(this.context, this.type) ?? invalidReply(this.context, 'sent a message that is not JSON-RPC'),
      );
      return;
    }
    for (const message of messages) this.receive(message);
  }

  private receive(message: RpcMessage): void {
    if (this.settled) return;
    if (message.kind === 'notification') {
      if (!this.notification(message.method, message.params.value())) this.unwanted();
    } else if (message.kind === 'response') {
      if (message.id !== undefined && message.id !== this.id) {
        this.context.log.warn(
          { server: this.context.name },
          'dropped a response to a request that was not sent on this stream',
        );
        this.unwanted();
        return;
      }
      if (message.error) {
        const { code, message: text, data } = message.error;
        this.settle(failed(new UpstreamRpcError(code, text, data)));
      } else
        this.settle(
          decodeOutcome(message.result!) ?? failed(invalidReply(this.context, 'sent a result of unknown type')),
        );
      if (this.streamed) this.grace = new ReplyEndTimer(this.wire!);
    } else {
      // A modern server must not send requests (HM-06). The protocol has no way to answer a request of a server.
      this.unwanted();
    }
  }

  private unwanted(): void {
    const { context } = this;
    this.unwantedRate ??= new TokenBucket(context.traffic.limits.unwantedPerCall);
    if (!this.unwantedRate.take(1)) this.abort(tooMuch(context, 'messages'));
  }

  /** Returns false if the caller did not ask for this notification. */
  private notification(method: string, params: JsonObject): boolean {
    if (method === 'notifications/progress') {
      if (!this.call.wantsProgress || params[META.progressToken] !== this.id) return false;
      this.deadline?.extend();
      this.call.notify({ method, params });
      return true;
    }
    const { logLevel } = this.call;
    const level = params['level'];
    if (method !== 'notifications/message' || logLevel === undefined) return false;
    if (!isLogLevel(level) || !atLeast(level, logLevel)) return false;
    this.call.notify({ method, params });
    return true;
  }

  refused(status: number, headers: HttpHeaders, body: Buffer): void {
    this.settle(failed(refusal(this.context, status, headers, body)));
  }

  end(): void {
    this.grace?.end();
    // In most cases the answer has arrived, and no error object is needed.
    if (!this.settled) this.settle(failed(broken(this.context, 'ended its reply without an answer')));
  }

  fail({ sent, error }: HttpFailure): void {
    this.grace?.end();
    if (this.settled) return;
    const why = error.name === 'ReplyTooLarge' ? error.message : connectionProblem(error);
    this.settle(
      failed(sent ? broken(this.context, `failed before it answered: ${why}`) : unconnected(this.context, error)),
    );
  }
}

/** A `subscriptions/listen` stream. */
export class Stream implements PostEvents {
  private readonly id = nextId();
  private wire: Abortable | undefined;
  private timer: NodeJS.Timeout | undefined;
  private open = false;
  private over = false;
  honoured: SubscriptionFilter = {};

  constructor(
    private readonly context: UpstreamContext,
    private readonly deliver: (notification: Notification) => void,
    private readonly lost: (why: string) => void,
    private readonly resolve: (stream: Stream) => void,
    private readonly reject: (error: Error) => void,
  ) {}

  start(target: HttpTarget, revision: Revision, filter: SubscriptionFilter, credential: Credential): void {
    const { context, id } = this;
    const method = 'subscriptions/listen';
    const params = stampParams(RawObject.from({ notifications: filter }), {
      revision,
      clientInfo: context.clientInfo,
      capabilities: {},
      logLevel: undefined,
      progressToken: undefined,
    });
    const headers = modernHeaders(revision, method, params, credential);
    this.timer = setTimeout(() => this.finish('it did not acknowledge the subscription'), context.timeouts.call);
    // A subscription lasts without end, so only the size of each event is limited.
    this.wire = post(context.http, inLane(target, credential.key), headers, writeRequest(id, method, params), this, {
      event: context.limits.event,
      reply: Number.POSITIVE_INFINITY,
    });
  }

  close(): void {
    this.over = true;
    clearTimeout(this.timer);
    this.wire?.abort();
  }

  private finish(why: string, error = unavailable(this.context, why)): void {
    if (this.over) return;
    this.close();
    if (this.open) this.lost(why);
    else this.reject(error);
  }

  /** The server refused the subscription, so it is reachable. A refusal does not count as a failed connection. */
  private refuse(why: string): void {
    this.finish(why, broken(this.context, `refused the subscription: ${why}`));
  }

  message(text: Buffer | GappedText): void {
    if (this.over) return;
    const { traffic, log, name } = this.context;
    if (!traffic.allows(byteLength(text))) {
      const pauseMs = traffic.flooded();
      log.warn({ server: name, pauseMs }, 'ignoring messages outside of calls for a while: the server sent too many');
      this.finish(FLOODED);
      return;
    }
    try {
      for (const message of readReplies(text)) {
        if (message.kind === 'notification') this.notification(message.method, message.params.value());
        else if (message.kind === 'response') this.refuse(message.error?.message ?? 'it ended the request at once');
      }
    } catch {
      this.finish('it sent a message that is not JSON-RPC');
    }
  }

  private notification(method: string, params: JsonObject): void {
    if (method === 'notifications/subscriptions/acknowledged') {
      if (this.open) return;
      this.open = true;
      clearTimeout(this.timer);
      this.honoured = (params['notifications'] ?? {}) as SubscriptionFilter;
      this.resolve(this);
    } else if (this.open) this.deliver({ method, params });
  }

  refused(status: number, headers: HttpHeaders, body: Buffer): void {
    this.refuse(refusal(this.context, status, headers, body).message);
  }

  end(): void {
    this.finish('its stream ended');
  }

  fail({ error }: HttpFailure): void {
    this.finish(connectionProblem(error), unconnected(this.context, error));
  }
}
