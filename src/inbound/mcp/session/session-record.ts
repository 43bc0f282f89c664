import type { Selection } from '../../../core/view.js';
import type { ClientCapabilities, Implementation, LogLevel } from '../../../protocol/mcp/model.js';

/** The stored data of a session, without its running calls: any replica can continue the session from it. */
export interface SessionRecord {
  readonly key: string;
  /** The owner. Its roles are not stored, because every request determines them anew. */
  readonly principal: StoredOwner;
  /** The part of the catalog on which the session was opened. */
  readonly view?: Selection;
  /**
   * The server on which the session was opened, if the session has a single server. Older versions of the gateway store
   * this member and no `view`.
   */
  readonly server?: string;
  readonly revision: string;
  readonly capabilities: ClientCapabilities;
  readonly clientInfo: Implementation | undefined;
  readonly progress: SessionProgress;
}

/** The key of a principal. The form of this object in the database must not change. */
export interface StoredOwner {
  readonly name: string;
}

/** The data that changes during a session. */
export interface SessionProgress {
  readonly initialized: boolean;
  readonly level: LogLevel | undefined;
  readonly resources: readonly string[];
}

/** The store in which sessions outlive a process. */
export interface SessionRecords {
  create(record: SessionRecord, idle: number): Promise<void>;
  load(key: string): Promise<SessionRecord | undefined>;
  update(key: string, progress: SessionProgress): Promise<void>;
  /** Extends the session by `idle` milliseconds. False if the session has ended. */
  touch(key: string, idle: number): Promise<boolean>;
  remove(key: string): Promise<void>;
  /** Calls back when a session was removed or continued at another replica. */
  onRemoved(listener: (key: string) => void): void;
  onProgress(listener: (key: string, progress: SessionProgress) => void): void;
}
