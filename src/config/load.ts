import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { hiding, isSecretName } from '../identity/mask-secrets.js';
import { complete } from './derived-values.js';
import { type Environment, expandTree } from './expand-variables.js';
import { adaptAgents, adaptRoot, adaptServers, switchedOff } from './keys-of-other-programs.js';
import { applyEnvironment } from './parley-variables.js';
import { emptyMap, fromValue, parseText, type Raw, type RawMap } from './parsed-file.js';
import { ConfigError, type Origin, type Problem, Problems, show } from './problem.js';
import { type Config, SCHEMA, type WrittenConfig } from './schema.js';
import { showConfig } from './show.js';
import { type Reading, readField } from './validate.js';

/** The default files in the working directory, in order. */
const DEFAULT_FILES = ['parley.yaml', 'parley.yml', 'parley.json'] as const;

export interface LoadOptions {
  /** The value of `--config`; relative to `cwd`. */
  readonly file?: string;
  readonly cwd?: string;
  readonly env?: Environment;
  /** False for `parley stdio`, which opens no port, so that `listen` is not checked. */
  readonly listens?: boolean;
}

export interface Loaded {
  readonly config: Config;
  readonly warnings: readonly Problem[];
  /** The absolute path of the file; undefined if only environment variables were read. */
  readonly file?: string;
  /** The configuration in effect for display: secrets masked, values in the form of a file. */
  readonly shown: Readonly<Record<string, unknown>>;
}

/** Finds, reads and checks the configuration. Throws a `ConfigError` that holds every problem. */
export function loadConfig(options: LoadOptions = {}): Loaded {
  const cwd = options.cwd ?? process.cwd();
  const named = options.file ?? nonEmpty((options.env ?? process.env)['PARLEY_CONFIG']);
  const file = named === undefined ? findConfigFile(cwd) : path.resolve(cwd, named);
  if (file === undefined) return interpret(emptyMap(), new Problems(), options);
  const problems = new Problems();
  const shownName = named ?? path.basename(file);
  const source = readSource(file, shownName, problems);
  const raw = source && parseText(source.text, source.format, source.origin, problems);
  if (raw === undefined) throw new ConfigError(problems.all);
  return { ...interpret(raw, problems, options), file };
}

/** The file that `loadConfig` reads by default. */
function findConfigFile(cwd: string): string | undefined {
  return DEFAULT_FILES.map((name) => path.join(cwd, name)).find((candidate) => existsSync(candidate));
}

/** Whether there is a configuration: a file, or servers or agents in the environment. */
export function hasConfiguration(options: LoadOptions = {}): boolean {
  const env = options.env ?? process.env;
  if (options.file !== undefined || nonEmpty(env['PARLEY_CONFIG']) !== undefined) return true;
  if (findConfigFile(options.cwd ?? process.cwd()) !== undefined) return true;
  return Object.keys(env).some(
    (name) => /^PARLEY_(SERVERS|AGENTS)($|_)/.test(name) && nonEmpty(env[name]) !== undefined,
  );
}

/** Reads a configuration that a program supplies. Environment variables apply only if `env` is given. */
export function configFrom(value: unknown, options: Omit<LoadOptions, 'file'> = {}): Loaded {
  const origin = { directory: options.cwd ?? process.cwd() };
  return interpret(fromValue(value, origin), new Problems(), { ...options, env: options.env ?? {} });
}

function readSource(
  file: string,
  shownName: string,
  problems: Problems,
): { text: string; format: 'yaml' | 'json'; origin: Origin } | undefined {
  const origin = { file: shownName, directory: path.dirname(file) };
  try {
    const format = /\.jsonc?$/i.test(file) ? 'json' : 'yaml';
    return { text: readFileSync(file, 'utf8'), format, origin };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const what = READ_ERRORS[code ?? ''] ?? `cannot be read (${code ?? 'unknown error'})`;
    problems.error('file', '', `${show(shownName)} ${what}`, 'correct the path given with --config', {});
    return undefined;
  }
}

const READ_ERRORS: Readonly<Record<string, string>> = {
  ENOENT: 'does not exist',
  EISDIR: 'is a folder',
  EACCES: 'may not be read by this user',
};

function interpret(raw: Raw, problems: Problems, options: LoadOptions): Loaded {
  const cwd = options.cwd ?? process.cwd();
  const env = options.env ?? process.env;
  const root = asRoot(raw, problems);
  const inputs = adaptRoot(root, problems);
  applyEnvironment(SCHEMA, root, env, cwd, problems);
  adaptServers(root, problems);
  adaptAgents(root, problems);

  const secrets = new Set<string>();
  const expanded = expandTree(root, '', {
    env,
    inputs,
    problems,
    lenient: switchedOff(root),
    used: (variable, value) => {
      if (isSecretName(variable)) secrets.add(value);
    },
  });
  const reading: Reading = { problems, workingDirectory: cwd, origins: new Map() };
  const written = readField(SCHEMA, expanded, '', reading) as WrittenConfig;
  const config = complete(written, reading, { listens: options.listens ?? true });
  // A secret may be in an unexpected place: `url: ${API_KEY}` must not print the key.
  const hide = hiding(secrets);
  const found = problems.all.map((problem) => ({ ...problem, message: hide(problem.message), fix: hide(problem.fix) }));
  if (problems.errors.length > 0) throw new ConfigError(found);
  const warnings = found.filter((problem) => problem.severity === 'warning');
  return { config, warnings, shown: showConfig(config, hide) };
}

function asRoot(raw: Raw, problems: Problems): RawMap {
  if (raw.kind === 'map') return raw;
  // An empty file is an empty configuration.
  if (raw.kind === 'list' || raw.value !== null) {
    const fix = 'write keys and values, such as listen: 127.0.0.1:4600';
    problems.error('type', '', 'the file is not a map of keys and values', fix, raw.origin);
  }
  return emptyMap(raw.origin);
}

function nonEmpty(value: string | undefined): string | undefined {
  return value === undefined || value === '' ? undefined : value;
}
