import { type Caller, Cancellation, GATEWAY } from '../../../core/caller.js';
import type { Release } from '../../../core/count-and-byte-limit.js';
import { failed, type Outcome } from '../../../core/gateway.js';
import { sleep } from '../../../core/timing.js';
import type { UpstreamCall } from '../../../core/upstream.js';
import { ProtocolError, UpstreamRpcError } from '../../../protocol/errors.js';
import { byteLength, type GappedText } from '../../../protocol/jsonrpc/gapped-message.js';
import {
  type Id,
  type RpcMessage,
  type RpcRequest,
  type RpcResponse,
  readReplies,
  writeNotification,
  writeRequest,
} from '../../../protocol/jsonrpc/message.js';
import { type JsonObject, RawObject } from '../../../protocol/jsonrpc/raw.js';
import {
  atLeast,
  INTERACTIVE_METHODS,
  type InputRequest,
  LIST_CHANGED,
  LIST_KINDS,
  type LogLevel,
  META,
  type Notification,
  type ServerDescription,
} from '../../../protocol/mcp/model.js';
import { type Revision, revisionOf } from '../../../protocol/mcp/revisions/index.js';
import { unsupportedParams } from '../../../protocol/mcp/translate/capabilities.js';
import { stampParams } from '../../../protocol/mcp/translate/meta.js';
import {
  declares,
  decodeInputRequest,
  isInteractive,
  lacksCapability,
  questionName,
  requiredCapability,
} from '../../../protocol/mcp/translate/questions.js';
import { readExperimentalTask } from '../../../protocol/mcp/translate/task.js';
import { gatewayCall } from '../gateway-call.js';
import { invalidReply, type Server } from '../server-errors.js';
import { FLOODED, type ServerTraffic } from '../server-traffic-limits.js';
import type { ChannelEvents, Ticket } from './channel.js';
import { Elicitations } from './elicitations.js';
import { handshake } from './handshake.js';
import type { HttpChannel } from './http-channel.js';
import { PendingCall, type PendingHost } from './pending-call.js';
import type { PortableCall, PortableSession } from './portable-call.js';
import { QuestionReplies } from './question-replies.js';
import { SessionExpired } from './session-errors.js';
import type { SessionOptions } from './session-options.js';

/**
 * Milliseconds between leaving an adopted session and closing its connections: time for messages that are still being
 * sent.
 */
const LEAVE_DELAY = 1_000;

/**
 * A server may ask its client only during these requests (MRTR-01). `tasks/result` counts as well: it stands for a
 * request that runs as a task.
 */
const ASKABLE: readonly string[] = [...INTERACTIVE_METHODS, 'tasks/result'];

/** Milliseconds to wait for answers to cancelled calls. A server either answers soon after a cancellation or never. */
const CANCEL_GRACE = 500;

/** A session with a legacy server: opened once, used by many calls. */
export class LegacySession implements PendingHost, ChannelEvents {
  private readonly pending = new Map<Id, PendingCall>();
  private readonly elicitations = new Elicitations();
  readonly replies = new QuestionReplies({
    send: (reply, release) => {
      if (this.over) release();
      else this.options.channel.send(reply, undefined, release);
    },
    revision: () => this.revision,
  });
  /**
   * Cancelled calls without an answer, each with the client session of its caller. The server may still send messages
   * about them, and such messages name no call.
   */
  private readonly unanswered = new Map<Id, string | undefined>();
  private level: LogLevel | undefined;
  private over = false;
  revision!: Revision;
  description!: ServerDescription;
  lastUsed = performance.now();

  private constructor(private readonly options: SessionOptions) {}

  static async open(options: SessionOptions): Promise<LegacySession> {
    const session = new LegacySession(options);
    await options.channel.open(session);
    try {
      await session.handshake();
    } catch (error) {
      session.over = true;
      // Not awaited: the caller must see the error of the server before the end of its process.
      void options.channel.close().catch(() => {});
      throw error;
    }
    return session;
  }

