import type { Operation } from '../../protocol/a2a/model.js';
import type { Method } from '../http/route.js';

/**
 * JSON-RPC one step deeper under an agent. Cards for 0.2 readers use this URL, so that their
 * `{url}/../agent/authenticatedExtendedCard` is still a path of the agent.
 */
export const DEEP_RPC = '/rpc';

/** The path prefixes of A2A. */
export const ROOTS: readonly string[] = ['/a2a', '/v1/a2a'];

/**
 * The base path of each agent: a root for the routing agent, and the agent's name under a root for every other agent.
 */
export const BASES: readonly string[] = ROOTS.flatMap((root) => [root, `${root}/{agent}`]);

/** The JSON-RPC paths under a base. */
export const RPC_PATHS: readonly string[] = ['', DEEP_RPC, '/message/send'];
/** The JSON-RPC path whose response is always a stream. */
export const RPC_STREAM_PATH = '/message/stream';
/** Up to 0.2 the extended card is a page beside the endpoint. */
export const EXTENDED_CARD_PATHS: readonly string[] = [
  '/agent/authenticatedExtendedCard',
  `${DEEP_RPC}/agent/authenticatedExtendedCard`,
];

/** One operation in HTTP+JSON, under a base. */
export interface RestPath {
  readonly method: Method;
  readonly path: string;
  readonly operation: Operation;
  /** The path begins with `/v1`, as in 0.3 and earlier. */
  readonly v1: boolean;
}

const CONFIGS = '/tasks/{task}/pushNotificationConfigs';

const OPERATIONS: readonly (readonly [Method, string, Operation])[] = [
  ['POST', '/message:send', 'SendMessage'],
  ['POST', '/message:stream', 'SendStreamingMessage'],
  ['GET', '/tasks', 'ListTasks'],
  ['GET', '/tasks/{task}', 'GetTask'],
  ['POST', '/tasks/{task}:cancel', 'CancelTask'],
  // The proto specifies GET, the text of the specification POST.
  ['GET', '/tasks/{task}:subscribe', 'SubscribeToTask'],
  ['POST', '/tasks/{task}:subscribe', 'SubscribeToTask'],
  ['GET', CONFIGS, 'ListTaskPushNotificationConfigs'],
  ['POST', CONFIGS, 'CreateTaskPushNotificationConfig'],
  ['GET', `${CONFIGS}/{config}`, 'GetTaskPushNotificationConfig'],
  ['DELETE', `${CONFIGS}/{config}`, 'DeleteTaskPushNotificationConfig'],
  ['GET', '/extendedAgentCard', 'GetExtendedAgentCard'],
];

/**
 * The spellings of a path up to 0.3: the proto writes `task` instead of `tasks`, and earlier versions
 * `pushNotifications`.
 */
function olderSpellings(path: string): string[] {
  const spellings = [path];
  if (path.startsWith('/tasks/')) spellings.push(path.replace('/tasks/', '/task/'));
  return spellings.flatMap((each) =>
    each.includes('/pushNotificationConfigs')
      ? [each, each.replace('/pushNotificationConfigs', '/pushNotifications')]
      : [each],
  );
}

/** The HTTP+JSON paths under a base, without a tenant. */
const REST: readonly RestPath[] = [
  ...OPERATIONS.map(([method, path, operation]): RestPath => ({ method, path, operation, v1: false })),
  ...OPERATIONS.flatMap(([method, path, operation]) =>
    olderSpellings(path).map((older): RestPath => ({ method, path: `/v1${older}`, operation, v1: true })),
  ),
  { method: 'GET', path: '/v1/card', operation: 'GetExtendedAgentCard', v1: true },
];

/** The HTTP+JSON paths under a base. Agents have tenants, the routing agent has none. */
export function restPaths(base: string): RestPath[] {
  const plain = REST.map((each) => ({ ...each, path: base + each.path }));
  if (!base.endsWith('{agent}')) return plain;
  const tenants = REST.map((each) => {
    const path = each.v1 ? each.path.replace('/v1', '/v1/{tenant}') : `/{tenant}${each.path}`;
    return { ...each, path: base + path };
  });
  return [...plain, ...tenants];
}
