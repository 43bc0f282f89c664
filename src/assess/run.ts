/** Runs the probes of requirements on surfaces, and joins their verdicts. */
import type { Level, Requirement, Transport, Verdict } from './requirement.js';
import { skip, versionIndexes } from './requirement.js';
import { OutOfTime } from './wire/pace.js';

/** One place where a requirement can be observed: a version over a transport or binding. */
export interface Surface {
  /** For example `2025-11-25 over http`. */
  readonly name: string;
  readonly transport: Transport;
  /** The index of the version in the list of versions. */
  readonly version: number;
  /** Runs one probe. */
  probe(name: string): Promise<Verdict>;
  /** Whether a probe examines all received messages, and therefore runs last. */
  late(name: string): boolean;
  close(): Promise<void>;
}

export interface SurfaceVerdict {
  readonly surface: string;
  readonly verdict: Verdict;
}

export type Outcome = 'pass' | 'fail' | 'skip' | 'unobservable';

/** A requirement and its verdicts. */
export interface Check {
  readonly requirement: Requirement;
  readonly outcome: Outcome;
  readonly verdicts: readonly SurfaceVerdict[];
}

export interface RunResult {
  readonly checks: readonly Check[];
  /** False if the time was over before every probe had run. */
  readonly complete: boolean;
  /** The reason of an early end. */
  readonly ended?: string | undefined;
}

/** The verdicts of one surface so far. */
export interface Tally {
  readonly passed: number;
  readonly failed: number;
}

/** Called before each probe, and after the last one of each surface with `finished`. */
export type ProgressListener = (
  done: number,
  total: number,
  label: string,
  tally: Tally,
  finished?: { readonly surface: string },
) => void;

export interface RunOptions {
  readonly requirements: readonly Requirement[];
  /** Opened one after the other. */
  readonly surfaces: readonly (() => Promise<Surface>)[];
  readonly progress?: ProgressListener | undefined;
}

export async function run({ requirements, surfaces, progress }: RunOptions): Promise<RunResult> {
  const verdicts = new Map<string, SurfaceVerdict[]>(requirements.map(({ id }) => [id, []]));
  const total = requirements.length * surfaces.length;
  let done = 0;
  let complete = true;
  let ended: string | undefined;
  let over = false;
  for (const open of surfaces) {
    let surface: Surface | undefined;
    const tally = { passed: 0, failed: 0 };
    try {
      surface = await open();
      for (const late of [false, true]) {
        for (const { id, probe, versions, over } of requirements) {
          const later = probe !== undefined && surface.late(probe);
          if (later !== late) continue;
          progress?.(++done, total, `${id} ${surface.name}`, tally);
          if (probe === undefined || !over.includes(surface.transport)) continue;
          if (!versionIndexes(versions).includes(surface.version)) continue;
          const verdict = await safely(surface, probe);
          verdicts.get(id)!.push({ surface: surface.name, verdict });
          if (verdict.outcome === 'pass') tally.passed++;
          if (verdict.outcome === 'fail') tally.failed++;
        }
      }
      progress?.(done, total, surface.name, tally, { surface: surface.name });
    } catch (error) {
      complete = false;
      ended = (error as Error).message;
      over = error instanceof OutOfTime;
    } finally {
      await surface?.close().catch(() => {});
    }
    // A connection that cannot be opened again concerns one surface only.
    if (over) break;
  }
  const checks = requirements.map((requirement): Check => {
    const found = verdicts.get(requirement.id)!;
    return { requirement, verdicts: found, outcome: joined(requirement, found) };
  });
  return { checks, complete, ended };
}

/** A defect of a probe must not count against the server. */
async function safely(surface: Surface, probe: string): Promise<Verdict> {
  try {
    return await surface.probe(probe);
  } catch (error) {
    if (error instanceof OutOfTime) throw error;
    return skip(`the probe could not run: ${(error as Error).message}`);
  }
}

/** A requirement fails if it fails on one surface. */
function joined({ probe }: Requirement, verdicts: readonly SurfaceVerdict[]): Outcome {
  if (probe === undefined) return 'unobservable';
  const outcomes = verdicts.map(({ verdict }) => verdict.outcome);
  if (outcomes.includes('fail')) return 'fail';
  return outcomes.includes('pass') ? 'pass' : 'skip';
}

export const PRIORITIES: Readonly<Record<Level, 'P0' | 'P1' | 'P2'>> = { MUST: 'P0', SHOULD: 'P1', MAY: 'P2' };
