import { randomUUID } from 'node:crypto';
import { type Caller, Cancellation, type Principal } from '../../../core/caller.js';
import type { CallState } from '../../../core/era-bridge/call-state.js';
import {
  type Call,
  type Gateway,
  type Outcome,
  plainCall,
  type Subscription,
  type View,
} from '../../../core/gateway.js';
import { NotificationLimiter } from '../../../core/notification-limiter.js';
import { Paced, sleep } from '../../../core/timing.js';
import { TokenBucket } from '../../../core/token-bucket.js';
import { ProtocolError } from '../../../protocol/errors.js';
import {
  type Id,
  type RpcMessage,
  type RpcNotification,
  type RpcRequest,
  type RpcResponse,
  writeError,
  writeNotification,
} from '../../../protocol/jsonrpc/message.js';
import { type JsonObject, RawObject } from '../../../protocol/jsonrpc/raw.js';
import { isForwardedMethod, isModernMethod, isRemovedMethod } from '../../../protocol/mcp/methods.js';
import {
  atLeast,
  type ClientCapabilities,
  type Implementation,
  type InputRequest,
  type InputRequests,
  type InputResponses,
  isLogLevel,
  isObject,
  type LogLevel,
  META,
  type Notification,
} from '../../../protocol/mcp/model.js';
import type { Revision } from '../../../protocol/mcp/revisions/index.js';
import { resultOf } from '../../../protocol/mcp/translate/result.js';
import { experimentalTask, readTask } from '../../../protocol/mcp/translate/task.js';
import { Encoder, isKnownError, type Refused, type ReplyChannel } from '../reply-channel.js';
import type { ListChanges } from './list-changes.js';
import { Questions } from './questions.js';
import type { SessionProgress } from './session-record.js';
import type { SessionTasks } from './session-tasks.js';
import { UrlElicitations } from './url-elicitations.js';

/** The log level until a client sets one (LOG-02). */
const DEFAULT_LEVEL: LogLevel = 'info';

/**
 * The maximum number of rounds of questions. A modern server may ask without end; a legacy client sees one call, which
 * must end (MRTR-13).
 */
const MOST_ROUNDS = 10;
const MOST_SILENT_ROUNDS = 3;
const SILENT_PAUSE = 250;
/**
 * Minimum time between two reports of changed roots to the servers, in milliseconds. A client may report changes
 * without end, and each report is a message to every server.
 */
const ROOTS_INTERVAL = 1_000;
/**
 * Limits on the messages of a session to the other replicas. Every replica reads each message, and a client may cancel
 * or answer requests that do not exist.
 */
const ELSEWHERE = { burst: 100, second: 20 };
/** Limit on the subscribed resources of a session, because all of them are stored with the session at each change. */
const MOST_RESOURCES = 500;

export interface SessionSetup {
  readonly key: string;
  readonly principal: Principal;
  readonly view: View;
  readonly revision: Revision;
  readonly capabilities: ClientCapabilities;
  readonly clientInfo: Implementation | undefined;
  readonly gateway: Gateway;
  readonly info: Implementation;
  readonly logging: boolean;
  readonly tasks: SessionTasks;
  /** The source of list changes. */
  readonly lists: ListChanges;
  /**
   * The prefix of the ids of questions asked by this replica, so that an answer received by another replica can be
   * routed.
   */
  readonly questionPrefix: string;
  /** Passes a message on to the other replicas, because one of them may know the request of the message. */
  elsewhere?(message: RpcResponse | RpcNotification): Promise<void>;
  /** How long a user may take to answer, in milliseconds. */
  readonly answerTime: number;
  /** Called when the session's stored progress changes. */
  progressed?(progress: SessionProgress): Promise<void>;
  /** Called when the client's roots changed. */
  rootsChanged(): void;
  /** Sends a message that belongs to no request. */
  unsolicited(message: Buffer): void;
  /** Whether the client can receive messages other than responses. */
  readonly reachable: boolean;
  readonly refused?: Refused | undefined;
}

