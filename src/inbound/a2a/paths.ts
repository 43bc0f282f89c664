import type { Operation } from '../../protocol/a2a/model.js';

/** Where `/a2a/<name>` is something else than an agent. */
export const RESERVED_AGENT_NAMES: ReadonlySet<string> = new Set(['agents', 'agent', 'push']);

/**
 * Beneath an agent, JSON-RPC a step deeper. A card for 0.2 readers names it, so that their
 * `{url}/../agent/authenticatedExtendedCard` is still beneath the agent.
 */
export const DEEP_RPC = '/rpc';

/** What is asked for in HTTP+JSON, and by which HTTP methods. */
export interface RestTarget {
  readonly by: Readonly<Record<string, Operation>>;
  readonly taskId?: string;
  readonly configId?: string;
  readonly tenant?: string;
  /** The path begins with `/v1`, as it did up to 0.3. */
  readonly v1: boolean;
}

export type Endpoint =
  /** `streams` where whatever is sent here is answered by a stream. */
  | { readonly kind: 'rpc'; readonly streams: boolean }
  | { readonly kind: 'rest'; readonly target: RestTarget }
  | { readonly kind: 'extendedCard' };

export interface Place {
  /** Undefined for the front agent. */
  readonly agent: string | undefined;
  readonly endpoint: Endpoint;
}

const RPC: Endpoint = { kind: 'rpc', streams: false };
const ROOT = /^(?:\/v1)?\/a2a(?=\/|$)/;

/** Whether a path is one of A2A, served or not. */
export const isA2aPath = (path: string): boolean =>
  ROOT.test(path) || /^\/\.well-known\/(?:agent|api-catalog$)/.test(path);

/** Finds what a path means. Undefined where it means nothing; `unknown` where it is beneath an agent that is not there. */
export function placeOf(path: string, isAgent: (name: string) => boolean): Place | 'unknown' | undefined {
  // Most requests go to an agent's own URL, and need not be taken apart.
  const only = path.startsWith('/a2a/') ? path.slice('/a2a/'.length) : '';
  if (/^[\w-]+$/.test(only) && !RESERVED_AGENT_NAMES.has(only) && isAgent(only)) return { agent: only, endpoint: RPC };
  const root = ROOT.exec(path);
  if (!root) return undefined;
  const segments = path.slice(root[0].length).split('/').slice(1);
  if (segments.at(-1) === '') segments.pop();
  const first = segments[0] === undefined ? undefined : decoded(segments[0]);
  const names = first !== undefined && first !== '' && !RESERVED_AGENT_NAMES.has(first);
  if (names) {
    const agent = [first, first.toLowerCase()].find(isAgent);
    if (agent !== undefined) {
      const endpoint = endpointOf(segments.slice(1), true);
      return endpoint && { agent, endpoint };
    }
  }
  const endpoint = endpointOf(segments, false);
  if (endpoint) return { agent: undefined, endpoint };
  return names ? 'unknown' : undefined;
}

function endpointOf(segments: readonly string[], tenants: boolean): Endpoint | undefined {
  switch (segments.join('/')) {
    case '':
    case 'rpc':
    case 'message/send':
      return RPC;
    case 'message/stream':
      return { kind: 'rpc', streams: true };
    case 'agent/authenticatedExtendedCard':
    case 'rpc/agent/authenticatedExtendedCard':
      return { kind: 'extendedCard' };
  }
  const v1 = segments[0] === 'v1';
  const rest = v1 ? segments.slice(1) : segments;
  const target = targetOf(rest, v1);
  if (target) return { kind: 'rest', target: { ...target, v1 } };
  if (!tenants || rest.length < 2) return undefined;
  const tenant = decoded(rest[0]!);
  const within = targetOf(rest.slice(1), v1);
  return within && tenant !== undefined ? { kind: 'rest', target: { ...within, tenant, v1 } } : undefined;
}

type Target = Omit<RestTarget, 'v1' | 'tenant'>;

function targetOf(segments: readonly string[], v1: boolean): Target | undefined {
  const [first, second, third, fourth] = segments;
  if (first === undefined || segments.length > 4) return undefined;
  if (second === undefined) {
    switch (decoded(first)) {
      case 'message:send':
        return { by: { POST: 'SendMessage' } };
      case 'message:stream':
        return { by: { POST: 'SendStreamingMessage' } };
      case 'tasks':
        return { by: { GET: 'ListTasks' } };
      case 'extendedAgentCard':
        return { by: { GET: 'GetExtendedAgentCard' } };
      case 'card':
        return v1 ? { by: { GET: 'GetExtendedAgentCard' } } : undefined;
    }
    return undefined;
  }
  // The proto of 0.3 writes `task` where it means `tasks`.
  if (first !== 'tasks' && !(v1 && first === 'task')) return undefined;
  if (third === undefined) return taskTarget(second);
  // Earlier versions say `pushNotifications`.
  if (third !== 'pushNotificationConfigs' && !(v1 && third === 'pushNotifications')) return undefined;
  const taskId = decoded(second);
  if (taskId === undefined || taskId === '') return undefined;
  if (fourth === undefined)
    return { by: { GET: 'ListTaskPushNotificationConfigs', POST: 'CreateTaskPushNotificationConfig' }, taskId };
  const configId = decoded(fourth);
  if (configId === undefined || configId === '') return undefined;
  return {
    by: { GET: 'GetTaskPushNotificationConfig', DELETE: 'DeleteTaskPushNotificationConfig' },
    taskId,
    configId,
  };
}

const ACTIONS = new Map<string, Target['by']>([
  ['cancel', { POST: 'CancelTask' }],
  // The proto says GET, the prose POST.
  ['subscribe', { GET: 'SubscribeToTask', POST: 'SubscribeToTask' }],
]);

function taskTarget(segment: string): Target | undefined {
  const colon = segment.lastIndexOf(':');
  const action = colon < 0 ? undefined : ACTIONS.get(segment.slice(colon + 1));
  const taskId = decoded(action ? segment.slice(0, colon) : segment);
  if (taskId === undefined || taskId === '') return undefined;
  return { by: action ?? { GET: 'GetTask' }, taskId };
}

function decoded(segment: string): string | undefined {
  if (!segment.includes('%')) return segment;
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}
