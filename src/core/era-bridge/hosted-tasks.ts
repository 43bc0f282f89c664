import { randomUUID } from 'node:crypto';
import { type CallOutcome, ProtocolError, type Reason, UpstreamRpcError } from '../../protocol/errors.js';
import type { JsonObject, RawObject } from '../../protocol/jsonrpc/raw.js';
import { type InputRequests, type InputResponses, isObject, META } from '../../protocol/mcp/model.js';
import { NEWEST } from '../../protocol/mcp/revisions/index.js';
import { encodeFailure, errorObject } from '../../protocol/mcp/translate/failures.js';
import { isTerminal, type TaskView } from '../../protocol/mcp/translate/task.js';
import { Cancellation } from '../caller.js';
import { ALONE, type Cluster, ReplicaGone } from '../cluster.js';
import { Quota, type Release } from '../count-and-byte-limit.js';
import type { Call, Outcome, ParkedCall } from '../gateway.js';
import { sleep } from '../timing.js';
import type { TraceContext } from '../trace-context.js';
import { type Following, type HostedTaskListener, HostedTaskListeners, taskKey } from './hosted-task-listeners.js';
import type { HostedTaskRecord, HostedTaskRecords } from './hosted-task-record.js';
import { type TaskSlotLimits, TaskSlots } from './task-slots.js';

export interface TaskSettings {
  /** The default lifetime of a task, and the longest lifetime that a client may ask for. */
  readonly ttl: number;
  readonly pollInterval: number;
  readonly limits: TaskLimits;
}

/** Limits for the tasks of this replica. */
export interface TaskLimits extends TaskSlotLimits {
  /** The most bytes of questions, answers and results in memory, for all tasks together. */
  readonly bytes: number;
}

export interface TaskOptions {
  /** The requested lifetime. */
  readonly ttl?: number | undefined;
  /** The size of the request, which stays in memory while its task runs. */
  readonly bytes: number;
  /** Takes the progress notifications of the call. */
  readonly notify: Call['notify'];
  readonly trace?: TraceContext | undefined;
}

interface Running {
  record: HostedTaskRecord;
  readonly cancellation: Cancellation;
  /** Counts the questions of the task, so that no key is used twice (TSKX-07). */
  asked: number;
  /** The open questions: the key that the client sees, mapped to the key of the call. */
  readonly questions: Map<string, string>;
  readonly answers: InputResponses;
  parked: ParkedCall | undefined;
  readonly waiting: Set<() => void>;
  /** Settles when the last write has ended. The next write waits for it, so that the changes are written in order. */
  saved: Promise<void>;
  expiry: NodeJS.Timeout | undefined;
  /** The time at which the record is removed, by `performance.now()`. */
  readonly until: number;
  /** Releases the slot among the running tasks. */
  readonly leave: Release;
  /** Releases the bytes that the task holds in memory. */
  readonly held: Release[];
}

type Start = (call: Pick<Call, 'notify' | 'cancellation'>) => Promise<Outcome>;

/**
 * Tasks that the gateway hosts. A hosted task is a call that continues while its client polls for the result. Used if
 * only the client or only the server supports tasks, or if they support different kinds of tasks. The record is stored
 * before the client gets the handle (TSKX-04).
 */
export class HostedTasks {
  private readonly running = new Map<string, Running>();
  private readonly listeners: HostedTaskListeners;
  private readonly slots: TaskSlots;
  private readonly bytes: Quota;

  constructor(
    private readonly records: HostedTaskRecords,
    private readonly settings: TaskSettings,
    private readonly cluster: Cluster = ALONE,
  ) {
    this.slots = new TaskSlots(settings.limits);
    this.bytes = new Quota({ count: Number.POSITIVE_INFINITY, bytes: settings.limits.bytes });
    cluster.handle(UPDATE, async (payload) => {
      const { principal, taskId, responses } = payload as JsonObject;
      await this.update(String(principal), String(taskId), responses as InputResponses);
      return null;
    });
    cluster.handle(CANCEL, async (payload) => {
      const { principal, taskId } = payload as JsonObject;
      await this.cancel(String(principal), String(taskId));
      return null;
    });
    this.listeners = new HostedTaskListeners({
      load: (taskId) => records.load(taskId),
      retryInterval: settings.pollInterval,
      cluster,
      changedElsewhere: (taskId) => {
        const running = this.running.get(taskId);
        if (running) void this.endedElsewhere(running).catch(() => {});
      },
    });
  }

  get size(): number {
    return this.running.size;
  }

  /** Runs a call as a task. */
  async start(principal: string, server: string, options: TaskOptions, start: Start): Promise<TaskView> {
    const running = await this.open(principal, server, options, 'not_executed');
    const { notify } = options;
    void this.run(running, start({ notify, cancellation: running.cancellation }), notify);
    return running.record;
  }

