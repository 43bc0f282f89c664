import { randomUUID } from 'node:crypto';
import { type CallOutcome, ProtocolError, type Reason, UpstreamRpcError } from '../../protocol/errors.js';
import type { JsonObject, RawObject } from '../../protocol/jsonrpc/raw.js';
import { type InputRequests, type InputResponses, isObject, META } from '../../protocol/mcp/model.js';
import { NEWEST } from '../../protocol/mcp/revisions/index.js';
import { encodeFailure, errorObject } from '../../protocol/mcp/translate/failure.js';
import { isTerminal, type TaskView } from '../../protocol/mcp/translate/task.js';
import { Cancellation } from '../caller.js';
import { ALONE, type Cluster, ReplicaGone } from '../cluster.js';
import type { Call, Outcome, ParkedCall } from '../gateway.js';
import { Quota, type Release } from '../quota.js';
import { sleep } from '../timing.js';

/** A task of the gateway's own, as it is kept. */
export interface HostedTaskRecord extends TaskView {
  readonly principal: string;
  readonly server: string;
  /** The replica that runs it. */
  readonly owner: string;
}

/** Where task records outlive the process. */
export interface HostedTaskRecords {
  /** Resolves once the record is safe. */
  create(record: HostedTaskRecord): Promise<void>;
  /** False where the task was ended elsewhere meanwhile. */
  update(record: HostedTaskRecord): Promise<boolean>;
  /** Writes the end of a task that nobody runs any more; resolves with how it ended, which may be otherwise. */
  end(record: HostedTaskRecord): Promise<HostedTaskRecord>;
  load(taskId: string): Promise<HostedTaskRecord | undefined>;
  list(principal: string, after: string | undefined, limit: number): Promise<HostedTaskRecord[]>;
}

export interface TaskSettings {
  /** How long a task is kept whose client names no time, and the longest anyone may name. */
  readonly ttl: number;
  readonly pollInterval: number;
  readonly limits: TaskLimits;
}

/** What runs at this replica. */
export interface TaskLimits {
  readonly perCaller: number;
  readonly inAll: number;
  /** Bytes of questions, answers and results that are in memory for all tasks together. */
  readonly bytes: number;
}

interface Running {
  record: HostedTaskRecord;
  readonly cancellation: Cancellation;
  /** Keys a task has used are never used again (TSKX-07). */
  asked: number;
  /** What the client has to answer, by the key it sees, and the key the call knows it by. */
  readonly questions: Map<string, string>;
  readonly answers: InputResponses;
  parked: ParkedCall | undefined;
  readonly waiting: Set<() => void>;
  /** Ends with the last change that was written: they are written in turn. */
  saved: Promise<void>;
  expiry: NodeJS.Timeout | undefined;
  /** Gives back its place among the running tasks. */
  readonly leave: Release;
  /** Gives back the bytes that it holds at the moment. */
  readonly held: Release[];
}

export interface Following {
  readonly ready: Promise<unknown>;
  stop(): void;
}

interface Followers {
  readonly listeners: Set<(record: HostedTaskRecord) => void>;
  /** There may be a newer record than the one that was read. */
  changed?: boolean;
  reading?: boolean;
  seen?: string | undefined;
}

type Start = (call: Pick<Call, 'notify' | 'cancellation'>) => Promise<Outcome>;

/**
 * Tasks the gateway hosts: a call that goes on by itself while its caller comes back to ask. Used wherever only one side
 * knows tasks, or the two sides know different ones. The record is written before the handle is given out (TSKX-04).
 */
export class HostedTasks {
  private readonly running = new Map<string, Running>();
  private readonly followers = new Map<string, Followers>();
  private readonly places: Quota;
  private readonly placesOf = new Map<string, Quota>();
  private readonly bytes: Quota;

