/** Stores the tasks of A2A agents, their events and push configurations in `state/`. */
import { createHash } from 'node:crypto';
import type { AgentRecords, NumberedEvent, PushRecord, TaskKey, TaskRecord } from '../core/a2a/tasks/task-records.js';
import type { DialectId } from '../protocol/a2a/dialect.js';
import { isTerminal, type StreamResponse, TASK_STATES, type Task } from '../protocol/a2a/model.js';
import { type AgentTask, type Dropped, newId, type State, wallMs } from '../state/index.js';
import { storing } from './mcp-records.js';

export interface AgentRecordsOptions {
  /** How long a task is kept after its last change, in milliseconds. */
  readonly taskTtl: number;
  /** Whether other replicas share the database. */
  readonly shared: boolean;
  /** Called after the oldest notifications of an owner were dropped, because too many waited or could not be delivered. */
  readonly dropped?: (owner: string, numbers: Dropped) => void;
}

const stored = storing('tasks');
const TERMINAL_STATES = TASK_STATES.filter(isTerminal);

export function agentRecords(state: State, { taskTtl, shared, dropped }: AgentRecordsOptions): AgentRecords {
  const { agentTasks: tasks, agentPushes: pushes, outbox, bus } = state;
  const changed = shared ? busHints(bus, 'task') : localHints();
  const meddled = shared ? busHints(bus, 'meddled') : localHints();
  /** Identifies this replica as the follower of a task. Each start of the process makes a new id. */
  const self = newId();
  const recordOf = (found: AgentTask<unknown> | undefined): TaskRecord | undefined => found && readRecord(found, self);

  return {
    find: async (key) => {
      if (!storable(key.id)) return undefined;
      return recordOf(await stored(tasks.get(key)));
    },
    findUpstream: async (agent, id) =>
      storable(id) ? recordOf(await stored(tasks.getUpstream(agent, id))) : undefined,
    findAll: async (owner, id) => {
      if (!storable(id)) return [];
      return (await stored(tasks.getAll(owner, id))).flatMap((task) => recordOf(task) ?? []);
    },
    contextAgent: async (owner, contextId) => {
      if (!storable(contextId)) return undefined;
      return (await stored(tasks.context(contextId))).find((found) => found.owner === owner)?.agent;
    },
    contextOwners: async (agent, contextId) => {
      if (!storable(contextId)) return [];
      const found = await stored(tasks.context(contextId));
      return found.flatMap((row) => (row.agent === agent ? [row.owner] : []));
    },
    save: async ({ record, after, events, notifications, followedUntil, held = false }) => {
      const { agent, owner, id, upstreamId, contextId, task, seq, dialect, createdAt, trace } = record;
      const { state: name, timestamp } = task.status;
      const reached = timestamp === undefined ? Number.NaN : Date.parse(timestamp);
      const saved = await stored(
        tasks.write({
          task: {
            ...{ agent, owner, id, upstreamId, contextId, seq, dialect, createdAt },
            state: name,
            statusAt: Number.isFinite(reached) ? reached : record.updatedAt,
            value: trace === undefined ? task : { ...task, [TRACE]: trace },
          },
          after,
          events: events.map(({ seq: number, event }) => ({ seq: number, value: event })),
          messages: notifications,
          expiresAt: wallMs() + taskTtl,
          ...(followedUntil !== undefined && { followedUntil, follower: followedUntil === null ? '' : self }),
          ...(held && { heldBy: self }),
        }),
        'unknown',
      );
      if (saved && notifications.length > 0) {
        // The change is stored. If this fails, the next change bounds the queue.
        const numbers = await outbox.trim(owner).catch(() => undefined);
        if (numbers) dropped?.(owner, numbers);
      }
      // A task that is terminal in its first record has no subscribers to notify.
      if (saved && (after > 0 || !isTerminal(name))) changed.send(record);
      if (saved && after > 0 && !held) meddled.send(record);
      return saved;
    },
    events: async (key, after) => {
      const found = await stored(tasks.events(key, after));
      return found?.map(({ seq, value }): NumberedEvent => ({ seq, event: value as StreamResponse }));
    },
    list: async (filter) => {
      const { tasks: found, total } = await stored(tasks.list(filter));
      return { records: found.flatMap((task) => recordOf(task) ?? []), total };
    },
    trim: (owner, most) => stored(tasks.trim(owner, TERMINAL_STATES, most)),
    claimFollowing: async (limit, until) => {
      return (await stored(tasks.claimFollowing(self, limit, until))).flatMap((task) => recordOf(task) ?? []);
    },
    claimOne: (key, until) => stored(tasks.claimOne(key, self, until)),
    keepFollowing: async (keys, until) => {
      const kept = new Set((await stored(tasks.keepFollowing(keys, self, until))).map(nameOf));
      return keys.filter((key) => !kept.has(nameOf(key)));
    },
    letGo: (keys, due) => stored(tasks.letGo(keys, self, due)),
    remind: (key, due) => stored(tasks.remind(key, due)),
    onChanged: (key, listener) => changed.listen(key, listener),
    onMeddled: (key, listener) => meddled.listen(key, listener),

    putPush: ({ key, config, dialect, secret, failures, disabled }) =>
      stored(pushes.put({ key: bare(key), id: config.id, value: { config, secret }, dialect, failures, disabled })),
    pushes: async (key) => {
      const found = await stored(pushes.ofTask(key));
      return found.map(({ value, dialect, failures, disabled }): PushRecord => {
        const { config, secret } = value as Pick<PushRecord, 'config' | 'secret'>;
        return { key: bare(key), config, dialect: dialect as DialectId, secret, failures, disabled };
      });
    },
    removePush: (key, id) => stored(pushes.remove(key, id)),
    disablePush: ({ key, config, secret }, disabled) =>
      stored(pushes.disable(key, config.id, { config, secret }, disabled)),
    countPush: (key, id, delivered) => stored(pushes.count(key, id, delivered)),
  };
}

