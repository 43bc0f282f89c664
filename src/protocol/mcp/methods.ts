import { LIST_METHODS, TASK_METHODS } from './model.js';
import type { Revision } from './revisions/revision.js';

/** Every method of the modern era. */
export const MODERN_METHODS: readonly string[] = [
  'server/discover',
  ...LIST_METHODS,
  'tools/call',
  'resources/read',
  'prompts/get',
  'completion/complete',
  'subscriptions/listen',
  ...TASK_METHODS,
];
const MODERN: ReadonlySet<string> = new Set(MODERN_METHODS);

export const isModernMethod = (method: string): boolean => MODERN.has(method);

const REMOVED_METHODS: readonly string[] = [
  'initialize',
  'ping',
  'logging/setLevel',
  'resources/subscribe',
  'resources/unsubscribe',
  'tasks/result',
  'tasks/list',
];
const REMOVED: ReadonlySet<string> = new Set(REMOVED_METHODS);

/** Methods of the legacy era that the modern era removed, even for servers that speak both (VER-10). */
export const isRemovedMethod = (method: string): boolean => REMOVED.has(method);

const FORWARDED_METHODS: readonly string[] = [
  ...LIST_METHODS,
  'tools/call',
  'resources/read',
  'prompts/get',
  'completion/complete',
];
const SESSION: ReadonlySet<string> = new Set(FORWARDED_METHODS);

/** Every method of all revisions of the legacy era. */
export const SESSION_METHODS: readonly string[] = [
  ...FORWARDED_METHODS,
  ...REMOVED_METHODS,
  // Only in the revision whose core includes tasks.
  'tasks/get',
  'tasks/cancel',
];

/** Every method of a revision that a client may call. */
export const methodsOf = ({ era, expresses }: Revision): readonly string[] =>
  era === 'modern'
    ? MODERN_METHODS
    : SESSION_METHODS.filter((method) => expresses.tasks === 'core' || !method.startsWith('tasks/'));

/** Requests of the legacy era that are forwarded to a server. The session handles the others itself. */
export const isForwardedMethod = (method: string): boolean => SESSION.has(method);
