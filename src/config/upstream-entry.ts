import { hiding, isSecretName } from '../identity/mask-secrets.js';
import { isPem } from './address-fields.js';
import { completeAgent, completeServer } from './derived-values.js';
import { type Environment, expandTree } from './expand-variables.js';
import type { Fields, Group } from './field.js';
import { adaptAgents, adaptServers, switchedOff } from './keys-of-other-programs.js';
import { fromValue, type RawMap } from './parsed-file.js';
import { ConfigError, nearest, type Problem, Problems, show } from './problem.js';
import { type Config, SCHEMA, type WrittenConfig } from './schema.js';
import { type Reading, readField } from './validate.js';
import { type EntrySection, visit } from './written-settings.js';

export interface EntryOptions {
  /** The configuration that the entry is added to: its global keys apply, and its names are taken. */
  readonly config: Config;
  /**
   * The variables for `${NAME}` in the entry; if undefined, `${NAME}` is refused. Variables that set keys (`PARLEY_*`)
   * have no effect here.
   */
  readonly env: Environment | undefined;
  readonly cwd?: string;
}

export interface ReadEntry<S extends EntrySection> {
  /** The normalized name. */
  readonly name: string;
  readonly settings: Config[S][string];
  readonly warnings: readonly Problem[];
}

/** Reads one server or agent and checks it against `config`. Throws a `ConfigError` with all problems. */
export function readEntry<S extends EntrySection>(
  section: S,
  given: string,
  value: object,
  { config, env, cwd = process.cwd() }: EntryOptions,
): ReadEntry<S> {
  const problems = new Problems();
  const root = fromValue({ [section]: { [given]: value } }, { directory: cwd }) as RawMap;
  if (section === 'servers') adaptServers(root, problems);
  else adaptAgents(root, problems);
  const secrets = new Set<string>();
  const expanded = expandTree(root, '', {
    env,
    inputs: new Map(),
    problems,
    lenient: switchedOff(root),
    used: (variable, text) => {
      if (isSecretName(variable)) secrets.add(text);
    },
  }) as RawMap;
  const reading: Reading = { problems, workingDirectory: cwd, origins: new Map() };
  const node = expanded.entries.get(section)?.node;
  const entries = Object.entries(readField(SCHEMA.fields[section], node, section, reading) as WrittenConfig[S]);
  const [name, written] = entries[0] ?? [];
  if (name === undefined && problems.errors.length === 0)
    problems.error(
      'required',
      section,
      `${show(given)} has no settings`,
      'write its settings as a map of keys and values',
    );
  const settings = name !== undefined && written && completed(section, name, written, config, reading);
  const hide = hiding(secrets);
  const found = problems.all.map((problem) => ({ ...problem, message: hide(problem.message), fix: hide(problem.fix) }));
  if (problems.errors.length > 0) throw new ConfigError(found);
  return { name: name!, settings: settings as Config[S][string], warnings: found };
}

/** Keys that start a program or read files for it. */
const PROGRAM_KEYS: ReadonlySet<string> = new Set(['command', 'args', 'env', 'envFile', 'cwd']);

/** A URL in the settings to which the gateway sends requests. */
export interface SettingUrl {
  readonly key: string;
  readonly url: string;
}

export interface Registration<S extends EntrySection> extends ReadEntry<S> {
  /** Every URL of the settings. A caller supplied these URLs, so the rules of `egress` apply. */
  readonly urls: readonly SettingUrl[];
}

/**
 * Reads a server or agent that is registered while the gateway runs. A caller of an API writes these settings, so they
 * may contain less than the configuration file. No programs (S1): otherwise the caller could run any program on this
 * machine. No `${NAME}` and no paths: otherwise the gateway would send its own secrets and keys to the URL of the
 * caller. No token exchange: otherwise the gateway would send the tokens of other callers to that URL.
 */
export function readRegistration<S extends EntrySection>(
  section: S,
  given: string,
  value: object,
  options: Omit<EntryOptions, 'env'>,
): Registration<S> {
  const problems = new Problems();
  const base = `${section}.${given.toLowerCase()}`;
  const urls: SettingUrl[] = [];
  // This check comes before the settings are read, because reading them opens the files that they name.
  if (typeof value === 'object' && value !== null) urls.push(...suppliedUrls(section, value, base, problems));
  if (problems.errors.length > 0) throw new ConfigError(problems.all);
  return { ...readEntry(section, given, value, { ...options, env: undefined }), urls };
}

/** Returns the URLs of a registration. Reports what a registration must not contain. */
function suppliedUrls(section: EntrySection, value: object, base: string, problems: Problems): SettingUrl[] {
  const { item } = SCHEMA.fields[section];
  for (const key of Object.keys(value)) {
    const message = 'is not allowed in a registration: programs come from the configuration file only';
    if (PROGRAM_KEYS.has(key))
      problems.error('conflict', `${base}.${key}`, message, 'add the server to the configuration file');
    else if (!Object.hasOwn(item.fields, key)) unknownKey(key, item, base, problems);
  }
  const exchange = memberOf(memberOf(value, 'auth'), 'tokenExchange');
  if (typeof exchange === 'object' && exchange !== null && Object.keys(exchange).length > 0) {
    const message = 'is not allowed in a registration: it sends tokens of callers to its URL';
    problems.error(
      'conflict',
      `${base}.auth.tokenExchange`,
      message,
      `add the ${NOUNS[section]} to the configuration file`,
    );
  }
  const urls: SettingUrl[] = [];
  visit(item, value, base, (field, written, key) => {
    if (field.type === 'URL' && written !== 'none') urls.push({ key, url: written });
    else if (field.type === 'path or URL') {
      if (isHttpUrl(written)) urls.push({ key, url: written });
      else problems.error('conflict', key, NO_FILES, 'publish the document, and write its URL');
    } else if (field.type === 'path or PEM' && !isPem(written))
      problems.error('conflict', key, NO_FILES, 'write the PEM text itself, from -----BEGIN to -----END');
    else if (field === SCHEMA.fields.agents.item.fields.keys && !written.trim().startsWith('{')) {
      if (isHttpUrl(written)) urls.push({ key, url: written });
      else problems.error('conflict', key, NO_FILES, 'write the JWKS itself, or its URL');
    }
  });
  return urls;
}

const NOUNS: Readonly<Record<EntrySection, string>> = { servers: 'server', agents: 'agent' };

const memberOf = (value: unknown, key: string): unknown =>
  typeof value === 'object' && value !== null && Object.hasOwn(value, key)
    ? (value as Readonly<Record<string, unknown>>)[key]
    : undefined;

/** Requires both slashes, because a field for a path or a URL takes a text such as `http:x` for a path. */
const isHttpUrl = (text: string): boolean => /^https?:\/\//i.test(text);

const NO_FILES = 'is a path; a registration cannot name files of the gateway';

/** Keys of other programs are translated in files only, so that a registration reads as it was written. */
function unknownKey(key: string, { fields }: Group<Fields>, base: string, problems: Problems): void {
  const near = nearest(key, Object.keys(fields));
  const fix =
    near === undefined ? `remove it; the keys here are ${Object.keys(fields).join(', ')}` : `did you mean ${near}?`;
  problems.error('unknown_key', `${base}.${key}`, 'is not a known key', fix);
}

function completed(
  section: EntrySection,
  name: string,
  written: WrittenConfig[EntrySection][string],
  config: Config,
  reading: Reading,
): Config[EntrySection][string] {
  return section === 'servers'
    ? completeServer(name, written as WrittenConfig['servers'][string], config, reading)
    : completeAgent(name, written as WrittenConfig['agents'][string], config, reading);
}
