import type { Cluster } from '../cluster.js';
import { sleep } from '../timing.js';
import type { HostedTaskRecord } from './hosted-task-record.js';

export type HostedTaskListener = (record: HostedTaskRecord) => void;

export interface Following {
  /** Resolves once this replica receives changes from other replicas. */
  readonly ready: Promise<unknown>;
  stop(): void;
}

export interface HostedTaskListenersOptions {
  readonly load: (taskId: string) => Promise<HostedTaskRecord | undefined>;
  /** The pause between two attempts to read a record while the store is unavailable. */
  readonly retryInterval: number;
  readonly cluster: Cluster;
  /** Called when another replica changed a task. */
  readonly changedElsewhere: (taskId: string) => void;
}

interface Followed {
  readonly listeners: Set<HostedTaskListener>;
  /** Whether a newer record may exist than the last one that was read. */
  changed?: boolean;
  reading?: boolean;
  seen?: string | undefined;
}

/** The listeners of hosted tasks at this replica. They are notified of changes at every replica. */
export class HostedTaskListeners {
  private readonly tasks = new Map<string, Followed>();

  constructor(private readonly options: HostedTaskListenersOptions) {
    options.cluster.onTold(CHANGED, (payload) => {
      const taskId = String(payload);
      options.changedElsewhere(taskId);
      void this.refresh(taskId);
    });
  }

  /** Reports changes of these tasks. Of several changes in a row, only the newest may be reported. */
  add(taskIds: readonly string[], listener: HostedTaskListener): Following {
    const { cluster } = this.options;
    const ids = [...new Set(taskIds)];
    const followed = ids.map((taskId) => {
      const task = this.tasks.get(taskId) ?? { listeners: new Set() };
      task.listeners.add(listener);
      this.tasks.set(taskId, task);
      return cluster.follow(taskKey(taskId));
    });
    let stopped = false;
    const stop = (): void => {
      if (stopped) return;
      stopped = true;
      for (const taskId of ids) {
        const task = this.tasks.get(taskId);
        task?.listeners.delete(listener);
        if (task?.listeners.size === 0) this.tasks.delete(taskId);
        cluster.unfollow(taskKey(taskId));
      }
    };
    return { ready: Promise.all(followed), stop };
  }

  /**
   * Calls the listeners at this replica, and sends the id of the task to the other replicas. A replica with listeners
   * for the task then reads the record.
   */
  publish(record: HostedTaskRecord): void {
    this.deliver(record);
    this.options.cluster.tell(CHANGED, record.taskId, taskKey(record.taskId)).catch(() => {});
  }

  private deliver(record: HostedTaskRecord): void {
    for (const listener of [...(this.tasks.get(record.taskId)?.listeners ?? [])]) listener(record);
  }

  /** Reads a task that changed at another replica, one read at a time, and calls its listeners at this replica. */
  private async refresh(taskId: string): Promise<void> {
    const task = this.tasks.get(taskId);
    if (!task) return;
    task.changed = true;
    if (task.reading) return;
    task.reading = true;
    for (let failures = 0; task.changed && failures < READ_FAILURES; ) {
      task.changed = false;
      try {
        const record = await this.options.load(taskId);
        if (record && stateOf(record) !== task.seen) this.deliver(record);
        task.seen = record && stateOf(record);
      } catch {
        // The store is unavailable. The read is repeated, because a listener waits for the record.
        task.changed = true;
        failures++;
        await sleep(this.options.retryInterval, { ref: false });
      }
    }
    task.reading = false;
  }
}

/** The key under which replicas follow the changes of a task. */
export const taskKey = (taskId: string): string => `task:${taskId}`;

/** The subject of a message with the id of a changed task. The message is sent under the key of that task. */
const CHANGED = 'task:changed';
const READ_FAILURES = 20;

/** A text that differs between two states if listeners must be notified of the change. */
const stateOf = ({ status, lastUpdatedAt, inputRequests = {} }: HostedTaskRecord): string =>
  JSON.stringify([status, lastUpdatedAt, Object.keys(inputRequests)]);
