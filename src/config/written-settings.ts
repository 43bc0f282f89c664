/** Settings as they were written, before defaults and global keys: walking them, and masking their secrets. */
import { hideCredentials, MASK, maskArguments } from '../identity/mask-secrets.js';
import { isPem } from './address-fields.js';
import type { Field, Scalar } from './field.js';
import { SCHEMA } from './schema.js';

/** The sections whose entries can be registered while the gateway runs. */
export type EntrySection = 'servers' | 'agents';

/** Calls `leaf` for each text at a key that the schema knows. Values of the wrong form are skipped. */
export function visit(
  field: Field,
  value: unknown,
  key: string,
  leaf: (field: Scalar<unknown>, text: string, key: string) => void,
): void {
  if (field.kind === 'scalar') {
    if (typeof value === 'string') leaf(field, value, key);
  } else if (field.kind === 'list') {
    const items = Array.isArray(value) ? value : [value];
    for (const [index, item] of items.entries()) visit(field.item, item, `${key}[${index}]`, leaf);
  } else if (isMap(value)) {
    for (const [name, inner] of Object.entries(value)) {
      const child = childOf(field, name);
      if (child) visit(child, inner, `${key}.${name}`, leaf);
    }
  }
}

/** The settings of a server or agent with every secret masked. Keys outside of the schema are left out. */
export function maskEntry(section: EntrySection, settings: object): Record<string, unknown> {
  return (masked(SCHEMA.fields[section].item, settings, '') ?? {}) as Record<string, unknown>;
}

function masked(field: Field, value: unknown, key: string): unknown {
  if (value === undefined || value === null) return undefined;
  if (field.kind === 'scalar') {
    if (field.secret) return MASK;
    if (typeof value !== 'string') return typeof value === 'object' ? undefined : value;
    return maskText(field, value);
  }
  if (field.kind === 'list') {
    const items = (Array.isArray(value) ? value : [value]).flatMap((item) => masked(field.item, item, key) ?? []);
    return key === 'args' ? maskArguments(items.map(String)) : items;
  }
  if (!isMap(value)) return undefined;
  const shown = Object.entries(value).flatMap(([name, inner]) => {
    const child = childOf(field, name);
    const part = child && masked(child, inner, name);
    return part === undefined ? [] : [[name, part] as const];
  });
  return Object.fromEntries(shown);
}

const maskText = (field: Scalar<unknown>, text: string): string =>
  field.secret || (field.type === 'path or PEM' && isPem(text)) ? MASK : hideCredentials(text);

/**
 * Puts the stored secrets in the place of their masks, so that settings can be changed without sending them again. The
 * keys of masks without a stored secret are added to `missing`.
 */
export function unmasked(
  section: EntrySection,
  given: object,
  stored: object | undefined,
  missing: (key: string) => void,
): Record<string, unknown> {
  return filled(SCHEMA.fields[section].item, given, stored, '', missing) as Record<string, unknown>;
}

function filled(
  field: Field | undefined,
  given: unknown,
  stored: unknown,
  key: string,
  missing: (key: string) => void,
): unknown {
  if (typeof given === 'string') {
    if (!given.includes(MASK) || field?.kind !== 'scalar') return given;
    if (typeof stored === 'string' && maskText(field, stored) === given) return stored;
    missing(key);
    return given;
  }
  if (Array.isArray(given)) {
    const items = Array.isArray(stored) ? stored : [];
    return given.map((item, index) =>
      filled(field?.kind === 'list' ? field.item : undefined, item, items[index], `${key}[${index}]`, missing),
    );
  }
  if (!isMap(given)) return given;
  return Object.fromEntries(
    Object.entries(given).map(([name, inner]) => [
      name,
      filled(
        field && childOf(field, name),
        inner,
        isMap(stored) && Object.hasOwn(stored, name) ? stored[name] : undefined,
        key === '' ? name : `${key}.${name}`,
        missing,
      ),
    ]),
  );
}

/** Every URL of the settings, in a fixed order: the places that secrets are sent to. */
export function urlsOf(section: EntrySection, settings: object): string[] {
  const urls: string[] = [];
  visit(SCHEMA.fields[section].item, settings, '', (field, text, key) => {
    if (field.type === 'URL') urls.push(`${key} ${text}`);
  });
  return urls.sort();
}

function childOf(field: Field, name: string): Field | undefined {
  if (field.kind === 'map') return field.item;
  return field.kind === 'group' && Object.hasOwn(field.fields, name) ? field.fields[name] : undefined;
}

function isMap(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
