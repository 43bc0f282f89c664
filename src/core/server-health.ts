import type { BreakerHealth } from './circuit-breaker.js';
import type { Upstream } from './upstream.js';
import type { UpstreamMonitor } from './upstream-monitor.js';

/** The health of one server for programs that manage the gateway. */
export interface ServerHealth {
  readonly name: string;
  readonly status: 'healthy' | 'unhealthy' | 'unknown';
  /** Why the server is unhealthy, in a text that callers may read. */
  readonly reason?: string;
  /** Since when the server has this status: milliseconds since 1970. */
  readonly since?: number;
  /** The last probe: milliseconds since 1970. */
  readonly checkedAt?: number;
  /** The duration of the last probe. */
  readonly latencyMs?: number;
  /** Present while calls are refused because the server could not be reached. */
  readonly breaker?: BreakerHealth;
  /** The number of tools, once they are known. */
  readonly tools?: number;
}

/** The health of the servers with these names. The caller of this function has checked that its user may see them. */
export function serverHealth(
  names: readonly string[],
  monitor: Pick<UpstreamMonitor, 'states' | 'since'>,
  upstream: (name: string) => Pick<Upstream, 'health'> | undefined,
): ServerHealth[] {
  const states = new Map(monitor.states().flatMap((state) => (state.kind === 'server' ? [[state.name, state]] : [])));
  return names.map((name) => {
    const state = states.get(name);
    const { breaker, probed } = upstream(name)?.health() ?? {};
    const since = monitor.since('server', name);
    const status = state?.state === 'up' ? 'healthy' : state?.state === 'down' ? 'unhealthy' : 'unknown';
    return {
      name,
      status,
      ...(status === 'unhealthy' && state?.problem !== undefined && { reason: state.problem }),
      ...(since !== undefined && { since }),
      ...(probed && { checkedAt: probed.at, latencyMs: probed.took }),
      ...(breaker && { breaker }),
      ...(state?.count !== undefined && { tools: state.count }),
    };
  });
}
