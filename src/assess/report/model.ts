/** The report: everything that the outputs show, as data. */
import type { Evidence, Level } from '../requirement.js';
import type { Outcome } from '../run.js';
import type { CategoryScore } from '../score.js';

export interface ReportedCheck {
  readonly id: string;
  readonly level: Level;
  readonly category: string;
  readonly text: string;
  readonly spec: string;
  readonly outcome: Outcome;
  readonly priority: 'P0' | 'P1' | 'P2';
  /** The reason of a failure, or why the requirement does not apply or cannot be observed. */
  readonly reason: string | null;
  /** The surfaces on which the requirement failed, or was checked. */
  readonly surfaces: readonly string[];
  readonly fix: string | null;
  readonly evidence: readonly Evidence[];
}

/** Whether the target serves each method of the specification; null if the assessment did not call the method. */
export type Methods = Readonly<Record<string, boolean | null>>;

export interface Specification {
  readonly version: string;
  readonly url: string;
}

/** The part of a report about one protocol. */
export interface Section {
  readonly protocol: 'MCP' | 'A2A';
  readonly surfaces: readonly string[];
  readonly score: number;
  readonly grade: string;
  readonly uncapped: number;
  readonly mustFailures: number;
  readonly categories: readonly CategoryScore[];
  readonly checks: readonly ReportedCheck[];
  /** The versions of the specification that count. */
  readonly specifications: readonly Specification[];
  readonly methods: Methods;
  /** False if the time was over before every probe had run. */
  readonly complete: boolean;
}

export interface Change {
  readonly id: string;
  readonly before: Outcome;
  readonly after: Outcome;
}

export interface Changes {
  readonly scoreBefore: number;
  /** Earlier scores, oldest first. */
  readonly history: readonly { readonly started: string; readonly score: number }[];
  readonly checks: readonly Change[];
}

export interface Report {
  readonly format: 1;
  /** The program that made the report, with its version and build. */
  readonly tool: string;
  readonly target: string;
  readonly profile: string;
  /** Whether probes that may change something were allowed. */
  readonly active: boolean;
  readonly score: number;
  readonly grade: string;
  readonly complete: boolean;
  readonly sections: readonly Section[];
  readonly notes: readonly string[];
  /** The differences to an earlier report, if one was given. */
  readonly changes: Changes | null;
  /** Everything that differs between two runs on the same build. */
  readonly times: { readonly started: string; readonly milliseconds: number; readonly requests: number };
}

export const failedChecks = (section: Section): ReportedCheck[] =>
  section.checks
    .filter(({ outcome }) => outcome === 'fail')
    .sort((a, b) => a.priority.localeCompare(b.priority) || a.id.localeCompare(b.id));

const PRIORITIES = ['P0', 'P1', 'P2'] as const;

/** The failed requirements by priority; priorities without failures are left out. */
export const gapsByPriority = (section: Section): [(typeof PRIORITIES)[number], ReportedCheck[]][] => {
  const failed = failedChecks(section);
  return PRIORITIES.map((priority): [typeof priority, ReportedCheck[]] => [
    priority,
    failed.filter((check) => check.priority === priority),
  ]).filter(([, checks]) => checks.length > 0);
};

/** For example `18 of 21 methods served, 2 not called`; undefined without methods. */
export function methodCoverage({ methods }: Section): string | undefined {
  const values = Object.values(methods);
  if (values.length === 0) return undefined;
  const count = (wanted: boolean | null): number => values.filter((served) => served === wanted).length;
  const unknown = count(null);
  return `${count(true)} of ${values.length} methods served${unknown === 0 ? '' : `, ${unknown} not called`}`;
}

/** The mark of a method in lists. */
export const methodMark = (served: boolean | null): string => (served === null ? '–' : served ? '✓' : '✗');

/** For example `MCP 2025-11-25 (https://…)`, for each version that counts. */
export const specificationsOf = ({ protocol, specifications }: Section): string[] =>
  specifications.map(({ version, url }) => `${protocol} ${version} (${url})`);

/** The number of requirements by outcome. */
export function countsOf({ checks }: Section): Readonly<Record<Outcome, number>> {
  const counts = { pass: 0, fail: 0, skip: 0, unobservable: 0 };
  for (const { outcome } of checks) counts[outcome]++;
  return counts;
}

/** Most earlier scores that a report keeps. */
const MAX_HISTORY = 20;

/** The differences between an earlier report and this one. */
export function changesSince(before: Report, sections: readonly Section[]): Changes {
  const outcomes: ReadonlySet<unknown> = new Set(['pass', 'fail', 'skip', 'unobservable'] satisfies Outcome[]);
  // An earlier report is a file that anybody may have written.
  const known = before.sections.flatMap(({ checks }) => checks).filter(({ outcome }) => outcomes.has(outcome));
  const old = new Map(known.map(({ id, outcome }) => [id, outcome]));
  const checks = sections.flatMap((section) =>
    section.checks.flatMap(({ id, outcome }) => {
      const was = old.get(id);
      return was === undefined || was === outcome ? [] : [{ id, before: was, after: outcome }];
    }),
  );
  const last = { started: before.times.started, score: before.score };
  const history = [...(before.changes?.history ?? []), last].slice(-MAX_HISTORY);
  return { scoreBefore: before.score, history, checks };
}

/** For example `95 -> 89 (-6)`. */
export function scoreChange({ scoreBefore }: Changes, score: number, arrow = '->'): string {
  // An earlier report is a file that anybody may have written.
  const before = Number(scoreBefore);
  const difference = Math.round((score - before) * 10) / 10;
  return `${before} ${arrow} ${score} (${difference >= 0 ? '+' : ''}${difference})`;
}

/** All scores, oldest first. */
export const scoreHistory = ({ history }: Changes, score: number, arrow = '->'): string =>
  [...history.map((each) => Number(each.score)), score].join(` ${arrow} `);
