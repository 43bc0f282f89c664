import type { TaskView } from '../../protocol/mcp/translate/task.js';

/** The stored record of a task that the gateway hosts. */
export interface HostedTaskRecord extends TaskView {
  readonly principal: string;
  readonly server: string;
  /** The replica that runs the task. */
  readonly owner: string;
  /** The `traceparent` of the call that began the task. */
  readonly trace?: string;
}

/** Stores task records beyond the life of the process. */
export interface HostedTaskRecords {
  /** Resolves once the record is durable. */
  create(record: HostedTaskRecord): Promise<void>;
  /** Returns false if another replica has ended the task. */
  update(record: HostedTaskRecord): Promise<boolean>;
  /**
   * Stores the end of a task that no replica runs any more. Resolves with the stored record, which has an earlier end
   * if one was stored before.
   */
  end(record: HostedTaskRecord): Promise<HostedTaskRecord>;
  load(taskId: string): Promise<HostedTaskRecord | undefined>;
  list(principal: string, after: string | undefined, limit: number): Promise<HostedTaskRecord[]>;
}
