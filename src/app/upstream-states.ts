/** The states of the servers and agents: up, down or starting. */
import { AgentUpstream } from '../core/a2a/protocol-bridge/agent-upstream.js';
import { agentTarget, serverTarget, visible } from '../core/admission.js';
import type { Caller } from '../core/caller.js';
import { HealthProbes } from '../core/health-probes.js';
import { within } from '../core/timing.js';
import {
  forOperators,
  type Monitored,
  type StateChange,
  UpstreamMonitor,
  type UpstreamState,
} from '../core/upstream-monitor.js';
import type { Log } from '../telemetry/log.js';
import { ATTRIBUTES as A, HEALTH_PROBE, spanName } from '../telemetry/tracing/names.js';
import { traced } from '../telemetry/tracing/work-span.js';
import type { Runtime } from './runtime.js';
import { countedFor } from './visible-counts.js';

/** Time that a list of states waits for the skills of agents, in milliseconds. */
const SKILLS_WAIT = 500;

/** Watches the servers and agents of a running gateway, and knows the state of each. */
export class UpstreamStates {
  private readonly monitor: UpstreamMonitor;
  private readonly probes: HealthProbes;

  /** `began` is the time at which the configured servers and agents were started. */
  constructor(
    private readonly runtime: Runtime,
    began: number,
  ) {
    this.monitor = monitorOf(runtime, began);
    const { catalog } = runtime.mcp;
    this.probes = new HealthProbes({
      upstreams: () => catalog.servers.flatMap((name) => catalog.upstream(name) ?? []),
      interval: runtime.config.health.interval,
      around: (name, probe) => this.traced(name, probe),
    });
  }

  /** Runs a probe within a span. If the server is in use, the monitor sends no probe, and the span is dropped. */
  private traced(name: string, probe: () => Promise<void>): Promise<void> {
    const { mcp, telemetry } = this.runtime;
    const health = () => mcp.catalog.upstream(name)?.health();
    const before = health()?.probed?.at;
    const found = () => {
      const now = health();
      return now === undefined || now.probed?.at === before ? undefined : { [A.health]: now.status };
    };
    const span = { name: spanName(HEALTH_PROBE, name), attributes: { [A.server]: name }, found };
    return traced(telemetry.tracing, span, probe);
  }

  start(): void {
    this.monitor.start();
    this.probes.start();
  }

  close(): void {
    this.monitor.close();
    this.probes.close();
  }

  /** Logs every change of a server or an agent from now on. */
  logChanges(log: Log): void {
    this.monitor.onChange((change) => logChange(log, change));
  }

  /** All states, for the operator: a caller may not know of every server and agent. */
  all(): readonly UpstreamState[] {
    return this.monitor.states().map(forOperators);
  }

  /** Resolves when every server and agent has answered, at the latest after `milliseconds`. */
  async settled(milliseconds: number): Promise<void> {
    await this.monitor.settled(milliseconds);
    await this.loadSkills();
  }

  /** The servers and agents that a caller may know of. */
  async statesFor(caller: Caller): Promise<readonly UpstreamState[]> {
    await this.loadSkills();
    return this.shownTo(caller, this.monitor.states());
  }

  /**
   * The state of one server or agent; undefined if there is none of this name in use, or the caller may not know of it.
   * Reads this state only, so the cost does not grow with the number of servers and agents.
   */
  async stateFor(caller: Caller, kind: UpstreamState['kind'], name: string): Promise<UpstreamState | undefined> {
    if (kind === 'agent') await this.loadSkills([name]);
    const upstream = kind === 'agent' ? monitoredAgent(this.runtime, name) : monitoredServer(this.runtime, name);
    if (!upstream) return undefined;
    const [state] = await this.shownTo(caller, [this.monitor.stateOf(upstream)]);
    return state;
  }

  private async shownTo(caller: Caller, states: readonly UpstreamState[]): Promise<readonly UpstreamState[]> {
    const seen = await visible(this.runtime.mcp.admission, caller, states, ({ kind, name }) =>
      kind === 'agent' ? agentTarget(name) : serverTarget(name),
    );
    const counted = await countedFor(this.runtime, caller, seen);
    const { violations } = this.runtime.telemetry;
    if (!violations) return counted;
    return counted.map((state) => {
      const counts = violations.counts(state.name);
      return counts ? { ...state, violations: counts } : state;
    });
  }

  /** Asks for skills that are not known yet: an agent made of tools reads them from its servers on request only. */
  private async loadSkills(names?: readonly string[]): Promise<void> {
    const { directory } = this.runtime.a2a;
    const agents = (names ?? directory.names()).flatMap((name) => directory.get(name) ?? []);
    const unknown = agents.filter((agent) => agent.health().status === 'up' && !agent.known());
    if (unknown.length > 0) await within(Promise.allSettled(unknown.map((agent) => agent.facts())), SKILLS_WAIT);
    if (!names) this.monitor.sample();
  }
}

function monitorOf(runtime: Runtime, began: number): UpstreamMonitor {
  const servers = (): Monitored[] =>
    runtime.mcp.catalog.servers.flatMap((name) => monitoredServer(runtime, name) ?? []);
  const agents = (): Monitored[] =>
    runtime.a2a.directory.names().flatMap((name) => monitoredAgent(runtime, name) ?? []);
  return new UpstreamMonitor({ upstreams: () => [...servers(), ...agents()], began });
}

function monitoredServer({ mcp: { catalog } }: Runtime, name: string): Monitored | undefined {
  const upstream = catalog.upstream(name);
  // The skills of an agent are in the catalog as tools, but the agent is listed among the agents only.
  if (!upstream || upstream instanceof AgentUpstream) return undefined;
  return { kind: 'server', name, upstream, health: () => upstream.health(), offer: () => catalog.offer(name) };
}

function monitoredAgent({ a2a }: Runtime, name: string): Monitored | undefined {
  const agent = a2a.directory.get(name);
  if (!agent) return undefined;
  const offer = (): { known: boolean; count?: number } => {
    const skills = agent.known()?.card.skills;
    return { known: true, ...(skills && { count: skills.length }) };
  };
  return { kind: 'agent', name, upstream: agent, health: () => agent.health(), offer };
}

/** Logs one line per change. The `event` field is stable, for programs that read the log. */
export function logChange(log: Log, change: StateChange): void {
  const { kind, name, state, count, problem, lasted, age, recovered } = forOperators(change);
  const fields = {
    event: `${kind}.${state}`,
    [kind]: name,
    ...(count !== undefined && { [kind === 'server' ? 'tools' : 'skills']: count }),
    ...(problem !== undefined && { why: problem }),
    ...(state === 'up' && (recovered ? { awayMs: Math.round(lasted) } : { startMs: Math.round(age) })),
    ...(state === 'down' && recovered && { upMs: Math.round(lasted) }),
  };
  if (state === 'down') log.warn(fields, `${kind} is down`);
  else if (problem !== undefined) log.warn(fields, `${kind} is up, with a problem`);
  else log.info(fields, `${kind} is up${recovered ? ' again' : ''}`);
}
