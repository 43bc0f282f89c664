import type { Field } from './field.js';
import { isSecretName, MASK } from './problem.js';
import { type Config, SCHEMA } from './schema.js';

/** The configuration as it is in effect, in the words of a file, with every secret hidden. */
export function showConfig(config: Config, hide: (text: string) => string): Record<string, unknown> {
  return showField(SCHEMA, config, hide, '') as Record<string, unknown>;
}

/** Replaces the given secrets wherever they stand. Very short ones are left: they would hide half of every text. */
export function hiding(secrets: Iterable<string>): (text: string) => string {
  const hidden = [...secrets].filter((secret) => secret.length >= 6).sort((a, b) => b.length - a.length);
  return (text) => hidden.reduce((shown, secret) => shown.replaceAll(secret, MASK), text);
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
      // Nothing is shown where nothing is there and nothing would be by default: `auth: { tokens: [] }` says too much.
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

/** Programs take secrets as `--api-key=…` or `--api-key …`. */
function maskArguments(args: readonly string[]): string[] {
  return args.map((arg, index) => {
    const [name = '', value] = splitOnce(arg, '=');
    if (value !== undefined && isSecretName(name)) return `${name}=${MASK}`;
    const before = args[index - 1] ?? '';
    const followsFlag = before.startsWith('--') && !before.includes('=') && isSecretName(before);
    return followsFlag && !arg.startsWith('-') ? MASK : arg;
  });
}

function splitOnce(text: string, separator: string): [string, string | undefined] {
  const at = text.indexOf(separator);
  return at === -1 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)];
}