  constructor(
    private readonly records: HostedTaskRecords,
    private readonly settings: TaskSettings,
    private readonly cluster: Cluster = ALONE,
  ) {
    this.places = new Quota({ count: settings.limits.inAll, bytes: Number.POSITIVE_INFINITY });
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
    cluster.onTold(CHANGED, (payload) => {
      const taskId = String(payload);
      const running = this.running.get(taskId);
      if (running) void this.lose(running).catch(() => {});
      if (this.followers.has(taskId)) void this.refresh(taskId);
    });
  }

  get size(): number {
    return this.running.size;
  }

  /** Runs a call as a task. `notify` hears of its progress. */
  async start(
    principal: string,
    server: string,
    ttl: number | undefined,
    notify: Call['notify'],
    start: Start,
  ): Promise<TaskView> {
    const running = await this.open(principal, server, ttl, 'not_executed');
    void this.run(running, start({ notify, cancellation: running.cancellation }), notify);
    return running.record;
  }

  /** Takes over a call that has stopped to ask something: its caller answers through the task. */
  async adopt(
    principal: string,
    server: string,
    outcome: Outcome & { kind: 'input_required' },
    notify: Call['notify'],
  ): Promise<TaskView> {
    const running = await this.open(principal, server, undefined, 'unknown');
    void this.run(running, Promise.resolve(outcome), notify);
    return running.record;
  }

  private async open(
    principal: string,
    server: string,
    wanted: number | undefined,
    outcome: CallOutcome,
  ): Promise<Running> {
    const leave = this.place(principal, outcome);
    const now = new Date().toISOString();
    const record: HostedTaskRecord = {
      taskId: `task-${randomUUID()}`,
      principal,
      server,
      owner: this.cluster.self,
      status: 'working',
      createdAt: now,
      lastUpdatedAt: now,
      ttlMs: Math.min(wanted ?? this.settings.ttl, this.settings.ttl),
      pollIntervalMs: this.settings.pollInterval,
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
      leave,
      held: [],
    };
    running.expiry = setTimeout(() => void this.expire(running), Math.max(0, record.ttlMs ?? this.settings.ttl));
    running.expiry.unref();
    this.running.set(record.taskId, running);
    // Another replica that takes this one for dead ends the task, and says so.
    void this.cluster.follow(taskKey(record.taskId));
    return running;
  }

  /** A place for one more task of this caller. `outcome` says whether its call has run. */
  private place(principal: string, outcome: CallOutcome): Release {
    const { perCaller } = this.settings.limits;
    const own =
      this.placesOf.get(principal) ?? new Quota({ count: perCaller, bytes: Number.POSITIVE_INFINITY }, this.places);
    const release = own.take(0);
    if (!release) {
      const whose = own.used < perCaller ? 'Too many tasks run' : 'Too many of your tasks run';
      throw new ProtocolError('overloaded', `${whose}; wait for some to end, or cancel them`, { outcome });
    }
    this.placesOf.set(principal, own);
    return () => {
      release();
      if (own.used === 0 && this.placesOf.get(principal) === own) this.placesOf.delete(principal);
    };
  }

  /** Counts what a task holds in memory. False where there is no room. */
  private hold(running: Running, bytes: number): boolean {
    const release = this.bytes.take(bytes);
    if (release) running.held.push(release);
    return release !== undefined;
  }

  private letGo(running: Running): void {
    for (const release of running.held.splice(0)) release();
  }

  /** The task is no longer this replica's. */
  private forget(running: Running): void {
    const { taskId } = running.record;
    if (this.running.delete(taskId)) this.cluster.unfollow(taskKey(taskId));
    this.letGo(running);
    running.leave();
    clearTimeout(running.expiry);
  }

  /** Never rejects: what could not be written is found unfinished by whoever looks. */
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