/** A client of the legacy era, from its `initialize` to its end, over any transport. */
export class ClientSession {
  readonly key: string;
  /** The key of the principal that opened the session. */
  readonly owner: string;
  readonly view: View;
  readonly revision: Revision;
  lastUsed = performance.now();
  /** The caller of the latest message. */
  private caller: Caller;
  private readonly encoder: Encoder;
  private level: LogLevel | undefined;
  private readonly running = new Map<Id, Cancellation>();
  /** The ids of requests whose client did not reconnect in time. */
  private readonly abandoned = new Set<Id>();
  private asking: Questions | undefined;
  private stopLists: (() => void) | undefined;
  private readonly resources = new Map<string, Subscription>();
  private readonly rootsChanges: Paced;
  private readonly toOthers = new TokenBucket(ELSEWHERE);
  private closed = false;
  private initialized = false;

  constructor(private readonly setup: SessionSetup) {
    this.key = setup.key;
    this.owner = setup.principal.key;
    this.view = setup.view;
    this.revision = setup.revision;
    this.encoder = new Encoder(setup.revision, setup.info);
    this.level = setup.logging ? DEFAULT_LEVEL : undefined;
    this.rootsChanges = new Paced(() => setup.rootsChanged(), ROOTS_INTERVAL);
    this.caller = {
      principal: setup.principal,
      revision: setup.revision,
      // A client that cannot receive questions is treated as a client without capabilities (mcp.md 4.3, 8).
      capabilities: setup.reachable ? setup.capabilities : {},
      clientInfo: setup.clientInfo,
      session: setup.key,
      ...(setup.reachable && {
        ask: (question: InputRequest) => this.questions.ask(question, setup.unsolicited),
        tell: (notification: Notification) => this.tell(notification),
      }),
    };
  }

  private get questions(): Questions {
    const { questionPrefix, answerTime } = this.setup;
    this.asking ??= new Questions(this.revision, questionPrefix, answerTime);
    return this.asking;
  }

  get busy(): number {
    return this.running.size;
  }

  /**
   * Handles a message; `channel` receives the messages of a request. The caller was authenticated for this message, and
   * its permissions may have changed since the session began.
   */
  handle(
    principal: Principal,
    message: RpcMessage,
    channel: ReplyChannel,
    canAsk = this.setup.reachable,
  ): Promise<void> {
    this.lastUsed = performance.now();
    if (principal !== this.caller.principal) this.caller = { ...this.caller, principal };
    switch (message.kind) {
      case 'response':
        return this.questions.answered(message) ? Promise.resolve() : this.elsewhere(message);
      case 'notification':
        return this.told(message);
      case 'request':
        return this.request(message, channel, canAsk);
    }
  }

  private async request(message: RpcRequest, channel: ReplyChannel, canAsk: boolean): Promise<void> {
    const { id, method, params } = message;
    try {
      if (isForwardedMethod(method) || this.passes(method)) await this.forward(message, channel, canAsk);
      else if (method === 'tasks/result' && this.knowsTasks) await this.taskResult(message, channel, canAsk);
      else this.encoder.result(channel, id, method, resultOf(await this.own(message, channel)));
    } catch (error) {
      if (!isKnownError(error)) throw error;
      if (error instanceof ProtocolError) this.setup.refused?.(error);
      this.encoder.failure(channel, id, method, error, params);
    }
  }

  /** Methods of extensions are passed on if the session has exactly one server. */
  private passes(method: string): boolean {
    return this.view.only !== undefined && !isModernMethod(method) && !isRemovedMethod(method);
  }

  /** Requests that the session handles itself. */
  private async own({ id, method, params }: RpcRequest, { requestId, address }: ReplyChannel): Promise<JsonObject> {
    const call = (): Call => plainCall(method, params, this.view, { requestId, address, id });
    switch (method) {
      case 'ping':
        return {};
      case 'logging/setLevel': {
        const level = params.get('level');
        if (!isLogLevel(level)) throw new ProtocolError('invalid_params', `Unknown log level ${JSON.stringify(level)}`);
        if (this.setup.logging) this.level = level;
        await this.noteProgress();
        return {};
      }
      case 'resources/subscribe':
        await this.subscribe(uriOf(params), call());
        await this.noteProgress();
        return {};
      case 'resources/unsubscribe':
        await this.unsubscribe(uriOf(params));
        return {};
      case 'tasks/get':
      case 'tasks/cancel': {
        const { gateway, tasks } = this.setup;
        const taskId = this.taskId(method, params);
        const work = () => (method === 'tasks/get' ? tasks.get(taskId) : tasks.cancel(taskId));
        return gateway.onTask(this.caller, call(), taskId, work);
      }
      case 'tasks/list': {
        if (!this.knowsTasks) throw new ProtocolError('method_not_found', `Method not found: ${method}`);
        const { gateway, tasks } = this.setup;
        const { caller } = this;
        return gateway.onTask(caller, call(), undefined, () => tasks.list(caller, params.get('cursor')));
      }
      case 'initialize':
        throw new ProtocolError('invalid_request', 'This session is already initialized');
      default:
        throw new ProtocolError('method_not_found', `Method not found: ${method}`);
    }
  }

