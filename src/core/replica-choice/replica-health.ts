import type { BreakerHealth } from '../circuit-breaker.js';
import type { ReplicaHealth, UpstreamHealth } from '../upstream.js';
import type { Replica } from './replica.js';
import type { ReplicaState } from './replica-chooser.js';

/** Calls of one replica since the start of the process. */
export interface ReplicaCounts {
  readonly calls: number;
  readonly failures: number;
}

export interface GroupHealthOptions {
  readonly replicas: readonly Replica[];
  readonly lead: Replica;
  readonly states: readonly ReplicaState[];
  readonly counts: ReadonlyMap<string, ReplicaCounts>;
  difference(replica: Replica): string | undefined;
}

/** The health of a group of equivalent servers. The group is up as long as one server is up. */
export function groupHealth({ replicas, lead, states, counts, difference }: GroupHealthOptions): UpstreamHealth {
  const all = replicas.map((replica) => ({ replica, health: replica.upstream.health() }));
  const own = all.find(({ replica }) => replica === lead)!.health;
  const statuses = all.map(({ health }) => health.status);
  const status = statuses.includes('up')
    ? 'up'
    : statuses.includes('login_required')
      ? 'login_required'
      : statuses.every((each) => each === 'down')
        ? 'down'
        : 'unknown';
  const shown = all.map(({ replica, health }): ReplicaHealth => {
    const state = states.find(({ replica: id }) => id === replica.id);
    const { calls = 0, failures = 0 } = counts.get(replica.id) ?? {};
    const breaker = health.breaker ?? (state && state.breaker.state !== 'closed' ? state.breaker : undefined);
    const differs = difference(replica);
    return {
      position: replica.position,
      url: replica.place,
      status: health.status,
      ...(health.detail !== undefined && { detail: health.detail }),
      ...(breaker && { breaker }),
      ...{ inFlight: state?.inFlight ?? 0, calls, failures },
      ...(state?.expected !== undefined && { expected: Math.round(state.expected * 1_000) / 1_000 }),
      ...(differs !== undefined && { differs }),
    };
  });
  const breaker = everyBreaker(all.map(({ health }) => health.breaker));
  const probed = all.flatMap(({ health }) => health.probed ?? []).sort((a, b) => b.at - a.at)[0];
  const warning = warningOf(shown, status);
  return {
    status,
    speaks: [...new Set(all.flatMap(({ health }) => health.speaks))],
    ...(status === 'down' && own.detail !== undefined && { detail: own.detail }),
    ...(status === 'down' && own.cause !== undefined && { cause: own.cause }),
    ...(warning !== undefined && { warning }),
    ...(breaker && { breaker }),
    ...(probed && { probed }),
    replicas: shown,
  };
}

/** Calls are refused only while every replica refuses them. Returns the breaker with the earliest trial. */
function everyBreaker(breakers: readonly (BreakerHealth | undefined)[]): BreakerHealth | undefined {
  const open = breakers.flatMap((breaker) => breaker ?? []);
  if (open.length < breakers.length) return undefined;
  return open.sort((a, b) => a.nextTrialMs - b.nextTrialMs)[0];
}

function warningOf(replicas: readonly ReplicaHealth[], status: UpstreamHealth['status']): string | undefined {
  if (status !== 'up') return undefined;
  const down = replicas.filter((replica) => replica.status === 'down').map(({ position }) => position);
  const other = replicas.filter(({ differs }) => differs !== undefined).map(({ position }) => position);
  const parts = [
    ...(down.length > 0
      ? [`${down.length} of ${replicas.length} replicas ${down.length === 1 ? 'is' : 'are'} down`]
      : []),
    ...(other.length > 0 ? [`replicas whose tools differ from the listed ones: ${other.join(', ')}`] : []),
  ];
  return parts.length > 0 ? parts.join('; ') : undefined;
}