  /** Takes over one waiting call of a session that another process opened. */
  static adopt(
    options: SessionOptions & { readonly channel: HttpChannel },
    record: PortableCall,
  ): PendingCall | undefined {
    const revision = revisionOf(record.revision);
    if (revision?.era !== 'legacy') return undefined;
    const session = new LegacySession(options);
    session.revision = revision;
    session.description = { capabilities: {} };
    void options.channel.open(session);
    options.channel.established(revision);
    const call = PendingCall.adopted(session, record);
    session.pending.set(call.id, call);
    const late = sleep(options.context.timeouts.connect, { ref: false });
    call.ready = Promise.race([options.channel.resumeReply(call), call.over, late]);
    // The session stays open, because other calls may wait on it. Messages still being sent get a short time.
    void call.over.then(() => setTimeout(() => options.channel.portable.leave(), LEAVE_DELAY).unref());
    return call;
  }

  get name(): string {
    return this.options.context.name;
  }

  get server(): Server {
    return this.options.context;
  }

  get traffic(): ServerTraffic {
    return this.options.context.traffic;
  }

  get timeouts(): { readonly call: number; readonly callMax: number } {
    return this.options.context.timeouts;
  }

  get ended(): boolean {
    return this.over;
  }

  /** Whether messages that belong to no request can arrive at the moment. */
  get hears(): boolean {
    return !this.over && this.options.channel.hears;
  }

  /** Number of calls under way, parked calls included. */
  get inFlight(): number {
    return this.pending.size;
  }

  /**
   * Waits a short time for the answers to cancelled calls. Resolves with true if the server has answered all of them.
   */
  async quiet(): Promise<boolean> {
    for (let waited = 0; this.unanswered.size > 0 && waited < CANCEL_GRACE; waited += 50) await sleep(50);
    return this.unanswered.size === 0;
  }

  get correlates(): boolean {
    return this.options.channel.correlates;
  }

  private async handshake(): Promise<void> {
    const { channel, capabilities, handshakeTime } = this.options;
    const timeouts = handshakeTime === undefined ? undefined : { call: handshakeTime, callMax: handshakeTime };
    const done = await handshake(this.options, (params) => this.own('initialize', params, timeouts));
    this.revision = done.revision;
    this.description = done.description;
    channel.established(done.revision);
    // No message may overtake notifications/initialized: when a server receives it, the server registers the features
    // for this client.
    const initialized = writeNotification('notifications/initialized');
    if (channel.sendFirst) await channel.sendFirst(initialized);
    else channel.send(initialized);
    if (!this.options.listen) return;
    const listening = channel.listen();
    // Most servers drop a question that they send before this stream is open. The call that caused the question would
    // then never end.
    if (isInteractive(capabilities)) await listening;
  }

  request(caller: Caller, call: UpstreamCall): Promise<Outcome> {
    const plain = call.logLevel === undefined && !call.after && !call.params.has('task');
    return plain ? this.dispatch(caller, call, caller) : this.prepared(caller, call);
  }

  private async prepared(caller: Caller, call: UpstreamCall): Promise<Outcome> {
    if (call.logLevel !== undefined && this.description.capabilities.logging) await this.raiseLevel(call.logLevel);
    if (call.after) await this.elicitations.completed(call.after, call.cancellation);
    if (!call.params.has('task')) return this.dispatch(caller, call, caller);
    // A call that becomes a task is cancelled with tasks/cancel (CAN-02), which needs the id of the task.
    const outcome = await this.dispatch(caller, { ...call, cancellation: new Cancellation() }, caller);
    const created = outcome.kind === 'complete' ? readExperimentalTask(outcome.result.value()) : undefined;
    if (!created) return outcome;
    if (!call.cancellation.cancelled) return this.follow(caller, call, created.taskId);
    this.own('tasks/cancel', { taskId: created.taskId }).catch(() => {});
    return failed(new ProtocolError('cancelled', 'The request was cancelled'));
  }

  /** Waits for the result of a task. The server sends its questions as part of this request (TSKL-05, TSKL-07). */
  private follow(caller: Caller, call: UpstreamCall, taskId: string): Promise<Outcome> {
    return this.dispatch(caller, { ...call, method: 'tasks/result', params: RawObject.from({ taskId }) }, caller);
  }

