import { hideCredentials, MASK } from '../identity/mask-secrets.js';

/** The place where a value was written: a line of a file, or an environment variable. */
export interface Origin {
  readonly file?: string;
  readonly line?: number;
  readonly variable?: string;
  /** The folder that relative paths start at: the file's, or the working directory for environment variables. */
  readonly directory?: string;
}

export type ProblemCode =
  | 'file'
  | 'syntax'
  | 'type'
  | 'range'
  | 'required'
  | 'unknown_key'
  | 'unknown_variable'
  | 'unset_variable'
  | 'foreign_key'
  | 'duplicate'
  | 'name'
  | 'conflict'
  | 'deprecated'
  | 'token'
  | 'exposed'
  | 'clear'
  | 'empty'
  | 'condition'
  | 'egress';

/** One error in the configuration. `message` contains the value, masked if it is a secret. */
export interface Problem {
  readonly severity: 'error' | 'warning';
  readonly code: ProblemCode;
  readonly key: string;
  readonly message: string;
  readonly fix: string;
  readonly origin: Origin;
}

/** Collects every problem, so that the user can fix all of them at once. */
export class Problems {
  readonly all: Problem[] = [];

  error(code: ProblemCode, key: string, message: string, fix: string, origin: Origin = {}): void {
    this.all.push({ severity: 'error', code, key, message, fix, origin });
  }

  warn(code: ProblemCode, key: string, message: string, fix: string, origin: Origin = {}): void {
    this.all.push({ severity: 'warning', code, key, message, fix, origin });
  }

  /** Whether there is a problem with this key already. */
  has(key: string): boolean {
    return this.all.some((problem) => problem.key === key);
  }

  get errors(): Problem[] {
    return this.all.filter((problem) => problem.severity === 'error');
  }

  get warnings(): Problem[] {
    return this.all.filter((problem) => problem.severity === 'warning');
  }
}

/** The configuration cannot be used; `problems` contains every error and every warning. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  readonly problems: readonly Problem[];

  constructor(problems: readonly Problem[]) {
    super(
      problems
        .filter((problem) => problem.severity === 'error')
        .map(formatProblem)
        .join('\n'),
    );
    this.problems = problems;
  }
}

export function formatOrigin(origin: Origin): string {
  if (origin.variable !== undefined) return origin.variable;
  if (origin.file === undefined) return '';
  return origin.line === undefined ? origin.file : `${origin.file}:${origin.line}`;
}

export function formatProblem(problem: Problem): string {
  const where = formatOrigin(problem.origin);
  const key = problem.key === '' ? '' : `${problem.key}: `;
  return `${problem.severity}: ${where === '' ? '' : `${where}: `}${key}${problem.message}\n  fix: ${problem.fix}`;
}

/** A value for display in a message: short, on one line, and never a secret. */
export function show(value: unknown, secret = false): string {
  if (secret) return MASK;
  const text = typeof value === 'string' ? JSON.stringify(hideCredentials(value)) : String(value);
  return text.length > 80 ? `${text.slice(0, 77)}...` : text;
}

/** The entry of `candidates` that is most similar to `name`, if it may be a typing error. */
export function nearest(name: string, candidates: Iterable<string>): string | undefined {
  const wanted = name.toLowerCase();
  const limit = Math.max(1, Math.floor(wanted.length / 3));
  let best: string | undefined;
  let bestDistance = limit + 1;
  for (const candidate of candidates) {
    const distance = editDistance(wanted, candidate.toLowerCase());
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

/** The number of insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`. */
function editDistance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1;
      let best = Math.min((last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (last[j - 1] ?? 0) + cost);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        best = Math.min(best, (beforeLast[j - 2] ?? 0) + 1);
      }
      row.push(best);
    }
    beforeLast = last;
    last = row;
  }
  return last[b.length] ?? 0;
}
