import type { Field } from './field.js';
import { type Config, SCHEMA } from './schema.js';

/**
 * The keys whose values differ between two configurations. The values are not returned, because they may be secret.
 */
export function changedKeys(before: Config, after: Config): string[] {
  return changedPaths(before, after).map((path) => path.join('.'));
}

/** The changed keys as lists of names, because a name may contain a dot. */
export function changedPaths(before: Config, after: Config): string[][] {
  return differences(SCHEMA, before, after, []);
}

function differences(field: Field | undefined, before: unknown, after: unknown, path: readonly string[]): string[][] {
  if (isMap(before) && isMap(after)) {
    const names =
      field?.kind === 'group'
        ? Object.keys(field.fields)
        : [...new Set([...Object.keys(before), ...Object.keys(after)])];
    return names.flatMap((name) => {
      const child = field?.kind === 'group' ? field.fields[name] : field?.kind === 'map' ? field.item : undefined;
      return differences(child, before[name], after[name], [...path, name]);
    });
  }
  return JSON.stringify(before) === JSON.stringify(after) ? [] : [[...path]];
}

function isMap(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
