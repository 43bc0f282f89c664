import { LIST_METHODS, TASK_METHODS } from './model.js';

const MODERN: ReadonlySet<string> = new Set([
  'server/discover',
  ...LIST_METHODS,
  'tools/call',
  'resources/read',
  'prompts/get',
  'completion/complete',
  'subscriptions/listen',
  ...TASK_METHODS,
]);

export const isModernMethod = (method: string): boolean => MODERN.has(method);

const REMOVED: ReadonlySet<string> = new Set([
  'initialize',
  'ping',
  'logging/setLevel',
  'resources/subscribe',
  'resources/unsubscribe',
  'tasks/result',
  'tasks/list',
]);

/** What the handshake era had and the modern one has not, even where a server speaks both (VER-10). */
export const isRemovedMethod = (method: string): boolean => REMOVED.has(method);

const SESSION: ReadonlySet<string> = new Set([
  ...LIST_METHODS,
  'tools/call',
  'resources/read',
  'prompts/get',
  'completion/complete',
]);

/** Requests of the handshake era that go to a server; the rest of that era is the session's own business. */
export const isForwardedMethod = (method: string): boolean => SESSION.has(method);
