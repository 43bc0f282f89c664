import type { Field } from './field.js';
import { type Config, SCHEMA } from './schema.js';

/** The keys whose values differ between two configurations. It returns no values, because they may be secret. */
export function changedKeys(before: Config, after: Config): string[] {
  return differences(SCHEMA, before, after, '');
}

function differences(field: Field | undefined, before: unknown, after: unknown, key: string): string[] {
  if (isMap(before) && isMap(after)) {
    const names =
      field?.kind === 'group'
        ? Object.keys(field.fields)
        : [...new Set([...Object.keys(before), ...Object.keys(after)])];
    return names.flatMap((name) => {
      const child = field?.kind === 'group' ? field.fields[name] : field?.kind === 'map' ? field.item : undefined;
      return differences(child, before[name], after[name], key === '' ? name : `${key}.${name}`);
    });
  }
  return JSON.stringify(before) === JSON.stringify(after) ? [] : [key];
}

function isMap(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
