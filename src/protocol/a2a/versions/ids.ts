/** Ids for objects that have none in an old version. The same object gets the same id at every reading. */
import { createHash } from 'node:crypto';
import type { JsonValue } from '../../jsonrpc/raw.js';

/** A UUID of version 5 in the namespace of a task's id. */
export function derivedId(taskId: string, name: string): string {
  const hash = createHash('sha1').update(`${taskId}\n${name}`).digest();
  hash[6] = ((hash[6] as number) & 0x0f) | 0x50;
  hash[8] = ((hash[8] as number) & 0x3f) | 0x80;
  const hex = hash.toString('hex', 0, 16);
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}

/**
 * The id of a task's message, derived from its content, so that a status's message keeps its id once it moves to the
 * history. `earlier` is the number of equal messages before it in the history.
 */
export const contentId = (taskId: string, message: JsonValue | undefined, earlier = 0): string =>
  derivedId(taskId, `message/${earlier}/${JSON.stringify(message) ?? ''}`);

/** Assigns the ids of a history's messages, in order. */
export function historyIds(taskId: string): (message: JsonValue) => string {
  const seen = new Map<string, number>();
  return (message) => {
    const text = JSON.stringify(message);
    const earlier = seen.get(text) ?? 0;
    seen.set(text, earlier + 1);
    return contentId(taskId, message, earlier);
  };
}

/**
 * The session id of a task whose agent never names one. 0.1 lets clients choose the session id, so the gateway derives
 * it.
 */
export const sessionId = (taskId: string): string => derivedId(taskId, 'session');
