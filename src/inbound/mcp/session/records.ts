import type { Selection } from '../../../core/view.js';
import type { ClientCapabilities, Implementation, LogLevel } from '../../../protocol/mcp/model.js';

/** All there is to know about a session beside what runs at the moment: any replica can go on with it. */
export interface SessionRecord {
  readonly key: string;
  /** The owner. Its roles are not kept: they are established again with every request. */
  readonly principal: StoredOwner;
  /** The part of the catalog it was opened on. */
  readonly view?: Selection;
  /** The one server it was opened on, if it was one; older versions of the gateway know nothing else of a view. */
  readonly server?: string;
  readonly revision: string;
  readonly capabilities: ClientCapabilities;
  readonly clientInfo: Implementation | undefined;
  readonly progress: SessionProgress;
}

/** The key of a principal, in the form that rows have had from the beginning. */
export interface StoredOwner {
  readonly name: string;
}

/** What changes in the course of a session. */
export interface SessionProgress {
  readonly initialized: boolean;
  readonly level: LogLevel | undefined;
  readonly resources: readonly string[];
}

/** Where sessions outlive a process. */
export interface SessionRecords {
  create(record: SessionRecord, idle: number): Promise<void>;
  load(key: string): Promise<SessionRecord | undefined>;
  update(key: string, progress: SessionProgress): Promise<void>;
  /** The session is used: it expires this much later. False where it is over. */
  touch(key: string, idle: number): Promise<boolean>;
  remove(key: string): Promise<void>;
  /** Calls back when a session was removed, or went on, at another replica. */
  onRemoved(listener: (key: string) => void): void;
  onProgress(listener: (key: string, progress: SessionProgress) => void): void;
}