  /** Adds a caller to this session. The credential of the caller must have the key of the session's credential. */
  admit(caller: Caller): void {
    this.options.channel.admit?.(caller);
  }

  /** `speaker` is the caller whose credential the request carries; absent for requests of the gateway itself. */
  private dispatch(caller: Caller, call: UpstreamCall, speaker?: Caller): Promise<Outcome> {
    // The caller may have cancelled the call while the call waited for this session. Then nothing is sent.
    if (call.cancellation.cancelled)
      return Promise.resolve(
        failed(new ProtocolError('cancelled', 'The request was cancelled', { outcome: 'not_executed' })),
      );
    return new Promise((resolve) => {
      const pending = new PendingCall(this, caller, call, resolve);
      if (pending.done) return;
      if (this.over) {
        pending.fail(new SessionExpired(this.name));
        return;
      }
      this.lastUsed = performance.now();
      this.pending.set(pending.id, pending);
      const message = writeRequest(pending.id, call.method, this.encode(call, pending.id));
      this.options.channel.send(message, pending, undefined, speaker);
    });
  }

  private encode(call: UpstreamCall, id: number): RawObject {
    const edits: Record<string, undefined> = { inputResponses: undefined, requestState: undefined };
    const revision = this.revision ?? this.options.offer;
    for (const member of unsupportedParams(call.method, revision.expresses)) edits[member] = undefined;
    return stampParams(
      call.params,
      {
        revision,
        clientInfo: this.options.context.clientInfo,
        capabilities: {},
        logLevel: undefined,
        progressToken: call.wantsProgress ? id : undefined,
        trace: call.trace,
      },
      edits,
    );
  }

  /** A session has one log level: the most verbose one that any call asked for. Each call filters its own messages. */
  private async raiseLevel(level: LogLevel): Promise<void> {
    if (this.level !== undefined && atLeast(level, this.level)) return;
    this.level = level;
    await this.own('logging/setLevel', { level }).catch(() => {});
  }

  /** Sends a request of the gateway itself. Rejects with the error of the server or of the connection. */
  async own(method: string, params: JsonObject = {}, timeouts?: UpstreamCall['timeouts']): Promise<JsonObject> {
    const outcome = await this.dispatch(GATEWAY, { ...gatewayCall(method, params), ...(timeouts && { timeouts }) });
    if (outcome.kind === 'complete') return outcome.result.value();
    throw outcome.kind === 'error'
      ? outcome.error
      : invalidReply(this.server, `sent a question during ${method}, which does not allow questions`);
  }

  tell(method: string, params?: JsonObject): void {
    if (!this.over) this.options.channel.send(writeNotification(method, params));
  }

  async close(): Promise<void> {
    const { channel } = this.options;
    const carried = [...this.pending.values()].some((call) => call.carried && !call.done);
    if (carried && channel.portable) {
      this.over = true;
      channel.portable.leave();
      return;
    }
    this.finish('the session was closed');
    await channel.close();
  }

  portable(): PortableSession | undefined {
    const { session, credential } = this.options.channel.portable ?? {};
    return session === undefined ? undefined : { session, revision: this.revision.date, credential };
  }

  private finish(why: string): void {
    if (this.over) return;
    this.over = true;
    for (const call of [...this.pending.values()]) {
      call.fail(
        new ProtocolError('upstream_error', `Server "${this.name}" is gone: ${why}`, {
          outcome: 'unknown',
          data: { server: this.name },
        }),
      );
    }
  }

  // Events of the channel.

  message(text: Buffer | GappedText, ticket: Ticket | undefined): void {
    let messages: RpcMessage[];
    try {
      messages = readReplies(text);
    } catch {
      if (ticket instanceof PendingCall) ticket.fail(invalidReply(this.server, 'sent a message that is not JSON-RPC'));
      else {
        this.options.context.log.warn({ server: this.name }, 'dropped a message that is not JSON-RPC');
        this.unwanted(undefined, byteLength(text));
      }
      return;
    }
    const bytes = byteLength(text) / messages.length;
    for (const message of messages) this.receive(message, ticket, bytes);
  }

