/**
 * Counts the tools, skills and findings that a caller may see. A count of all of them would reveal that hidden ones
 * exist (S3).
 */
import { type ItemTarget, seesAll, serverTarget, visible } from '../core/admission.js';
import { type Caller, callerOf, type Principal } from '../core/caller.js';
import { NO_CAPABILITIES } from '../core/catalog/capability-set.js';
import { ALL_SERVERS } from '../core/gateway.js';
import type { PinFinding } from '../core/pinning/all-pins.js';
import { within } from '../core/timing.js';
import type { UpstreamState } from '../core/upstream-monitor.js';
import { isWholeAdmin } from '../core/whole-admin.js';
import type { Runtime } from './runtime.js';

/** Time to read a list that is not known yet, in milliseconds. */
const WAIT = 500;

type Counted = Pick<UpstreamState, 'kind' | 'name' | 'count'>;

/**
 * Replaces the numbers in the states by the numbers that this caller may see. A number that is not known in time is
 * left out.
 */
export async function countedFor<S extends Counted>(
  { mcp, a2a }: Pick<Runtime, 'mcp' | 'a2a'>,
  caller: Caller,
  states: readonly S[],
): Promise<readonly S[]> {
  if (seesAll(mcp.admission, caller)) return states;
  const countOf = ({ kind, name }: S): Promise<number | undefined> =>
    kind === 'server' ? toolsOf(mcp, caller, name) : skillsOf(a2a, caller, name);
  return Promise.all(
    states.map(async (state) => {
      if (state.count === undefined) return state;
      const { count: _, ...rest } = state;
      const count = await within(countOf(state), WAIT).catch(() => undefined);
      return { ...rest, ...(count !== undefined && { count }) } as S;
    }),
  );
}

async function toolsOf({ catalog }: Runtime['mcp'], caller: Caller, server: string): Promise<number | undefined> {
  const { part } = await catalog.partOf(caller, ALL_SERVERS, server, 'tools/list', NO_CAPABILITIES);
  return part && part.snapshot.items.length - part.hidden.size;
}

async function skillsOf({ directory }: Runtime['a2a'], caller: Caller, name: string): Promise<number | undefined> {
  const agent = directory.get(name);
  const facts = agent?.factsFor ? await agent.factsFor(caller) : agent?.known();
  return facts?.card.skills.length;
}

/** Limit on the definitions in the health summary that need the attention of an operator. */
const SHOWN_PINS = 100;

/** The definitions that need an approval or contain suspicious text, of the items that an administrator may see. */
export async function pinFindings(
  { admission, pinning }: Pick<Runtime['mcp'], 'admission' | 'pinning'>,
  principal: Principal,
): Promise<{ readonly count: number; readonly items: readonly PinFinding[] }> {
  if (isWholeAdmin(principal)) return pinning.findings(SHOWN_PINS);
  const { items } = pinning.findings(Number.POSITIVE_INFINITY);
  const seen = await visible(admission, callerOf(principal), items, pinned);
  // The reason is left out, because it may name a similar item of another server that this administrator may not see.
  return { count: seen.length, items: seen.slice(0, SHOWN_PINS).map(({ reason: _, ...item }) => item) };
}

/** The target that stands for a pinned item when admission decides about its visibility. */
function pinned({ server, kind, name }: PinFinding): ItemTarget {
  if (kind === 'tool' || kind === 'prompt') return { server, kind, name };
  return kind === 'template' ? { server, kind: 'resource', name } : serverTarget(server);
}