  private get knowsTasks(): boolean {
    return this.revision.expresses.tasks === 'core';
  }

  private taskId(method: string, params: RawObject): string {
    if (!this.knowsTasks) throw new ProtocolError('method_not_found', `Method not found: ${method}`);
    const taskId = params.get('taskId');
    if (typeof taskId === 'string') return taskId;
    throw new ProtocolError('invalid_params', '"taskId" must be a string');
  }

  /** Only one request per id at a time, because a cancellation names only the id. */
  private begin(id: Id): Cancellation {
    if (this.running.has(id)) throw new ProtocolError('invalid_request', 'A request with this id is already running');
    const cancellation = new Cancellation();
    this.running.set(id, cancellation);
    return cancellation;
  }

  private async taskResult({ id, method, params }: RpcRequest, channel: ReplyChannel, canAsk: boolean): Promise<void> {
    const cancellation = this.begin(id);
    try {
      const send = canAsk ? (text: Buffer) => channel.send(text) : this.setup.unsolicited;
      const ask = (question: InputRequest): Promise<JsonObject> => this.questions.ask(question, send, cancellation);
      const { gateway, tasks } = this.setup;
      const taskId = this.taskId(method, params);
      const call = plainCall(method, params, this.view, {
        requestId: channel.requestId,
        address: channel.address,
        id,
        cancellation,
      });
      const result = await gateway.onTask(this.caller, call, taskId, () => tasks.result(taskId, ask, cancellation));
      this.encoder.result(channel, id, 'tools/call', result);
    } catch (error) {
      if (this.abandoned.has(id)) this.encoder.failure(channel, id, 'tasks/result', stayedAway());
      else if (cancellation.cancelled) channel.finish([], 202, []);
      else throw error;
    } finally {
      this.running.delete(id);
      this.abandoned.delete(id);
    }
  }

  /**
   * The task that a client asks for. In revisions without tasks the parameter has no meaning (TSKL-01).
   */
  private taskOf(params: RawObject): { ttl: number | undefined } | undefined {
    const task = this.knowsTasks ? params.get('task') : undefined;
    if (!isObject(task)) return undefined;
    return { ttl: typeof task['ttl'] === 'number' ? task['ttl'] : undefined };
  }

  private async forward(message: RpcRequest, channel: ReplyChannel, canAsk: boolean): Promise<void> {
    const { id, method } = message;
    const cancellation = this.begin(id);
    try {
      const outcome = await this.rounds(message, channel, cancellation, canAsk);
      if (this.abandoned.has(id)) this.encoder.failure(channel, id, method, stayedAway(), message.params);
      // A cancelled request gets no response (CAN-01), but its stream ends.
      else if (cancellation.cancelled) channel.finish([], 202, []);
      else if (outcome.kind === 'error') this.encoder.failure(channel, id, method, outcome.error, message.params);
      else if (outcome.kind === 'complete') this.encoder.result(channel, id, method, outcome.result);
      else if (outcome.kind === 'task') this.created(channel, id, outcome.result);
      else throw new ProtocolError('not_bridgeable', 'The server returned a result that this client cannot read');
    } finally {
      this.running.delete(id);
      this.abandoned.delete(id);
    }
  }

  private created(channel: ReplyChannel, id: Id, result: RawObject): void {
    const view = readTask(result.value());
    if (!view) throw new ProtocolError('internal', 'The task could not be read');
    this.setup.tasks.follow(
      view.taskId,
      () => this.caller,
      (params) => this.announce({ method: 'notifications/tasks/status', params }),
    );
    this.encoder.result(channel, id, 'tasks/create', resultOf({ task: experimentalTask(view) }));
  }