  /** Puts the questions of one round to the client; resolves when all are answered, or with nothing when the task ends. */
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
    this.letGo(running);
    await this.change(running, { status: 'working' });
    return answers;
  }

  private async finish(running: Running, outcome: Outcome): Promise<void> {
    try {
      if (!isTerminal(running.record.status)) await this.conclude(running, outcome);
    } catch {
      // It could not be written as long as it was worth keeping.
    } finally {
      // Not before its end is written: until then this is the only place that knows of it.
      this.forget(running);
    }
  }

  private async conclude(running: Running, outcome: Outcome): Promise<void> {
    if (outcome.kind === 'complete' && !this.hold(running, outcome.result.size))
      await this.change(running, failedTask('overloaded', NO_ROOM));
    else if (outcome.kind === 'complete')
      await this.change(running, { status: 'completed', result: withoutHop(outcome.result) });
    else if (outcome.kind === 'error') {
      const encoded = encodeFailure(outcome.error, NEWEST, { method: 'tools/call' });
      // A refusal the model can read is a result like any other (TSKX-06).
      if ('result' in encoded) await this.change(running, { status: 'completed', result: encoded.result });
      else
        await this.change(running, {
          status: 'failed',
          error: encoded.error as unknown as JsonObject,
          statusMessage: encoded.error.message,
        });
    } else await this.change(running, failedTask('internal', 'The call did not come to an end'));
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
      await this.lose(running);
      return;
    }
    for (const check of [...running.waiting]) check();
    this.told(running.record);
  }

  /** Others hear which task has changed, and read its record if somebody follows it there. */
  private told(record: HostedTaskRecord): void {
    this.deliver(record);
    this.cluster.tell(CHANGED, record.taskId, taskKey(record.taskId)).catch(() => {});
  }

  private deliver(record: HostedTaskRecord): void {
    const followers = this.followers.get(record.taskId);
    if (!followers) return;
    for (const listener of [...followers.listeners]) listener(record);
  }

  /** Reads a task that changed at another replica, one read at a time, and tells those who follow it here. */
  private async refresh(taskId: string): Promise<void> {
    const followers = this.followers.get(taskId);
    if (!followers) return;
    followers.changed = true;
    if (followers.reading) return;
    followers.reading = true;
    for (let failures = 0; followers.changed && failures < READ_FAILURES; ) {
      followers.changed = false;
      try {
        const record = await this.records.load(taskId);
        if (record && stateOf(record) !== followers.seen) this.deliver(record);
        followers.seen = record && stateOf(record);
      } catch {
        // The store is away: read again, as somebody waits for it.
        followers.changed = true;
        failures++;
        await sleep(this.settings.pollInterval, { ref: false });
      }
    }
    followers.reading = false;
  }

  /** An end is written however long the store is away: the call is not made again to find it out. */
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

  /** Others took this replica for dead and ended the task; what they said stands. */
  private async lose(running: Running): Promise<void> {
    const { taskId } = running.record;
    running.record = (await this.records.load(taskId)) ?? { ...running.record, ...ABANDONED };
    this.forget(running);
    running.parked?.abandon('The task was ended elsewhere');
    running.cancellation.cancel('the task was ended elsewhere');
    for (const check of [...running.waiting]) check();
  }

  /** Its time is over: whatever it waits for is given up. */
  private async expire(running: Running): Promise<void> {
    if (isTerminal(running.record.status)) return;
    const message = 'The task did not end in its time';
    running.parked?.abandon(message);
    await this.change(running, failedTask('upstream_timeout', message)).catch(() => {});
    running.cancellation.cancel(message);
  }

  /**
   * Tells of changes of these tasks, wherever they run. Of several changes in a row the newest may be told alone. `ready`
   * resolves once changes at other replicas are heard.
   */
  onChange(taskIds: readonly string[], listener: (record: HostedTaskRecord) => void): Following {
    const ids = [...new Set(taskIds)];
    const followed = ids.map((taskId) => {
      const followers = this.followers.get(taskId) ?? { listeners: new Set() };
      followers.listeners.add(listener);
      this.followers.set(taskId, followers);
      return this.cluster.follow(taskKey(taskId));
    });
    let stopped = false;
    const stop = (): void => {
      if (stopped) return;
      stopped = true;
      for (const taskId of ids) {
        const followers = this.followers.get(taskId);
        followers?.listeners.delete(listener);
        if (followers?.listeners.size === 0) this.followers.delete(taskId);
        this.cluster.unfollow(taskKey(taskId));
      }
    };
    return { ready: Promise.all(followed), stop };
  }

  /** A task, for the principal it belongs to; for everybody else it does not exist (TSKX-11). */
  async find(principal: string, taskId: string): Promise<HostedTaskRecord> {
    const record = this.running.get(taskId)?.record ?? (await this.records.load(taskId));
    if (record?.principal !== principal)
      throw new ProtocolError('task_not_found', `Unknown task: ${taskId}`, { data: { taskId } });
    return this.asItStands(record);
  }

  /** A task whose process is gone has failed, and the call with it; it is not run again. */
  private async asItStands(record: HostedTaskRecord): Promise<HostedTaskRecord> {
    if (isTerminal(record.status) || this.running.has(record.taskId) || (await this.runsElsewhere(record)))
      return record;
    const { inputRequests: _, ...before } = record;
    const ended = await this.records.end({ ...before, ...ABANDONED, lastUpdatedAt: new Date().toISOString() });
    this.told(ended);
    return ended;
  }

  private async runsElsewhere(record: HostedTaskRecord): Promise<boolean> {
    return record.owner !== this.cluster.self && (await this.cluster.alive(record.owner));
  }

  /** Resolves when the task has changed to something that can be told: questions, or an end. */
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

  /** Takes answers; keys that are unknown or answered already are passed over (TSKX-07). */
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

  /** Ends a task that has not ended; resolves with how it stands. */
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

  /** A replica that dies over it leaves a task that has failed, which the next look finds. */
  private async atOwner(record: HostedTaskRecord, subject: string, payload: JsonObject): Promise<void> {
    try {
      await this.cluster.ask(record.owner, subject, payload);
    } catch (error) {
      if (!(error instanceof ReplicaGone)) throw error;
    }
  }

  async list(principal: string, after: string | undefined, limit: number): Promise<HostedTaskRecord[]> {
    const records = await this.records.list(principal, after, limit);
    return Promise.all(records.map((record) => this.asItStands(this.running.get(record.taskId)?.record ?? record)));
  }

  close(): void {
    for (const running of this.running.values()) running.cancellation.cancel('The gateway is stopping');
  }
}