  /**
   * Turns a call that waits for answers into a task. The client answers through the task. The parked call already
   * counts the bytes of the request.
   */
  async adopt(
    principal: string,
    server: string,
    options: Omit<TaskOptions, 'bytes' | 'ttl'>,
    outcome: Outcome & { kind: 'input_required' },
  ): Promise<TaskView> {
    const running = await this.open(principal, server, { ...options, bytes: 0 }, 'unknown');
    void this.run(running, Promise.resolve(outcome), options.notify);
    return running.record;
  }

  private async open(
    principal: string,
    server: string,
    { ttl, bytes, trace }: TaskOptions,
    outcome: CallOutcome,
  ): Promise<Running> {
    const leave = this.slots.take(principal, bytes, outcome);
    const now = new Date().toISOString();
    const record: HostedTaskRecord = {
      taskId: `task-${randomUUID()}`,
      principal,
      server,
      owner: this.cluster.self,
      status: 'working',
      createdAt: now,
      lastUpdatedAt: now,
      ttlMs: Math.min(ttl ?? this.settings.ttl, this.settings.ttl),
      pollIntervalMs: this.settings.pollInterval,
      ...(trace && { trace: trace.traceparent }),
    };
    try {
      await this.records.create(record);
    } catch (error) {
      leave();
      throw error;
    }
    const running: Running = {
      record,
      cancellation: new Cancellation(),
      asked: 0,
      questions: new Map(),
      answers: {},
      parked: undefined,
      waiting: new Set(),
      saved: Promise.resolve(),
      expiry: undefined,
      until: performance.now() + (record.ttlMs ?? this.settings.ttl),
      leave,
      held: [],
    };
    running.expiry = setTimeout(() => void this.expire(running), Math.max(0, record.ttlMs ?? this.settings.ttl));
    running.expiry.unref();
    this.running.set(record.taskId, running);
    // A replica that considers this replica dead ends the task and sends the change to the followers of this key.
    void this.cluster.follow(taskKey(record.taskId));
    return running;
  }

  /** Counts bytes that a task holds in memory. Returns false if the limit is reached. */
  private hold(running: Running, bytes: number): boolean {
    const release = this.bytes.take(bytes);
    if (release) running.held.push(release);
    return release !== undefined;
  }

  private releaseBytes(running: Running): void {
    for (const release of running.held.splice(0)) release();
  }

  /** Called when the task no longer runs at this replica. */
  private forget(running: Running): void {
    const { taskId, principal } = running.record;
    if (this.running.delete(taskId)) {
      this.cluster.unfollow(taskKey(taskId));
      this.slots.keep(principal, running.until);
    }
    this.releaseBytes(running);
    running.leave();
    clearTimeout(running.expiry);
  }

  /** Never rejects. If the end of the task cannot be stored, the next read finds the task unfinished. */
  private async run(running: Running, first: Promise<Outcome>, notify: Call['notify']): Promise<void> {
    let outcome: Outcome;
    try {
      outcome = await first;
      while (outcome.kind === 'input_required' && !isTerminal(running.record.status)) {
        const answers = await this.ask(running, outcome);
        if (!answers || !outcome.parked) break;
        outcome = await outcome.parked.resume({ notify, cancellation: running.cancellation }, answers);
      }
    } catch (error) {
      outcome = {
        kind: 'error',
        error:
          error instanceof ProtocolError || error instanceof UpstreamRpcError
            ? error
            : new ProtocolError('internal', 'The task failed in the gateway'),
      };
    }
    await this.finish(running, outcome).catch(() => {});
  }

  /**
   * Passes the questions of one round to the client. Resolves with the answers once all questions are answered, or with
   * undefined if the task ends first.
   */
  private async ask(
    running: Running,
    outcome: Outcome & { kind: 'input_required' },
  ): Promise<InputResponses | undefined> {
    const inputRequests: InputRequests = {};
    for (const [key, request] of Object.entries(outcome.inputRequests ?? {})) {
      const shown = `${key}#${++running.asked}`;
      running.questions.set(shown, key);
      inputRequests[shown] = request;
    }
    running.parked = outcome.parked;
    if (!this.hold(running, sizeOf(inputRequests))) {
      outcome.parked?.abandon(NO_ROOM);
      throw new ProtocolError('overloaded', NO_ROOM, { outcome: 'unknown' });
    }
    await this.change(running, { status: 'input_required', inputRequests });
    await new Promise<void>((resolve) => {
      const check = (): void => {
        if (running.questions.size > 0 && !isTerminal(running.record.status)) return;
        running.waiting.delete(check);
        resolve();
      };
      running.waiting.add(check);
      check();
    });
    if (isTerminal(running.record.status)) return undefined;
    const answers = { ...running.answers };
    for (const key of Object.keys(running.answers)) delete running.answers[key];
    this.releaseBytes(running);
    await this.change(running, { status: 'working' });
    return answers;
  }

