/** Runs the official conformance suite and returns its results as data. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { npmPackage } from '../support/npm-package.js';
import { nodeAtLeast } from '../support/other-node.js';

const SUITE = { name: '@modelcontextprotocol/conformance', version: '0.2.0-alpha.12' };

/** The suite imports `fs.globSync`, which Node provides since version 22. */
const SUITE_NODE_MAJOR = 22;

const REPOSITORY = fileURLToPath(new URL('../..', import.meta.url));

/** The revisions that the suite supports. */
export const SPEC_VERSIONS = ['2025-03-26', '2025-06-18', '2025-11-25', '2026-07-28'] as const;
export type SpecVersion = (typeof SPEC_VERSIONS)[number];

/** `npm run test:conformance` runs every scenario at every revision before every server; `npm test` runs a part. */
export const isWhole = process.env['npm_lifecycle_event'] === 'test:conformance';
/** The revisions that this run covers. */
export const CHOSEN_VERSIONS: readonly SpecVersion[] = isWhole ? SPEC_VERSIONS : ['2025-11-25', '2026-07-28'];

export interface Check {
  id: string;
  name: string;
  description: string;
  status: 'SUCCESS' | 'FAILURE' | 'WARNING' | 'SKIPPED' | 'INFO';
  errorMessage?: string;
}

export interface ScenarioResult {
  name: string;
  passed: number;
  failed: number;
  /** SHOULD-level requirements that were not met. The suite does not count them as failures of a server. */
  warnings: number;
  checks: Check[];
}

export interface SuiteResult {
  scenarios: ScenarioResult[];
  passed: number;
  failed: number;
  warnings: number;
}

export interface ServerSuiteOptions {
  url: string;
  /** If absent, each scenario runs at the revision it was written for: the only way to run those of an extension. */
  specVersion?: SpecVersion;
  /** Selects the scenarios to report, of all that apply at the revision. */
  scenarios?: (name: string) => boolean;
  /** One of the suite's own selections. */
  suite?: 'all' | 'pending';
  timeoutMs?: number;
}

/** Runs the server scenarios against a URL. */
export async function runServerSuite(options: ServerSuiteOptions): Promise<SuiteResult> {
  const { url, specVersion, scenarios: wanted = () => true, suite = 'all', timeoutMs = 240_000 } = options;
  return withResultDirectory(async (directory) => {
    const args = ['server', '--url', url, '--suite', suite, '--output-dir', directory];
    if (specVersion) args.push('--spec-version', specVersion);
    const { output } = await runSuite(args, timeoutMs);
    const checksOf = await readChecks(directory);
    const scenarios = summarised(output)
      .filter(wanted)
      .map((name) => scenarioResult(name, checksOf.get(`server-${name}`) ?? [brokenScenario(name, output)]));
    if (scenarios.length === 0) throw new Error(`The suite ran no scenario:\n${output}`);
    return total(scenarios);
  });
}

export interface ClientScenarioOptions {
  /** The client: a command line without spaces in its words. The suite appends the URL of its server. */
  command: string;
  scenario: string;
  /** If absent, the scenario runs at the revision it was written for: the only way to run those of an extension. */
  specVersion?: SpecVersion;
  env?: Record<string, string>;
  timeoutMs?: number;
}

export interface ClientScenarioResult extends ScenarioResult {
  /**
   * The verdict of the suite: true if there was no failure and no warning, and the client ended in time without an
   * error.
   */
  ok: boolean;
  output: string;
}

/** Runs one client scenario. */
export async function runClientScenario(options: ClientScenarioOptions): Promise<ClientScenarioResult> {
  const { command, scenario, specVersion, env = {}, timeoutMs = 240_000 } = options;
  return withResultDirectory(async (directory) => {
    const args = ['client', '--command', command, '--scenario', scenario];
    if (specVersion) args.push('--spec-version', specVersion);
    args.push('--timeout', String(timeoutMs), '--output-dir', directory);
    const { exitCode, output } = await runSuite(args, timeoutMs + 15_000, env);
    const checks = (await readChecks(directory)).get(scenario) ?? [brokenScenario(scenario, output)];
    return { ...scenarioResult(scenario, checks), ok: exitCode === 0, output };
  });
}

export interface AuthorizationSuiteOptions {
  /** The issuer of the authorization server. */
  url: string;
  specVersion: SpecVersion;
  /** Options of the suite, such as a registered client. */
  args?: readonly string[];
  /** Gets all output so far: the suite prints the URL that a user has to open. */
  onOutput?: (output: string) => void;
  timeoutMs?: number;
}

