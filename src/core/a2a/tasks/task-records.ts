import type { DialectId } from '../../../protocol/a2a/dialect.js';
import type { StreamResponse, Task, TaskPushNotificationConfig, TaskState } from '../../../protocol/a2a/model.js';

/** Names a task of ours: the same id may belong to several agents, and to several callers of one. */
export interface TaskKey {
  readonly agent: string;
  readonly owner: string;
  /** The id clients know; the agent's own unless a client was the one to choose it. */
  readonly id: string;
}

export const keyOf = ({ agent, owner, id }: TaskKey): TaskKey => ({ agent, owner, id });

/** A task as it is kept: the snapshot is folded from all its events up to `seq`, and is in the client's ids. */
export interface TaskRecord extends TaskKey {
  readonly upstreamId: string;
  readonly contextId: string;
  readonly task: Task;
  /** The number of the last event; the first is 1. */
  readonly seq: number;
  /** The dialect that created it. */
  readonly dialect: DialectId;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** Until when a replica follows the task, as it was read. */
  readonly followedUntil?: number | null;
  /** Whether this replica is the one. */
  readonly followedHere?: boolean;
}

export interface NumberedEvent {
  readonly seq: number;
  readonly event: StreamResponse;
}

/** A notification that leaves with the change it tells of, or not at all. */
export interface QueuedNotification {
  readonly id: string;
  readonly lane: string;
  readonly target: string;
  readonly value: unknown;
}

export interface TaskChange {
  readonly record: TaskRecord;
  /** The number of the last event before this change; 0 for a new task. Somebody else's change in between refuses it. */
  readonly after: number;
  readonly events: readonly NumberedEvent[];
  readonly notifications: readonly QueuedNotification[];
  /** Until when this replica follows the task upstream; null where nobody needs to, left out where it is not ours to say. */
  readonly followedUntil?: number | null;
  /** This replica follows the task: refused where another one does by now. */
  readonly held?: boolean;
}

export interface TaskFilter {
  readonly owner: string;
  readonly agents: readonly string[];
  readonly contextId?: string;
  readonly state?: TaskState;
  /** Status timestamps at or after this. */
  readonly since?: number;
  /** The place after which the page begins. */
  readonly after?: { readonly at: number; readonly agent: string; readonly id: string };
  readonly limit: number;
}

export interface PushRecord {
  readonly key: TaskKey;
  readonly config: TaskPushNotificationConfig & { readonly id: string; readonly taskId: string };
  /** Notifications are written as whoever registered it reads them. */
  readonly dialect: DialectId;
  /** Signs deliveries to it. */
  readonly secret: string;
  readonly failures: number;
  readonly disabled: boolean;
}

/**
 * Where tasks, their events and their push configurations outlive the process. Every promise resolves once it is safe.
 * Times are of the clock that replicas share (case 30).
 */
export interface AgentRecords {
  find(key: TaskKey): Promise<TaskRecord | undefined>;
  /** The task with which this agent knows this id; its owner is to be compared by whoever asks. */
  findUpstream(agent: string, upstreamId: string): Promise<TaskRecord | undefined>;
  /** The caller's tasks of this id, of any agent. */
  findAll(owner: string, id: string): Promise<TaskRecord[]>;
  /** The agent that a caller's context began with. */
  contextAgent(owner: string, contextId: string): Promise<string | undefined>;
  /** Whose tasks of this agent a context has. */
  contextOwners(agent: string, contextId: string): Promise<string[]>;
  /** False where it was changed meanwhile, or the id is another task's already. */
  save(change: TaskChange): Promise<boolean>;
  /** Numbered events after `seq`, oldest first; undefined where some of them are no longer kept. */
  events(key: TaskKey, after: number): Promise<NumberedEvent[] | undefined>;
  list(filter: TaskFilter): Promise<{ readonly records: TaskRecord[]; readonly total: number }>;
  /** Tasks whose follower is gone, each for this replica alone until `until`. */
  claimFollowing(limit: number, until: number): Promise<TaskRecord[]>;
  /** Follows one task if nobody else does. */
  claimOne(key: TaskKey, until: number): Promise<boolean>;
  /** Returns those that this replica does not follow any more: another one does, or nobody needs to. */
  keepFollowing(keys: readonly TaskKey[], until: number): Promise<TaskKey[]>;
  /** Follows them no more; they are due for any replica at `due`, or not at all. */
  letGo(keys: readonly TaskKey[], due: number | null): Promise<void>;
  /** The task is due for any replica at `due`, unless one follows it. */
  remind(key: TaskKey, due: number): Promise<void>;
  /** Calls `listener` when a task may have changed on another replica. A hint. */
  onChanged(key: TaskKey, listener: () => void): () => void;
  /** Calls `listener` when somebody else than its follower may have changed a task. A hint. */
  onMeddled(key: TaskKey, listener: () => void): () => void;

  putPush(record: PushRecord): Promise<void>;
  pushes(key: TaskKey): Promise<PushRecord[]>;
  removePush(key: TaskKey, id: string): Promise<boolean>;
  /** Switches one off or on, unless it was changed or deleted since it was read. */
  disablePush(record: PushRecord, disabled: boolean): Promise<boolean>;
  /** Counts a delivery: a success starts the count anew; returns the failures in a row. */
  countPush(key: TaskKey, id: string, delivered: boolean): Promise<number>;
}