  private async finish(running: Running, outcome: Outcome): Promise<void> {
    try {
      if (!isTerminal(running.record.status)) await this.conclude(running, outcome);
    } catch {
      // The end could not be stored within the lifetime of the task.
    } finally {
      // The task is removed only after its end is stored, because until then the end exists only in this object.
      this.forget(running);
    }
  }

  private async conclude(running: Running, outcome: Outcome): Promise<void> {
    if (outcome.kind === 'complete' && !this.hold(running, outcome.result.size))
      await this.change(running, failedTask('overloaded', NO_ROOM));
    else if (outcome.kind === 'complete')
      await this.change(running, { status: 'completed', result: withoutHopMetadata(outcome.result) });
    else if (outcome.kind === 'error') {
      const encoded = encodeFailure(outcome.error, NEWEST, { method: 'tools/call' });
      // A tool error that the model can read is a result like any other (TSKX-06).
      if ('result' in encoded) await this.change(running, { status: 'completed', result: encoded.result });
      else
        await this.change(running, {
          status: 'failed',
          error: encoded.error as unknown as JsonObject,
          statusMessage: encoded.error.message,
        });
    } else await this.change(running, failedTask('internal', 'The call ended without a result'));
  }

  private async change(running: Running, change: Partial<HostedTaskRecord>): Promise<void> {
    const { inputRequests: _, ...before } = running.record;
    const record: HostedTaskRecord = { ...before, ...change, lastUpdatedAt: new Date().toISOString() };
    running.record = record;
    const saved = running.saved.then(() => this.save(record));
    running.saved = saved.then(
      () => {},
      () => {},
    );
    if (!(await saved)) {
      await this.endedElsewhere(running);
      return;
    }
    for (const check of [...running.waiting]) check();
    this.listeners.publish(running.record);
  }

  /** While the store is unavailable, retries to store the end of a task, because the call cannot be repeated. */
  private async save(record: HostedTaskRecord): Promise<boolean> {
    const until = performance.now() + (record.ttlMs ?? this.settings.ttl);
    for (;;) {
      try {
        return await this.records.update(record);
      } catch (error) {
        if (!isTerminal(record.status) || performance.now() > until) throw error;
        await sleep(this.settings.pollInterval, { ref: false });
      }
    }
  }

  /** Called when another replica considered this replica dead and ended the task. The stored end counts. */
  private async endedElsewhere(running: Running): Promise<void> {
    const { taskId } = running.record;
    running.record = (await this.records.load(taskId)) ?? { ...running.record, ...ABANDONED };
    this.forget(running);
    running.parked?.abandon('Another replica ended the task');
    running.cancellation.cancel('another replica ended the task');
    for (const check of [...running.waiting]) check();
  }

  /** Called when the lifetime of the task is over. The task is abandoned and fails. */
  private async expire(running: Running): Promise<void> {
    if (isTerminal(running.record.status)) return;
    const message = 'The task did not end within its lifetime';
    running.parked?.abandon(message);
    await this.change(running, failedTask('upstream_timeout', message)).catch(() => {});
    running.cancellation.cancel(message);
  }

  onChange(taskIds: readonly string[], listener: HostedTaskListener): Following {
    return this.listeners.add(taskIds, listener);
  }

  /** A task of this principal; for every other principal the task does not exist (TSKX-11). */
  async find(principal: string, taskId: string): Promise<HostedTaskRecord> {
    const record = this.running.get(taskId)?.record ?? (await this.records.load(taskId));
    if (record?.principal !== principal) throw unknownTask(taskId);
    return this.failIfOwnerGone(record);
  }

  /**
   * Returns the record. If the replica that ran the task is gone, stores and returns a failed record. The call is not
   * repeated.
   */
  private async failIfOwnerGone(record: HostedTaskRecord): Promise<HostedTaskRecord> {
    if (isTerminal(record.status) || this.running.has(record.taskId) || (await this.runsElsewhere(record)))
      return record;
    const { inputRequests: _, ...before } = record;
    const ended = await this.records.end({ ...before, ...ABANDONED, lastUpdatedAt: new Date().toISOString() });
    this.listeners.publish(ended);
    return ended;
  }

  private async runsElsewhere(record: HostedTaskRecord): Promise<boolean> {
    return record.owner !== this.cluster.self && (await this.cluster.alive(record.owner));
  }

