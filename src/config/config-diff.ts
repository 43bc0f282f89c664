import { isDeepStrictEqual } from 'node:util';
import { stringify } from 'yaml';
import { MASK } from '../identity/mask-secrets.js';
import { changedPaths } from './changed-keys.js';
import { needsRestart } from './keys-that-need-a-restart.js';
import type { Loaded } from './load.js';

/** One key that differs between two configurations. Secrets in `before` and `after` are masked. */
export interface ConfigChange {
  readonly key: string;
  readonly change: 'added' | 'removed' | 'changed';
  /** Whether the change takes effect only after a restart of the gateway. */
  readonly restart: boolean;
  readonly before?: unknown;
  readonly after?: unknown;
}

type Side = Pick<Loaded, 'config' | 'shown'>;

/** The keys that differ between two configurations, in the order of the schema. */
export function configDiff(before: Side, after: Side): ConfigChange[] {
  return changedPaths(before.config, after.config).map((path) => {
    const [old, now] = [valueAt(before.shown, path), valueAt(after.shown, path)];
    const key = path.join('.');
    const change = !isSet(before.config, path) ? 'added' : !isSet(after.config, path) ? 'removed' : 'changed';
    return {
      key,
      change,
      restart: needsRestart(key),
      ...(old !== undefined && { before: old }),
      ...(now !== undefined && { after: now }),
    };
  });
}

function valueAt(root: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (at, name) =>
      typeof at === 'object' && at !== null && Object.hasOwn(at, name) ? Reflect.get(at, name) : undefined,
    root,
  );
}

/** Whether a key has a value; an empty list or map counts as none. */
function isSet(root: unknown, path: readonly string[]): boolean {
  const value = valueAt(root, path);
  return value !== undefined && !(typeof value === 'object' && value !== null && Object.keys(value).length === 0);
}

/** A line of a diff: `+` for an added value, `-` for a removed one, a space for a heading. */
export interface DiffLine {
  readonly mark: '+' | '-' | ' ';
  readonly text: string;
}

/**
 * The changes as the lines of a diff. The old and the new value of a secret have the same mask, so a note says that the
 * secret changed.
 */
export function diffLines(changes: readonly ConfigChange[]): DiffLine[] {
  return changes.flatMap(({ key, restart, before, after }) => {
    const note = restart ? ' (takes effect after a restart)' : '';
    const hidden = isDeepStrictEqual(before, after) ? ` (${hasMask(after) ? 'a secret' : 'the value'} changed)` : '';
    return [
      { mark: ' ', text: `${key}${hidden}${note}` } as const,
      ...(hidden === '' ? [...valueLines('-', before), ...valueLines('+', after)] : []),
    ];
  });
}

const hasMask = (value: unknown): boolean => JSON.stringify(value ?? null).includes(MASK);

function valueLines(mark: '+' | '-', value: unknown): DiffLine[] {
  if (value === undefined) return [];
  return stringify(value)
    .trimEnd()
    .split('\n')
    .map((text) => ({ mark, text: `  ${text}` }));
}
