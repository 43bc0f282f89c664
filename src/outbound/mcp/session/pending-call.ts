import { type Caller, Cancellation, GATEWAY } from '../../../core/caller.js';
import { Quota, type Release } from '../../../core/count-and-byte-limit.js';
import { type Call, failed, type Outcome, type ParkedCall } from '../../../core/gateway.js';
import { TokenBucket } from '../../../core/token-bucket.js';
import type { UpstreamCall } from '../../../core/upstream.js';
import { ProtocolError, type UpstreamRpcError } from '../../../protocol/errors.js';
import type { Id } from '../../../protocol/jsonrpc/message.js';
import { type JsonObject, type JsonValue, RawObject } from '../../../protocol/jsonrpc/raw.js';
import {
  atLeast,
  type ClientCapabilities,
  type InputRequest,
  type InputRequests,
  type InputResponses,
  isLogLevel,
  isObject,
  type Notification,
} from '../../../protocol/mcp/model.js';
import { nextId } from '../../request-ids.js';
import { Deadline } from '../deadline.js';
import { type Server, timedOut, tooMuch } from '../server-errors.js';
import type { ServerTraffic } from '../server-traffic-limits.js';
import type { Ticket } from './channel.js';
import { type PortableCall, type PortableSession, writePortable } from './portable-call.js';
import type { QuestionReplies } from './question-replies.js';

/** The session of a pending call, reduced to the members that the call uses. */
export interface PendingHost {
  readonly server: Server;
  readonly timeouts: { readonly call: number; readonly callMax: number };
  /** Shared by all calls to the server. */
  readonly traffic: ServerTraffic;
  readonly replies: Pick<QuestionReplies, 'answer' | 'refuse'>;
  /** Tells the server that the gateway no longer waits for this call. */
  cancelUpstream(call: PendingCall, reason: string | undefined): void;
  forget(call: PendingCall): void;
  /** The session. Undefined if no other process can take it over. */
  portable(): PortableSession | undefined;
}

interface Question {
  readonly id: Id;
  readonly request: InputRequest;
  readonly release: Release;
}

/** Questions that arrive within this many milliseconds go to the client together (mcp.md 4.4). */
const BATCH_WINDOW = 5;

/**
 * One request on a legacy session, from sending to its single outcome. When the server sends questions during the
 * request, the call parks: the waiting caller gets the questions, and `resume` returns the answers to the same call.
 */
export class PendingCall implements Ticket, ParkedCall {
  lastEventId: string | undefined;
  private waiter: ((outcome: Outcome) => void) | undefined;
  private deadline: Deadline | undefined;
  private stopListening: (() => void) | undefined;
  private finished: Outcome | undefined;
  private parked = false;
  private batch: NodeJS.Timeout | undefined;
  /** The open questions by name. Undefined before the first question, because most calls have no questions. */
  private questionsByName: Map<string, Question> | undefined;
  private asking = 0;
  /** Created with the first question, because most calls have no questions. */
  private open: Quota | undefined;
  private questionRate: TokenBucket | undefined;
  private unwantedRate: TokenBucket | undefined;
  private releaseKept: Release | undefined;
  /** The names of the answers that the call itself contained and that the server has received. */
  private used: Set<string> | undefined;
  private held: Notification | undefined;
  /** Capabilities that the server asked for and the client lacks. They become the cause if the call then fails. */
  lacking: ClientCapabilities | undefined;
  private notify: (notification: Notification) => void;
  /**
   * Resolves when the reply is read again. Answers must wait for it, because the server sends its messages after an
   * answer only once.
   */
  ready: Promise<void> | undefined;
  /** Whether the call is stored for other processes. Its session must then stay open. */
  carried = false;
  private ending: { readonly promise: Promise<void>; resolve(): void } | undefined;

  constructor(
    private readonly host: PendingHost,
    readonly caller: Caller,
    readonly call: UpstreamCall,
    resolve: (outcome: Outcome) => void,
    readonly id = nextId(),
  ) {
    this.waiter = resolve;
    this.notify = (notification) => call.notify(notification);
    this.attend(call.cancellation);
  }