  private receive(message: RpcMessage, ticket: Ticket | undefined, bytes: number): void {
    switch (message.kind) {
      case 'response':
        if (!this.response(message, ticket)) this.unwanted(ticket, bytes);
        break;
      case 'notification':
        if (!this.notification(message.method, message.params.value(), ticket)) this.unwanted(ticket, bytes);
        break;
      case 'request':
        this.question(message, ticket, bytes);
    }
  }

  /** Counts a message that no call waits for. Pauses or ends the connection of a server that sends too many of them. */
  private unwanted(ticket: Ticket | undefined, bytes: number): void {
    if (ticket instanceof PendingCall) {
      ticket.unwanted();
      return;
    }
    const { context, channel, events } = this.options;
    if (this.over || context.traffic.allows(bytes)) return;
    const pauseMs = context.traffic.flooded();
    context.log.warn(
      { server: this.name, pauseMs },
      'ignoring messages outside of calls for a while: the server sent too many',
    );
    if (channel.pauseListening) channel.pauseListening(pauseMs);
    else {
      this.finish(FLOODED);
      if (channel.giveUp) channel.giveUp(FLOODED);
      else void channel.close();
      events.ended(FLOODED);
    }
  }

  /** Returns false if no call waits for the response. */
  private response(message: RpcResponse, ticket: Ticket | undefined): boolean {
    // An error without an id belongs to the request on whose stream it arrived.
    const call = message.id === undefined ? (ticket as PendingCall | undefined) : this.pending.get(message.id);
    if (!call || (ticket && ticket !== call)) {
      if (message.id !== undefined && this.unanswered.delete(message.id)) return true;
      this.options.context.log.warn({ server: this.name }, 'dropped a response to an unknown request');
      return false;
    }
    const { lacking } = call;
    if (lacking && (message.error || message.result?.get('isError') === true))
      call.fail(lacksCapability(this.name, lacking));
    else if (message.error) {
      const { code, message: text, data } = message.error;
      call.fail(new UpstreamRpcError(code, text, data));
    } else call.finish({ kind: 'complete', result: message.result! });
    // The answer arrived outside the reply stream of the call. The server will not end that stream.
    if (!ticket) this.options.channel.drop?.(call);
    return true;
  }

  /** Returns true if a call waits for the notification. */
  private notification(method: string, params: JsonObject, ticket: Ticket | undefined): boolean {
    switch (method) {
      case 'notifications/progress': {
        const token = params[META.progressToken];
        return typeof token === 'number' && this.pending.get(token)?.progress({ method, params }) === true;
      }
      case 'notifications/message':
        return this.logged({ method, params }, ticket);
      case 'notifications/cancelled': {
        const id = params['requestId'];
        if (typeof id === 'string' || typeof id === 'number')
          for (const call of this.pending.values()) call.withdraw(id);
        break;
      }
      case 'notifications/elicitation/complete':
        this.elicitations.complete(params['elicitationId']);
        if (typeof params['elicitationId'] === 'string') this.options.events.completed?.(params['elicitationId']);
        break;
      case 'notifications/resources/updated': {
        const { uri } = params;
        if (typeof uri === 'string') this.options.events.changed({ kind: 'resourceUpdated', uri });
        break;
      }
      default: {
        const kind = LIST_KINDS.find((each) => LIST_CHANGED[each] === method);
        if (kind) this.options.events.changed({ kind });
      }
    }
    return false;
  }

  /**
   * Passes a log message to its call. If the message belongs to no call, it goes to the client that has this session to
   * itself.
   */
  private logged(notification: Notification, ticket: Ticket | undefined): boolean {
    const call = this.attribute(ticket);
    if (call) return call.log(notification);
    if (this.correlates) this.options.events.logged?.(notification);
    return false;
  }

  /** Finds the call of a message: by the stream it arrived on, or because only one call is possible (mcp.md 4.1). */
  private attribute(ticket: Ticket | undefined): PendingCall | undefined {
    if (ticket instanceof PendingCall) return ticket;
    if (this.correlates || this.pending.size !== 1) return undefined;
    const [only] = this.pending.values();
    return only && this.unlessAmbiguous(only);
  }

