import type { DialectId } from '../../../protocol/a2a/dialect.js';
import type { StreamResponse, Task, TaskPushNotificationConfig, TaskState } from '../../../protocol/a2a/model.js';

/**
 * Identifies a task at this gateway: several agents, and several callers of one agent, may have a task of the same id.
 */
export interface TaskKey {
  readonly agent: string;
  readonly owner: string;
  /** The id that clients use: the agent's own id unless the client chose one. */
  readonly id: string;
}

export const keyOf = ({ agent, owner, id }: TaskKey): TaskKey => ({ agent, owner, id });

/** A stored task. The snapshot is the result of all events up to `seq`, with the client's ids. */
export interface TaskRecord extends TaskKey {
  readonly upstreamId: string;
  readonly contextId: string;
  readonly task: Task;
  /** The number of the last event; the first is 1. */
  readonly seq: number;
  /** The dialect of the call that created the task. */
  readonly dialect: DialectId;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** The `traceparent` of the call that began the task. */
  readonly trace?: string | undefined;
  /** The stored time at which the claim of the follower ends; null or absent if no replica follows the task. */
  readonly followedUntil?: number | null;
  /** Whether this replica follows the task. */
  readonly followedHere?: boolean;
}

export interface NumberedEvent {
  readonly seq: number;
  readonly event: StreamResponse;
}

/** A notification that is stored in the same write as its change. */
export interface QueuedNotification {
  readonly id: string;
  readonly lane: string;
  readonly target: string;
  readonly value: unknown;
}

export interface TaskChange {
  readonly record: TaskRecord;
  /**
   * The number of the last event before this change; 0 for a new task. The store refuses the change if another change
   * came first.
   */
  readonly after: number;
  readonly events: readonly NumberedEvent[];
  readonly notifications: readonly QueuedNotification[];
  /**
   * The time at which this replica's claim ends; null if the task needs no follower; absent to leave the claim
   * unchanged.
   */
  readonly followedUntil?: number | null;
  /**
   * Set if this replica follows the task. The store then refuses the change if another replica follows the task by now.
   */
  readonly held?: boolean;
}

export interface TaskFilter {
  readonly owner: string;
  readonly agents: readonly string[];
  readonly contextId?: string;
  readonly state?: TaskState;
  /** Selects only tasks with a status timestamp at or after this time. */
  readonly since?: number;
  /** The position after which the page begins. */
  readonly after?: { readonly at: number; readonly agent: string; readonly id: string };
  readonly limit: number;
}

export interface PushRecord {
  readonly key: TaskKey;
  readonly config: TaskPushNotificationConfig & { readonly id: string; readonly taskId: string };
  /** The dialect of the client that registered the configuration: notifications use it. */
  readonly dialect: DialectId;
  /** The sealed configuration, including the key that signs deliveries. */
  readonly secret: string;
  readonly failures: number;
  readonly disabled: boolean;
}

/**
 * Stores tasks, their events and their push configurations. Every promise resolves once the data is durable. All times
 * are of the clock that replicas share (case 30).
 */
export interface AgentRecords {
  find(key: TaskKey): Promise<TaskRecord | undefined>;
  /** The task that this agent knows by this id. The caller of this method must compare the owner. */
  findUpstream(agent: string, upstreamId: string): Promise<TaskRecord | undefined>;
  /** The caller's tasks of this id, of any agent. */
  findAll(owner: string, id: string): Promise<TaskRecord[]>;
  /** The agent of a caller's context. */
  contextAgent(owner: string, contextId: string): Promise<string | undefined>;
  /** The owners of this agent's tasks in a context. */
  contextOwners(agent: string, contextId: string): Promise<string[]>;
  /** Stores a change. Returns false if the task was changed in the meantime, or if the id belongs to another task. */
  save(change: TaskChange): Promise<boolean>;
  /** Numbered events after `seq`, oldest first; undefined if some of them are no longer stored. */
  events(key: TaskKey, after: number): Promise<NumberedEvent[] | undefined>;
  list(filter: TaskFilter): Promise<{ readonly records: TaskRecord[]; readonly total: number }>;
  /**
   * Removes the oldest finished tasks of an owner with more than `most` tasks. Returns the number of tasks that are
   * left.
   */
  trim(owner: string, most: number): Promise<number>;
  /** Claims tasks whose follower is gone. Until the time `until`, no other replica can claim them. */
  claimFollowing(limit: number, until: number): Promise<TaskRecord[]>;
  /** Claims one task if no other replica follows it. */
  claimOne(key: TaskKey, until: number): Promise<boolean>;
  /**
   * Renews claims. Returns the tasks that this replica no longer follows because another replica follows them or they
   * need no follower.
   */
  keepFollowing(keys: readonly TaskKey[], until: number): Promise<TaskKey[]>;
  /** Releases claims. The tasks are due for any replica at `due`, or never for null. */
  letGo(keys: readonly TaskKey[], due: number | null): Promise<void>;
  /** Makes the task due for any replica at `due`, unless a replica follows it. */
  remind(key: TaskKey, due: number): Promise<void>;
  /** Calls `listener` when another replica may have changed a task. The call is only a hint. */
  onChanged(key: TaskKey, listener: () => void): () => void;
  /** Calls `listener` when a replica other than the follower may have changed a task. The call is only a hint. */
  onMeddled(key: TaskKey, listener: () => void): () => void;

  putPush(record: PushRecord): Promise<void>;
  pushes(key: TaskKey): Promise<PushRecord[]>;
  removePush(key: TaskKey, id: string): Promise<boolean>;
  /** Disables or enables a configuration, unless it was changed or deleted since it was read. */
  disablePush(record: PushRecord, disabled: boolean): Promise<boolean>;
  /** Counts a delivery. A success resets the count. Returns the number of failures in a row. */
  countPush(key: TaskKey, id: string, delivered: boolean): Promise<number>;
}