  /** Continues a call that another process parked. */
  static adopted(host: PendingHost, record: PortableCall): PendingCall {
    const { method, taskId, wantsProgress, capabilities, questions, timeouts } = record;
    const call: UpstreamCall = {
      method,
      params: RawObject.from(taskId === undefined ? {} : { taskId }),
      wantsProgress,
      logLevel: undefined,
      cancellation: new Cancellation(),
      tasks: 'none',
      mirrored: [],
      ...(timeouts && { timeouts }),
      notify: () => {},
    };
    const adopted = new PendingCall(host, { ...GATEWAY, capabilities }, call, () => {}, record.call);
    adopted.unattend();
    adopted.waiter = undefined;
    adopted.parked = true;
    adopted.lastEventId = record.lastEventId;
    for (const { key, id, request } of questions) adopted.asked.set(key, { id, request, release: () => {} });
    adopted.asking = questions.length;
    return adopted;
  }

  portable(): JsonValue | undefined {
    const session = this.host.portable();
    const { lastEventId, call } = this;
    if (!session || lastEventId === undefined || this.done || !this.parked) return undefined;
    this.carried = true;
    const { taskId } = call.params.value();
    return writePortable({
      ...session,
      call: this.id,
      method: call.method,
      ...(call.method === 'tasks/result' && typeof taskId === 'string' && { taskId }),
      wantsProgress: call.wantsProgress,
      capabilities: this.caller.capabilities,
      lastEventId,
      questions: [...this.asked].map(([key, { id, request }]) => ({ key, id, request })),
      ...(call.timeouts && { timeouts: call.timeouts }),
    });
  }

  private get asked(): Map<string, Question> {
    this.questionsByName ??= new Map();
    return this.questionsByName;
  }

  get done(): boolean {
    return this.finished !== undefined;
  }

  get over(): Promise<void> {
    if (!this.ending) {
      let resolve = (): void => {};
      const promise = new Promise<void>((done) => {
        resolve = done;
      });
      this.ending = { promise, resolve };
      if (this.done) resolve();
    }
    return this.ending.promise;
  }

  private attend(cancellation: Cancellation): void {
    const { call, callMax } = this.call.timeouts ?? this.host.timeouts;
    this.deadline = new Deadline(call, callMax, () => this.giveUp(timedOut(this.host.server, call), 'timed out'));
    this.stopListening = cancellation.onCancel((reason) =>
      this.giveUp(new ProtocolError('cancelled', 'The request was cancelled'), reason),
    );
  }

  private unattend(): void {
    this.deadline?.clear();
    this.stopListening?.();
    this.stopListening = undefined;
  }

  private giveUp(error: ProtocolError, reason: string | undefined): void {
    if (this.done) return;
    this.host.cancelUpstream(this, reason);
    this.finish(failed(error));
  }

  /** Sets the single outcome of the call. Without a waiting caller, the outcome is kept for the next `resume`. */
  finish(outcome: Outcome): void {
    if (this.done) return;
    this.finished = this.waiter ? outcome : this.kept(outcome);
    this.unattend();
    if (this.questionsByName) {
      clearTimeout(this.batch);
      for (const { release } of this.questionsByName.values()) release();
      this.questionsByName.clear();
    }
    this.host.forget(this);
    this.ending?.resolve();
    this.settle(outcome);
  }

  /** Keeps the outcome until the caller asks for it. Beyond the quota of kept bytes, an error is kept instead. */
  private kept(outcome: Outcome): Outcome {
    if (outcome.kind !== 'complete' && outcome.kind !== 'task') return outcome;
    this.releaseKept = this.host.traffic.keptAnswers.take(outcome.result.size);
    if (this.releaseKept) return outcome;
    const { name } = this.host.server;
    return failed(
      new ProtocolError(
        'overloaded',
        `Server "${name}" answered while its question was open; its answer was dropped, because the gateway already keeps too many answers`,
        { outcome: 'unknown', data: { server: name } },
      ),
    );
  }

  fail(error: ProtocolError | UpstreamRpcError): void {
    this.finish(failed(error));
  }

  private settle(outcome: Outcome): void {
    const { waiter } = this;
    this.waiter = undefined;
    waiter?.(outcome);
  }

  /** The server closed the reply stream. The channel resumes it. */
  polling(retry: number): void {
    this.call.polling?.(retry);
  }

