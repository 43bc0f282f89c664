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
  /** The methods that were called, and whether the target serves them. */
  readonly methods: Readonly<Record<string, boolean>>;
  /** False if the time was over before every probe had run. */
  readonly complete: boolean;
}

export interface Change {
  readonly id: string;
  readonly before: Outcome;
  readonly after: Outcome;
}

export interface Report {
  readonly format: 1;
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
  readonly changes: { readonly scoreBefore: number; readonly checks: readonly Change[] } | null;
  /** Everything that differs between two runs on the same build. */
  readonly times: { readonly started: string; readonly milliseconds: number; readonly requests: number };
}

export const failedChecks = (section: Section): ReportedCheck[] =>
  section.checks
    .filter(({ outcome }) => outcome === 'fail')
    .sort((a, b) => a.priority.localeCompare(b.priority) || a.id.localeCompare(b.id));

/** The differences between an earlier report and this one. */
export function changesSince(before: Report, sections: readonly Section[]): NonNullable<Report['changes']> {
  const old = new Map(before.sections.flatMap(({ checks }) => checks.map(({ id, outcome }) => [id, outcome])));
  const checks = sections.flatMap((section) =>
    section.checks.flatMap(({ id, outcome }) => {
      const was = old.get(id);
      return was === undefined || was === outcome ? [] : [{ id, before: was, after: outcome }];
    }),
  );
  return { scoreBefore: before.score, checks };
}