  /**
   * Repeats the call until its response is complete; the client gets the questions on the call's own stream (BR-04).
   */
  private async rounds(
    message: RpcRequest,
    channel: ReplyChannel,
    cancellation: Cancellation,
    canAsk: boolean,
  ): Promise<Outcome> {
    const { method } = message;
    const token = progressTokenOf(message.params);
    const caller = canAsk ? this.caller : { ...this.caller, capabilities: {} };
    const task = this.taskOf(message.params);
    let params = message.params;
    let state: CallState | undefined;
    const urlElicitations = new UrlElicitations();
    let silent = 0;
    let returned = false;
    const limiter = new NotificationLimiter(cancellation, (notification) => {
      const text = this.encoder.notification(notification, token);
      // The progress token of a task stays valid after its call was answered (PRG-02).
      if (task) this.setup.unsolicited(text);
      else channel.send(text);
    });
    for (let round = 0; ; round++) {
      const said = await this.setup.gateway.call(caller, {
        requestId: channel.requestId,
        address: channel.address,
        id: message.id,
        method,
        params,
        state,
        view: this.view,
        wantsProgress: token !== undefined,
        logLevel: this.level,
        cancellation: limiter.cancellation,
        header: undefined,
        ...(task && { task }),
        polling: (retry) => channel.poll?.(retry),
        notify: (notification) => {
          if (task || !cancellation.cancelled) limiter.notify(notification);
        },
      });
      const outcome = limiter.settle(said);
      if (outcome.kind !== 'input_required' || cancellation.cancelled) {
        for (const elicitationId of urlElicitations.ids())
          this.announce({ method: 'notifications/elicitation/complete', params: { elicitationId } });
        if (outcome.kind !== 'input_required' || !outcome.state || returned) return outcome;
        // Repeat the call once without answers, so that a call that waits at the server learns that no answer will
        // come.
        returned = true;
        ({ params } = message);
        ({ state } = outcome);
        continue;
      }
      const asked = outcome.inputRequests ?? {};
      silent = Object.keys(asked).length === 0 ? silent + 1 : 0;
      if (round + 1 >= MOST_ROUNDS || silent > MOST_SILENT_ROUNDS) {
        throw new ProtocolError('not_bridgeable', 'The call needs more rounds of questions than one call may have');
      }
      if (silent > 0) await sleep(SILENT_PAUSE);
      const answers = await this.askAll(asked, channel, cancellation, urlElicitations);
      returned = cancellation.cancelled;
      params = message.params.edit({ inputResponses: silent > 0 ? undefined : JSON.stringify(answers) });
      ({ state } = outcome);
    }
  }

  private async askAll(
    asked: InputRequests,
    channel: ReplyChannel,
    cancellation: Cancellation,
    urlElicitations: UrlElicitations,
  ): Promise<InputResponses> {
    const answers: InputResponses = {};
    const send = (message: Buffer): void => channel.send(message);
    await Promise.all(
      Object.entries(asked).map(async ([key, question]) => {
        const repeated = await urlElicitations.repeated(question);
        const visitId = randomUUID();
        answers[key] = repeated ?? (await this.questions.ask(question, send, cancellation, visitId));
        if (!repeated && answers[key]['action'] === 'accept') urlElicitations.agreed(question, visitId);
      }),
    );
    return answers;
  }

  private async told(message: RpcNotification): Promise<void> {
    const { method, params } = message;
    if (method === 'notifications/initialized') {
      const repeated = this.initialized;
      this.initialized = true;
      this.watchLists();
      if (!repeated) await this.noteProgress();
    } else if (method === 'notifications/roots/list_changed') this.rootsChanges.signal();
    else if (method === 'notifications/cancelled') {
      const id = params.get('requestId');
      const reason = params.get('reason');
      const running = typeof id === 'string' || typeof id === 'number' ? this.running.get(id) : undefined;
      if (running) running.cancel(typeof reason === 'string' ? reason : undefined);
      else await this.elsewhere(message);
    }
  }

  /** Passes a message on to the other replicas. Beyond the limit the message is dropped: it has no response. */
  private async elsewhere(message: RpcResponse | RpcNotification): Promise<void> {
    const { elsewhere } = this.setup;
    if (elsewhere && this.toOthers.take(1)) await elsewhere(message);
  }

  /** Handles a message that another replica received. The message is dropped if its request is unknown here. */
  overhear(message: RpcResponse | RpcNotification): void {
    if (message.kind === 'response') {
      this.questions.answered(message);
    } else if (this.running.has(message.params.get('requestId') as Id)) void this.told(message);
  }