/** Runs the scenarios for authorization servers. They build on each other, so all of them run. */
export async function runAuthorizationSuite(
  options: AuthorizationSuiteOptions,
): Promise<SuiteResult & { output: string }> {
  const { url, specVersion, args: more = [], onOutput, timeoutMs = 240_000 } = options;
  return withResultDirectory(async (directory) => {
    const args = ['authorization', '--url', url, '--spec-version', specVersion, '--output-dir', directory, ...more];
    const { output } = await runSuite(args, timeoutMs, {}, onOutput);
    const scenarios = [...(await readChecks(directory))].map(([name, checks]) =>
      scenarioResult(name.replace(/^authorization-server-/, ''), checks),
    );
    return { ...total(scenarios), output };
  });
}

/** One line for each check that did not succeed. */
export function describeFailures({ scenarios }: SuiteResult): string {
  return scenarios
    .flatMap(({ name, checks }) =>
      checks
        .filter(({ status }) => status === 'FAILURE' || status === 'WARNING')
        .map(
          (check) => `${name}: ${check.status} ${check.name} [${check.id}]: ${check.errorMessage ?? check.description}`,
        ),
    )
    .join('\n');
}

function scenarioResult(name: string, checks: Check[]): ScenarioResult {
  const count = (status: Check['status']) => checks.filter((check) => check.status === status).length;
  return { name, passed: count('SUCCESS'), failed: count('FAILURE'), warnings: count('WARNING'), checks };
}

function total(scenarios: ScenarioResult[]): SuiteResult {
  const sum = (key: 'passed' | 'failed' | 'warnings') => scenarios.reduce((all, scenario) => all + scenario[key], 0);
  return { scenarios, passed: sum('passed'), failed: sum('failed'), warnings: sum('warnings') };
}

/** A scenario that threw has no checks, only a line in the output. */
function brokenScenario(name: string, output: string): Check {
  const thrown = output.split('\n').findIndex((line) => line.startsWith(`Failed to run scenario ${name}:`));
  const lines = output.split('\n');
  const errorMessage = (thrown < 0 ? lines.slice(-20) : lines.slice(thrown, thrown + 10)).join('\n');
  return { id: name, name, description: 'The scenario could not be run', status: 'FAILURE', errorMessage };
}

/** The names in the suite's closing summary, a line such as `✓ ping: 2 passed, 0 failed` for each scenario. */
function summarised(output: string): string[] {
  return [...output.matchAll(/^[✓✗] (\S+): \d+ passed, \d+ failed/gm)].map((match) => match[1] as string);
}

/** The suite writes the checks of each scenario to `<name>-<time>/checks.json`. */
async function readChecks(directory: string): Promise<Map<string, Check[]>> {
  const checks = new Map<string, Check[]>();
  // The name of a scenario may contain a slash, as in `auth/pre-registration`.
  for (const entry of await readdir(directory, { recursive: true })) {
    const file = join(directory, entry, 'checks.json');
    const name = /^(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$/.exec(entry)?.[1];
    if (name && existsSync(file)) checks.set(name, JSON.parse(await readFile(file, 'utf8')));
  }
  return checks;
}

async function withResultDirectory<T>(use: (directory: string) => Promise<T>): Promise<T> {
  const directory = await mkdtemp(join(tmpdir(), 'parley-suite-'));
  try {
    return await use(directory);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

type OnOutput = (output: string) => void;

async function runSuite(args: string[], timeoutMs: number, env: Record<string, string> = {}, onOutput?: OnOutput) {
  const { node, entry } = await locateSuite();
  return run(node, [entry, ...args], timeoutMs, env, onOutput);
}

async function run(
  command: string,
  args: string[],
  timeoutMs: number,
  env: Record<string, string> = {},
  onOutput: OnOutput = () => {},
) {
  const child = spawn(command, args, {
    cwd: REPOSITORY,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text) => {
      output += text;
      onOutput(output);
    });
  }
  const timer = setTimeout(() => child.kill('SIGKILL'), timeoutMs);
  const [exitCode, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null];
  clearTimeout(timer);
  if (signal) throw new Error(`${command} ${args.join(' ')} did not end within ${timeoutMs} ms:\n${output}`);
  return { exitCode, output };
}

interface SuiteLocation {
  node: string;
  entry: string;
}

let located: Promise<SuiteLocation> | undefined;

/**
 * Locates the suite and a Node version that can run the suite. The suite is downloaded on first use, because as a
 * dependency of this package it would add its own copies of many packages to every clone.
 */
export function locateSuite(): Promise<SuiteLocation> {
  located ??= (async () => {
    const [node, folder] = await Promise.all([nodeAtLeast(SUITE_NODE_MAJOR), npmPackage(SUITE)]);
    return { node, entry: join(folder, 'dist', 'index.js') };
  })();
  return located;
}