const NO_ROOM = 'The gateway holds too much for tasks at the moment';

const sizeOf = (value: object): number => Buffer.byteLength(JSON.stringify(value));

const GONE = 'The gateway process that ran the task is gone';
const ABANDONED = failedTask('upstream_error', GONE);

/** A task that ended without an answer to its call, which may have run. */
function failedTask(reason: Reason, message: string): Pick<HostedTaskRecord, 'status' | 'statusMessage' | 'error'> {
  const error = errorObject(new ProtocolError(reason, message, { outcome: 'unknown' }), NEWEST);
  return { status: 'failed', statusMessage: message, error: error as unknown as JsonObject };
}

const UPDATE = 'task:update';
const CANCEL = 'task:cancel';
/** Says the id of a task, under the key of that task. */
const CHANGED = 'task:changed';
const taskKey = (taskId: string): string => `task:${taskId}`;
const READ_FAILURES = 20;

/** Differs where there is something new to tell. */
const stateOf = ({ status, lastUpdatedAt, inputRequests = {} }: HostedTaskRecord): string =>
  JSON.stringify([status, lastUpdatedAt, Object.keys(inputRequests)]);

/** A result as it stands inside a task: what described the hop it came over is gone. */
function withoutHop(result: RawObject): JsonObject {
  const value = { ...result.value() };
  const meta = value['_meta'];
  if (!isObject(meta)) return value;
  const { [META.serverInfo]: _, [META.relatedTask]: __, ...rest } = meta;
  if (Object.keys(rest).length > 0) value['_meta'] = rest;
  else delete value['_meta'];
  return value;
}