  /** Returns the call unless the message may belong to a cancelled call of another client. */
  private unlessAmbiguous(only: PendingCall): PendingCall | undefined {
    for (const session of this.unanswered.values()) {
      if (session === undefined || session !== only.caller.session) return undefined;
    }
    return only;
  }

  /**
   * The only call to which a question outside of all reply streams can belong. Many servers send the questions of a
   * call that way. A client that accepts questions outside of its calls gets the question there instead.
   */
  private onlyAskable(): PendingCall | undefined {
    if (!this.correlates || this.options.events.unsolicited) return undefined;
    const askable = [...this.pending.values()].filter(({ call }) => ASKABLE.includes(call.method));
    const [only] = askable;
    return only && askable.length === 1 ? this.unlessAmbiguous(only) : undefined;
  }

  private question(message: RpcRequest, ticket: Ticket | undefined, bytes: number): void {
    const { id, method } = message;
    const call = this.attribute(ticket) ?? this.onlyAskable();
    if (!call) this.unwanted(ticket, bytes);
    // Questions beyond the limit get no answer: in a flood of questions, sending answers is the largest cost.
    const release = call ? call.room(bytes) : this.traffic.questions.take(bytes);
    if (!release) {
      if (call)
        this.options.context.log.warn({ server: this.name }, 'ended a call: its server sent too many questions');
      return;
    }
    if (method === 'ping') {
      this.replies.result(id, {}, release);
      return;
    }
    const request = decodeInputRequest(method, message.params.value());
    if (!request) {
      this.replies.error(id, -32601, `Method not found: ${method}`, release);
      return;
    }
    if (call && !ASKABLE.includes(call.call.method)) {
      this.replies.error(id, -32602, `A server cannot ask its client during ${call.call.method}`, release);
      return;
    }
    const capabilities = call?.caller.capabilities ?? this.options.capabilities;
    const required = requiredCapability(request);
    if (!declares(capabilities, required)) {
      if (call) call.lacking = required;
      this.replies.error(id, -32601, `The client did not declare the capability for ${method}`, release);
    } else if (call) call.ask(id, request, release, questionName(message.params.value()));
    else if (this.options.events.unsolicited) this.unsolicited(id, request, release);
    else
      this.replies.error(id, -32602, `${method} belongs to no request of a client, so no client can be asked`, release);
  }

  private unsolicited(id: Id, request: InputRequest, release: Release): void {
    this.options.events.unsolicited!(request).then(
      (response) => this.replies.answer(id, request, response, release),
      (error: unknown) =>
        this.replies.refuse(id, request, error instanceof Error ? error.message : 'The client did not answer', release),
    );
  }

  lost(ticket: Ticket, error: ProtocolError | UpstreamRpcError): void {
    if (ticket instanceof PendingCall) ticket.fail(error);
  }

  expired(ticket: Ticket | undefined): void {
    if (ticket instanceof PendingCall) ticket.fail(new SessionExpired(this.name));
    this.closed('it no longer knows the session');
  }

  closed(why: string): void {
    if (this.over) return;
    this.finish(why);
    void this.options.channel.close();
    this.options.events.ended(why);
  }

  gap(): void {
    this.options.events.gap();
  }

  // Methods for pending calls.

  cancelUpstream(call: PendingCall, reason: string | undefined): void {
    if (call.call.method === 'tasks/result') {
      // A task is cancelled with tasks/cancel (CAN-02).
      const { taskId } = call.call.params.value();
      this.own('tasks/cancel', { taskId }).catch(() => {});
    }
    // The handshake is never cancelled (LIFE-10).
    if (call.call.method !== 'initialize')
      this.tell('notifications/cancelled', { requestId: call.id, ...(reason && { reason }) });
    this.options.channel.drop?.(call);
    this.unanswered.set(call.id, call.caller.session);
    setTimeout(() => this.unanswered.delete(call.id), this.timeouts.call).unref();
  }

  forget(call: PendingCall): void {
    this.pending.delete(call.id);
  }
}
