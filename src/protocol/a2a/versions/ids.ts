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

/**
 * The id of a message of a task. It follows from the message, so that a status's message has the same id once it stands in
 * the history; `earlier` is how many equal messages stand before it there.
 */
export const contentId = (taskId: string, message: JsonValue | undefined, earlier = 0): string =>
  derivedId(taskId, `message/${earlier}/${JSON.stringify(message) ?? ''}`);

/** Gives out the ids of a history's messages, in their order. */
export function historyIds(taskId: string): (message: JsonValue) => string {
  const seen = new Map<string, number>();
  return (message) => {
    const text = JSON.stringify(message);
    const earlier = seen.get(text) ?? 0;
    seen.set(text, earlier + 1);
    return contentId(taskId, message, earlier);
  };
}

/** The session of a task whose agent never says which: 0.1 lets clients choose it, so it can be this one. */
export const sessionId = (taskId: string): string => derivedId(taskId, 'session');