  /** Returns false if the caller did not ask for progress. */
  progress(notification: Notification): boolean {
    if (!this.call.wantsProgress || this.done) return false;
    if (this.parked) {
      this.held = notification;
      return true;
    }
    this.deadline?.extend();
    this.notify(notification);
    return true;
  }

  /** Returns false if the caller did not ask for log messages of this level. */
  log(notification: Notification): boolean {
    const level = notification.params['level'];
    const { logLevel } = this.call;
    if (this.parked || logLevel === undefined || !isLogLevel(level) || !atLeast(level, logLevel)) return false;
    this.notify(notification);
    return true;
  }

  /** Reserves room for one more question and its answer. If there is no room, ends the call and returns undefined. */
  room(bytes: number): Release | undefined {
    const { traffic } = this.host;
    this.questionRate ??= new TokenBucket(traffic.limits.questions);
    this.open ??= new Quota(traffic.limits.openPerCall, traffic.questions);
    const release = this.questionRate.take(1) ? this.open.take(bytes) : undefined;
    if (!release) this.giveUp(tooMuch(this.host.server, 'questions'), 'too many questions');
    return release;
  }

  /** Counts a message on the stream of this call that the caller did not ask for. */
  unwanted(): void {
    this.unwantedRate ??= new TokenBucket(this.host.traffic.limits.unwantedPerCall);
    if (!this.unwantedRate.take(1)) this.giveUp(tooMuch(this.host.server, 'messages'), 'too many messages');
  }

  /** Handles a question that the server sends during this call. */
  ask(id: Id, request: InputRequest, release: Release, name?: string): void {
    // The call may already contain the answer.
    const given = name === undefined ? undefined : this.answerInCall(name);
    if (given) {
      this.host.replies.answer(id, request, given, release);
      return;
    }
    const taken = name === undefined || this.asked.has(name);
    this.asked.set(taken ? `${request.method}-${++this.asking}` : name, { id, request, release });
    if (!this.parked) this.batch ??= setTimeout(() => this.park(), BATCH_WINDOW);
  }

  private answerInCall(name: string): JsonObject | undefined {
    const responses = this.call.params.get('inputResponses');
    const answer = isObject(responses) && Object.hasOwn(responses, name) ? responses[name] : undefined;
    if (!isObject(answer) || this.used?.has(name)) return undefined;
    this.used ??= new Set();
    this.used.add(name);
    return answer;
  }

  /** The server withdraws a question. */
  withdraw(id: Id): void {
    for (const [key, question] of this.asked) {
      if (question.id !== id) continue;
      this.asked.delete(key);
      question.release();
    }
  }

  private park(): void {
    this.batch = undefined;
    if (this.done || this.asked.size === 0) return;
    this.parked = true;
    this.unattend();
    this.settle(this.questions());
  }

  private questions(): Outcome {
    const inputRequests: InputRequests = {};
    for (const [key, question] of this.asked) inputRequests[key] = question.request;
    return { kind: 'input_required', inputRequests, parked: this };
  }

  async resume(call: Pick<Call, 'notify' | 'cancellation'>, answers: InputResponses): Promise<Outcome> {
    if (this.ready) await this.ready;
    return new Promise((resolve) => {
      if (this.finished) {
        this.releaseKept?.();
        resolve(this.finished);
        return;
      }
      for (const [key, question] of this.asked) {
        const answer = answers[key];
        if (answer === undefined || !Object.hasOwn(answers, key)) continue;
        this.asked.delete(key);
        this.host.replies.answer(question.id, question.request, answer, question.release);
      }
      if (this.asked.size > 0) {
        resolve(this.questions());
        return;
      }
      this.parked = false;
      this.waiter = resolve;
      this.notify = (notification) => call.notify(notification);
      this.attend(call.cancellation);
      if (this.held) {
        const { held } = this;
        this.held = undefined;
        this.progress(held);
      }
    });
  }

  abandon(reason: string): void {
    this.releaseKept?.();
    if (this.done) return;
    for (const question of this.asked.values())
      this.host.replies.refuse(question.id, question.request, reason, question.release);
    this.asked.clear();
    this.giveUp(new ProtocolError('invalid_state', reason), reason);
  }
}
