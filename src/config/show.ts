import { MASK, maskArguments } from '../identity/mask-secrets.js';
import type { Field } from './field.js';
import { type Config, SCHEMA } from './schema.js';

/** The configuration in effect, in the form of a file, with every secret masked. */
export function showConfig(config: Config, hide: (text: string) => string): Record<string, unknown> {
  return showField(SCHEMA, config, hide, '') as Record<string, unknown>;
}

/** The settings of one server or agent in effect, in the form of a file, with every secret masked. */
export function showEntry(section: 'servers' | 'agents', settings: object): Record<string, unknown> {
  return (showField(SCHEMA.fields[section].item, settings, (text) => text, '') ?? {}) as Record<string, unknown>;
}

function showField(field: Field, value: unknown, hide: (text: string) => string, key: string): unknown {
  if (value === undefined) return undefined;
  switch (field.kind) {
    case 'scalar': {
      if (field.secret) return MASK;
      const shown = field.show(value);
      return typeof shown === 'string' ? hide(shown) : shown;
    }
    case 'list': {
      // An empty value that is empty by default is left out, such as `auth: { tokens: [] }`.
      if ((value as unknown[]).length === 0 && field.default.length === 0) return undefined;
      const items = (value as unknown[]).map((item) => showField(field.item, item, hide, key));
      return key === 'args' ? maskArguments(items as string[]) : items;
    }
    case 'map':
    case 'group': {
      const shown: [string, unknown][] = [];
      for (const [name, inner] of Object.entries(value as Record<string, unknown>)) {
        const child = field.kind === 'map' ? field.item : field.fields[name];
        const part = child === undefined ? undefined : showField(child, inner, hide, name);
        if (part !== undefined) shown.push([name, part]);
      }
      return shown.length === 0 && key !== '' ? undefined : Object.fromEntries(shown);
    }
  }
}
