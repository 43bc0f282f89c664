import type { Db, Statement } from '../db.js';
import { newId } from '../ids.js';
import { type Change, Documents, type NewDocument } from './documents.js';
import { type Message, messageStatement } from './webhook-outbox.js';

/** Task records. A record is durable before any client sees it (TSKX-04), and is written together with its messages. */
export class Tasks<T = unknown> extends Documents<T> {
  constructor(db: Db) {
    super(db, 'tasks');
  }

  /** The messages are queued if and only if the task is created. */
  override async create(doc: NewDocument<T>, messages: readonly Message[] = []): Promise<boolean> {
    const mark = newId();
    return (await this.#write(doc.id, this.createStatement(doc, mark), mark, messages)) !== undefined;
  }

  /** The messages are queued if and only if the update is made. */
  override update(change: Change<T>, messages: readonly Message[] = []): Promise<number | undefined> {
    const mark = newId();
    return this.#write(change.id, this.updateStatement(change, mark), mark, messages);
  }

  async #write(id: string, write: Statement, mark: string, messages: readonly Message[]): Promise<number | undefined> {
    const sends = messages.map((message) => messageStatement(message, { table: 'tasks', id, mark }));
    const [rows] = await this.db.tx([write, ...sends]);
    return rows?.[0]?.['rev'] as number | undefined;
  }
}
