import { hideTokens, isSecretName, secretsIn } from '../../identity/mask-secrets.js';
import type { ImportedEntry, Settings } from './entries.js';

/** A secret that became a reference to an environment variable. */
export interface MovedSecret {
  readonly variable: string;
  /** The key of the new configuration that refers to the variable. */
  readonly key: string;
}

/**
 * Replaces literal secrets of imported servers by references to environment variables. The values themselves are
 * neither kept nor shown: the file of the other program still has them.
 */
export function withoutSecrets(entries: readonly ImportedEntry[]): {
  readonly entries: readonly ImportedEntry[];
  readonly moved: readonly MovedSecret[];
} {
  const names = new Names();
  const cleaned = entries.map((entry) => ({ ...entry, settings: cleanSettings(entry, names) }));
  return { entries: cleaned, moved: names.moved };
}

/** The variables of the secrets. Equal values share a variable, and different values never do. */
class Names {
  readonly moved: MovedSecret[] = [];
  private readonly values = new Map<string, string>();

  reference(value: string, wanted: string, entry: ImportedEntry, key: string): string {
    const short = wanted.toUpperCase().replace(/[^A-Z0-9]+/g, '_');
    const long = `${entry.name}_${wanted}`.toUpperCase().replace(/[^A-Z0-9]+/g, '_');
    const free = (name: string): boolean => {
      const taken = this.values.get(name);
      return taken === undefined || taken === value;
    };
    const numbered = (): string => {
      for (let i = 2; ; i++) if (free(`${long}_${i}`)) return `${long}_${i}`;
    };
    const name = /^[A-Z_]/.test(short) && free(short) ? short : free(long) ? long : numbered();
    this.values.set(name, value);
    this.moved.push({ variable: name, key: `${entry.section}.${entry.name}.${key}` });
    return `\${${name}}`;
  }
}

function cleanSettings(entry: ImportedEntry, names: Names): Settings {
  const settings = structuredClone(entry.settings) as Settings;
  const prefix = entry.name;
  eachText(settings['env'], (name, value, set) => {
    const secret = secretsIn({ [name]: value }).length > 0;
    if (secret && isLiteral(value)) set(names.reference(value, name, entry, `env.${name}`));
  });
  eachText(settings['headers'], (name, value, set) => {
    if (!isLiteral(value)) return;
    const [, scheme, token] = /^(Bearer|Basic|Token)\s+(\S+)$/i.exec(value) ?? [];
    if (scheme !== undefined && token !== undefined)
      set(`${scheme} ${names.reference(token, `${prefix}_token`, entry, `headers.${name}`)}`);
    else if (secretsIn({ [name]: value }).length > 0)
      set(names.reference(value, `${prefix}_${name}`, entry, `headers.${name}`));
  });
  if (typeof settings['url'] === 'string') settings['url'] = cleanUrl(settings['url'], entry, names);
  if (Array.isArray(settings['args'])) settings['args'] = cleanArguments(settings['args'], entry, names);
  return settings;
}

/** `$${` is literal text. */
const isLiteral = (value: string): boolean => value !== '' && !value.replaceAll('$${', '').includes('${');

function eachText(map: unknown, visit: (name: string, value: string, set: (to: string) => void) => void): void {
  if (typeof map !== 'object' || map === null) return;
  const entries = map as Record<string, unknown>;
  for (const [name, value] of Object.entries(entries))
    if (typeof value === 'string') visit(name, value, (to) => (entries[name] = to));
}

/** Moves a password, and query values whose name suggests a secret. */
function cleanUrl(url: string, entry: ImportedEntry, names: Names): string {
  return url
    .replace(/(:\/\/[^/?#\s:@]*:)([^/?#\s@]+)(@)/, (whole, before: string, password: string, after: string) =>
      isLiteral(password)
        ? `${before}${names.reference(password, `${entry.name}_password`, entry, 'url')}${after}`
        : whole,
    )
    .replace(/([?&])([^=?&#\s]+)=([^&#\s]+)/g, (whole, lead: string, name: string, value: string) =>
      isSecretName(name) && isLiteral(value)
        ? `${lead}${name}=${names.reference(value, `${entry.name}_${name}`, entry, 'url')}`
        : whole,
    );
}

/** Moves `--api-key=…`, `--api-key …`, `-e API_KEY=…`, and arguments that look like a token. */
function cleanArguments(args: readonly unknown[], entry: ImportedEntry, names: Names): unknown[] {
  return args.map((arg, index) => {
    if (typeof arg !== 'string' || !isLiteral(arg)) return arg;
    const key = `args[${index}]`;
    const before = args[index - 1];
    const equals = arg.indexOf('=');
    const name = equals === -1 ? '' : arg.slice(0, equals);
    if (equals > 0 && /^[\w-]+$/.test(name) && isSecretName(name) && arg.length > equals + 1)
      return `${name}=${names.reference(arg.slice(equals + 1), plainFlag(name), entry, key)}`;
    const follows = typeof before === 'string' && /^--[\w-]+$/.test(before) && isSecretName(before);
    if (follows && !arg.startsWith('-')) return names.reference(arg, plainFlag(before), entry, key);
    const [, header, scheme, token] = /^([\w-]+:\s*)(Bearer\s+|Basic\s+)?(\S+)$/i.exec(arg) ?? [];
    if (header !== undefined && token !== undefined && isSecretName(header))
      return `${header}${scheme ?? ''}${names.reference(token, `${entry.name}_token`, entry, key)}`;
    return hideTokens(arg) === arg || /^https?:/.test(arg)
      ? cleanUrl(arg, entry, names)
      : names.reference(arg, `${entry.name}_token`, entry, key);
  });
}

const plainFlag = (flag: string): string => flag.replace(/^-+/, '');
