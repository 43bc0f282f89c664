import { hiding, isSecretName } from '../identity/mask-secrets.js';
import { completeAgent, completeServer } from './cross-key-rules.js';
import { type Environment, expandTree } from './expand.js';
import { adaptAgents, adaptServers, switchedOff } from './imports.js';
import { ConfigError, type Problem, Problems, show } from './problem.js';
import { fromValue, type RawMap } from './raw.js';
import { type Config, SCHEMA, type WrittenConfig } from './schema.js';
import { type Reading, readField } from './validate.js';

/** The sections whose entries can be registered while the gateway runs. */
export type EntrySection = 'servers' | 'agents';

export interface EntryOptions {
  /** The configuration that the entry is added to: its global keys apply, and its names are taken. */
  readonly config: Config;
  /** For `${NAME}` in the entry. Variables that set keys (`PARLEY_*`) have no effect here. */
  readonly env: Environment;
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
const PROGRAM_KEYS = ['command', 'args', 'env', 'envFile', 'cwd'] as const;

/**
 * Reads a server or agent that is registered while the gateway runs. Programs come from the configuration file only
 * (S1): otherwise a caller of the registration could run any program on this machine.
 */
export function readRegistration<S extends EntrySection>(
  section: S,
  given: string,
  value: object,
  options: EntryOptions,
): ReadEntry<S> {
  const read = readEntry(section, given, value, options);
  const problems = new Problems();
  const settings: Readonly<Record<string, unknown>> = read.settings;
  for (const key of PROGRAM_KEYS) {
    if (!(key in value) && (key !== 'command' || settings[key] === undefined)) continue;
    const message = 'is not allowed in a registration: programs come from the configuration file only';
    problems.error('conflict', `${section}.${read.name}.${key}`, message, 'add the server to the configuration file');
  }
  if (problems.errors.length > 0) throw new ConfigError(problems.all);
  return read;
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