const bare = ({ agent, owner, id }: TaskKey): TaskKey => ({ agent, owner, id });

/** PostgreSQL cannot store NUL in text, so no stored task has an id that contains it. */
const storable = (id: string): boolean => !id.includes('\0');

/** The member of a stored task that has the trace of its first call; no client sees it. */
const TRACE = 'parley/trace';

function readRecord(found: AgentTask<unknown>, self: string): TaskRecord {
  const { value, statusAt: _at, state: _state, dialect, follower, followedUntil, ...rest } = found;
  const { [TRACE]: trace, ...task } = value as Task & { readonly [TRACE]?: string };
  return {
    ...rest,
    dialect: dialect as DialectId,
    task: trace === undefined ? (value as Task) : task,
    ...(trace !== undefined && { trace }),
    followedUntil: follower === '' ? null : followedUntil,
    followedHere: follower === self,
  };
}

interface ChangeHints {
  send(key: TaskKey): void;
  listen(key: TaskKey, listener: () => void): () => void;
}

const nameOf = ({ agent, owner, id }: TaskKey): string => JSON.stringify([agent, owner, id]);

function localHints(): ChangeHints {
  const waiting = new Map<string, Set<() => void>>();
  return {
    send: (key) => {
      for (const listener of waiting.get(nameOf(key)) ?? []) listener();
    },
    listen: (key, listener) => {
      const name = nameOf(key);
      const listeners = waiting.get(name) ?? new Set();
      const own = (): void => listener();
      waiting.set(name, listeners.add(own));
      return () => {
        listeners.delete(own);
        if (listeners.size === 0 && waiting.get(name) === listeners) waiting.delete(name);
      };
    },
  };
}

/**
 * Hints about changes, sent over the bus. A hint may be lost; a listener that misses a hint sees the change at its next
 * poll.
 */
function busHints(bus: State['bus'], kind: string): ChangeHints {
  const topicOf = (key: TaskKey): string =>
    `a2a:${kind}:${createHash('sha256').update(nameOf(key)).digest('base64url').slice(0, 32)}`;
  return {
    send: (key) => bus.hint(topicOf(key)),
    listen: (key, listener) => bus.onHint(topicOf(key), listener),
  };
}
