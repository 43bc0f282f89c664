/** Ids for what an old version leaves without one. The same thing gets the same id whenever it is read. */
import { createHash } from 'node:crypto';
import type { JsonValue } from '../../jsonrpc/raw.js';

/** A UUID of version 5 below the id of a task. */
export function derivedId(taskId: string, name: string): string {
  const hash = createHash('sha1').update(`${taskId}\n${name}`).digest();
  hash[6] = ((hash[6] as number) & 0x0f) | 0x50;
  hash[8] = ((hash[8] as number) & 0x3f) | 0x80;
  const hex = hash.toString('hex', 0, 16);
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}

/** The id of the message at a place of a task's history. */
export const historyId = (taskId: string, position: number): string => derivedId(taskId, `history/${position}`);

/** The id of a status's message, which is the same as long as the status says the same. */
export const statusId = (taskId: string, message: JsonValue | undefined, timestamp: JsonValue | undefined): string =>
  derivedId(taskId, `status/${String(timestamp ?? '')}/${JSON.stringify(message) ?? ''}`);

/** The session of a task whose agent never says which: 0.1 lets clients choose it, so it can be this one. */
export const sessionId = (taskId: string): string => derivedId(taskId, 'session');