  /**
   * Clients of this era subscribe to nothing: list changes are announced to every client if the server declared that it
   * announces them (mcp.md 4.12).
   */
  private watchLists(): void {
    if (this.stopLists || this.closed || !this.setup.reachable) return;
    this.stopLists = this.setup.lists.follow(this.view, {
      caller: () => this.caller,
      hear: (notification) => this.announce(notification),
    });
  }

  /**
   * Passes on a server's notifications outside of calls. Log messages below the level of the client are not passed on.
   */
  private tell(notification: Notification): void {
    const { level } = notification.params;
    if (notification.method !== 'notifications/message') this.announce(notification);
    else if (this.level !== undefined && isLogLevel(level) && atLeast(level, this.level)) this.announce(notification);
  }

  private announce({ method, params }: Notification): void {
    this.setup.unsolicited(writeNotification(method, Object.keys(params).length > 0 ? params : undefined));
  }

  private async subscribe(uri: string, call: Call): Promise<void> {
    if (this.resources.has(uri)) return;
    if (this.resources.size >= MOST_RESOURCES)
      throw new ProtocolError(
        'rate_limited',
        `A session may have at most ${MOST_RESOURCES} subscriptions of resources`,
        {
          outcome: 'not_executed',
        },
      );
    const subscription = await this.setup.gateway.listen(
      this.caller,
      call,
      { resourceSubscriptions: [uri] },
      (notification) => this.announce(notification),
    );
    if (!subscription.honoured.resourceSubscriptions?.includes(uri)) {
      subscription.close();
      throw new ProtocolError('resource_not_found', `The server did not accept the subscription to ${uri}`, {
        data: { uri },
      });
    }
    if (this.closed || this.resources.has(uri)) subscription.close();
    else this.resources.set(uri, subscription);
  }

  /** Resolves once the progress is stored for all replicas. */
  private async noteProgress(): Promise<void> {
    await this.setup.progressed?.({
      initialized: this.initialized,
      level: this.level,
      resources: [...this.resources.keys()],
    });
  }

  /** Continues a session from its stored progress. Resources that can no longer be watched are dropped. */
  async restore({ initialized, level, resources }: SessionProgress): Promise<void> {
    this.initialized = initialized;
    this.level = level;
    if (initialized) this.watchLists();
    for (const uri of this.resources.keys()) if (!resources.includes(uri)) this.unsubscribeLocally(uri);
    const again = (uri: string): Call => plainCall('resources/subscribe', RawObject.from({ uri }), this.view);
    await Promise.all(resources.map((uri) => this.subscribe(uri, again(uri)).catch(() => {})));
  }

  private async unsubscribe(uri: string): Promise<void> {
    this.unsubscribeLocally(uri);
    await this.noteProgress();
  }

  private unsubscribeLocally(uri: string): void {
    this.resources.get(uri)?.close();
    this.resources.delete(uri);
  }

  /** Called when the client lost the connection of these requests and did not reconnect in time. */
  abandon(ids: readonly Id[]): void {
    for (const id of ids) {
      const running = this.running.get(id);
      if (!running) continue;
      this.abandoned.add(id);
      running.cancel('the client did not reconnect');
    }
  }

  /** Ends the session: cancels its calls and releases its subscriptions. */
  close(reason: string): void {
    if (this.closed) return;
    this.closed = true;
    for (const cancellation of this.running.values()) cancellation.cancel(reason);
    this.asking?.close(reason);
    this.rootsChanges.stop();
    for (const subscription of this.resources.values()) subscription.close();
    this.resources.clear();
    this.stopLists?.();
  }
}

function uriOf(params: RawObject): string {
  const uri = params.get('uri');
  if (typeof uri === 'string') return uri;
  throw new ProtocolError('invalid_params', '"uri" must be a string');
}

function progressTokenOf(params: RawObject): string | number | undefined {
  const token = params.object('_meta')?.get(META.progressToken);
  return typeof token === 'string' || typeof token === 'number' ? token : undefined;
}

const stayedAway = (): ProtocolError =>
  new ProtocolError('cancelled', 'The call was ended: its client did not reconnect in time', { outcome: 'unknown' });

export const notUnderstood = (id: Id | null, error: ProtocolError): Buffer =>
  writeError(id, { code: error.row.legacy, message: error.message, data: error.data as JsonObject });