  /** Resolves when the task has new questions or has ended. */
  async next(
    principal: string,
    taskId: string,
    seen: ReadonlySet<string>,
    cancellation: Cancellation,
  ): Promise<HostedTaskRecord> {
    for (;;) {
      const record = await this.find(principal, taskId);
      const fresh = Object.keys(record.inputRequests ?? {}).some((key) => !seen.has(key));
      if (isTerminal(record.status) || fresh || cancellation.cancelled) return record;
      const running = this.running.get(taskId);
      if (!running) {
        await sleep(this.settings.pollInterval);
        continue;
      }
      await new Promise<void>((resolve) => {
        const stop = cancellation.onCancel(() => check());
        const check = (): void => {
          running.waiting.delete(check);
          stop?.();
          resolve();
        };
        running.waiting.add(check);
        if (!this.running.has(taskId)) check();
      });
    }
  }

  /** Takes answers. Ignores unknown keys and keys that were answered already (TSKX-07). */
  async update(principal: string, taskId: string, responses: InputResponses): Promise<void> {
    const record = await this.find(principal, taskId);
    const running = this.running.get(taskId);
    if (!running) {
      if (!isTerminal(record.status)) await this.atOwner(record, UPDATE, { principal, taskId, responses });
      return;
    }
    const taken = Object.entries(responses).filter(
      ([shown, response]) => running.questions.has(shown) && isObject(response),
    );
    if (taken.length > 0 && !this.hold(running, sizeOf(taken)))
      throw new ProtocolError('overloaded', `${NO_ROOM}; send the answers again later`, { outcome: 'not_executed' });
    for (const [shown, response] of taken) {
      running.answers[running.questions.get(shown)!] = response;
      running.questions.delete(shown);
    }
    if (running.record.inputRequests && running.questions.size > 0) {
      const left = Object.fromEntries(
        Object.entries(running.record.inputRequests).filter(([key]) => running.questions.has(key)),
      );
      await this.change(running, { inputRequests: left });
    } else for (const check of [...running.waiting]) check();
  }

  /** Cancels a task that has not ended. Resolves with its state. */
  async cancel(principal: string, taskId: string): Promise<HostedTaskRecord> {
    const record = await this.find(principal, taskId);
    const running = this.running.get(taskId);
    if (isTerminal(record.status)) return record;
    if (!running) {
      await this.atOwner(record, CANCEL, { principal, taskId });
      return this.find(principal, taskId);
    }
    running.parked?.abandon('The task was cancelled');
    await this.change(running, { status: 'cancelled' });
    running.cancellation.cancel('the task was cancelled');
    return running.record;
  }

  /** Sends a request to the owner. If the owner dies during the request, the next read finds the task failed. */
  private async atOwner(record: HostedTaskRecord, subject: string, payload: JsonObject): Promise<void> {
    try {
      await this.cluster.ask(record.owner, subject, payload);
    } catch (error) {
      if (!(error instanceof ReplicaGone)) throw error;
    }
  }

  async list(principal: string, after: string | undefined, limit: number): Promise<HostedTaskRecord[]> {
    const records = await this.records.list(principal, after, limit);
    return Promise.all(
      records.map((record) => this.failIfOwnerGone(this.running.get(record.taskId)?.record ?? record)),
    );
  }

  close(): void {
    for (const running of this.running.values()) running.cancellation.cancel('The gateway is stopping');
  }
}

const NO_ROOM = 'The tasks of this gateway hold too much data at the moment';

const sizeOf = (value: object): number => Buffer.byteLength(JSON.stringify(value));

const GONE = 'The gateway process that ran the task is gone';
const ABANDONED = failedTask('upstream_error', GONE);

/** The end of a task whose call returned no outcome. The call may have run. */
function failedTask(reason: Reason, message: string): Pick<HostedTaskRecord, 'status' | 'statusMessage' | 'error'> {
  const error = errorObject(new ProtocolError(reason, message, { outcome: 'unknown' }), NEWEST);
  return { status: 'failed', statusMessage: message, error: error as unknown as JsonObject };
}

const UPDATE = 'task:update';
const CANCEL = 'task:cancel';
/** The result for the record of the task, without the metadata of the hop to the server. */
function withoutHopMetadata(result: RawObject): JsonObject {
  const value = { ...result.value() };
  const meta = value['_meta'];
  if (!isObject(meta)) return value;
  const { [META.serverInfo]: _, [META.relatedTask]: __, ...rest } = meta;
  if (Object.keys(rest).length > 0) value['_meta'] = rest;
  else delete value['_meta'];
  return value;
}

export const unknownTask = (taskId: string): ProtocolError =>
  new ProtocolError('task_not_found', `Unknown task: ${taskId}`, { data: { taskId } });
