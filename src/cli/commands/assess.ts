import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { VERSION } from '../../app/product-info.js';
import { type AssessOptions, assess, type Target } from '../../assess/assess.js';
import { splitCommand } from '../../assess/command-line.js';
import { PROFILES, profileOf } from '../../assess/profiles.js';
import type { Report } from '../../assess/report/model.js';
import { FORMATS, type Format, formatOfFile, render } from '../../assess/report/render.js';
import { hasConfiguration, loadConfig } from '../../config/load.js';
import type { Config } from '../../config/schema.js';
import { CONFIG, type Command, type CommandLine, HELP, UsageError } from '../command.js';

const PROFILE_NAMES = PROFILES.map(({ name }) => name).join(', ');
const TOKEN_VARIABLE = 'PARLEY_ASSESS_AUTH';

export const ASSESS: Command = {
  name: 'assess',
  operands: ['TARGET'],
  summary: 'Grade an MCP server or an A2A agent by its specification.',
  details:
    'TARGET is a URL, a command in quotes, the name of a server or agent of the configuration, or self for the gateway of\n' +
    'the configuration, which must be running. Every requirement is checked over the wire; docs/assess.md lists them. The\n' +
    'probes read only, and call only tools that declare themselves read-only, unless --active is given. Credentials go to\n' +
    'the host of the target only. The exit code is 0, or 1 if nothing was recognised, the score is below --gate, or the\n' +
    'time was over.',
  flags: [
    CONFIG,
    { name: 'profile', value: 'NAME', description: `What counts: ${PROFILE_NAMES}. Default: standard.` },
    { name: 'revision', value: 'DATES', description: 'Examine these MCP revisions only, separated by commas.' },
    {
      name: 'auth',
      value: 'HEADER',
      description: `The Authorization header, like "Bearer TOKEN". Default: variable ${TOKEN_VARIABLE}.`,
    },
    { name: 'active', description: 'Also run probes that may change something, such as calls of any tool.' },
    { name: 'gate', value: 'SCORE', description: 'End with exit code 1 if the score is below this number.' },
    { name: 'format', value: 'FORMAT', description: `The output: ${FORMATS.join(', ')}. Default: text.` },
    {
      name: 'output',
      value: 'FILES',
      description: 'Also write files (a,b): .json, .xml (JUnit), .md, .html, .svg (badge), .txt.',
    },
    { name: 'compare', value: 'FILE', description: 'Show the changes since this report in JSON.' },
    { name: 'time', value: 'SECONDS', description: 'The time for the whole assessment. Default: 300.' },
    { name: 'rate', value: 'NUMBER', description: 'The most requests per second. Default: 50.' },
    HELP,
  ],
  examples: [
    'parley assess https://example.com/mcp',
    'parley assess "npx -y @modelcontextprotocol/server-everything" --active',
    'parley assess https://example.com/mcp --gate 90 --output report.html,report.json',
  ],
  run: runAssess,
};

async function runAssess({ io, operands, text, given }: CommandLine): Promise<number> {
  const profile = profileOf(text('profile') ?? 'standard');
  if (profile === undefined) throw new UsageError(`--profile is one of ${PROFILE_NAMES}`, ASSESS);
  const format = (text('format') ?? 'text') as Format;
  if (!FORMATS.includes(format)) throw new UsageError(`--format is one of ${FORMATS.join(', ')}`, ASSESS);
  const files = (text('output') ?? '').split(',').flatMap((each) => (each.trim() === '' ? [] : [each.trim()]));
  const unknown = files.find((file) => formatOfFile(file) === undefined);
  if (unknown !== undefined) throw new UsageError(`--output: the ending of ${unknown} names no format`, ASSESS);
  const gate = numberOf(text('gate'), 'gate', 0, 100);
  const seconds = numberOf(text('time'), 'time', 1, 86_400) ?? 300;
  const rate = numberOf(text('rate'), 'rate', 1, 1_000) ?? 50;
  const authorization = text('auth') ?? (io.env[TOKEN_VARIABLE] || undefined);
  const before = text('compare');
  const { targets, credentials } = targetsOf(operands[0]!, io, text('config'));
  const options: Omit<AssessOptions, 'target'> = {
    tool: `parley ${VERSION}`,
    profile,
    active: given('active'),
    revisions: text('revision')
      ?.split(',')
      .map((each) => each.trim()),
    credentials: authorization === undefined ? credentials : [['Authorization', authorization]],
    pace: { interval: 1_000 / rate, total: seconds * 1_000 },
    before: before === undefined ? undefined : readReport(path.resolve(io.cwd, before)),
    progress: io.terminal ? (done, total, label) => io.stderr(bar(done, total, label)) : undefined,
  };
  const reports: Report[] = [];
  for (const target of targets) {
    const report = await assess({ ...options, target });
    if (io.terminal) io.stderr('\r\x1b[K');
    io.stdout(render(report, format, io.style));
    reports.push(report);
  }
  for (const file of files) {
    const content = reports.map((report) => render(report, formatOfFile(file)!)).join('\n');
    writeFileSync(path.resolve(io.cwd, file), content);
  }
  const passed = reports.every(({ complete, score }) => complete && (gate === undefined || score >= gate));
  return passed ? 0 : 1;
}

function numberOf(text: string | undefined, flag: string, least: number, most: number): number | undefined {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (text.trim() === '' || !(value >= least && value <= most))
    throw new UsageError(`--${flag} takes a number from ${least} to ${most}`, ASSESS);
  return value;
}

const BAR = 24;

function bar(done: number, total: number, label: string): string {
  const full = Math.round((BAR * done) / Math.max(1, total));
  return `\r\x1b[K[${'#'.repeat(full)}${'.'.repeat(BAR - full)}] ${label}`;
}

function readReport(file: string): Report {
  let report: Partial<Report> | undefined;
  try {
    report = JSON.parse(readFileSync(file, 'utf8')) as Partial<Report>;
  } catch (error) {
    throw new UsageError(`--compare: ${file} cannot be read: ${(error as Error).message}`, ASSESS);
  }
  if (report?.format !== 1 || !Array.isArray(report.sections))
    throw new UsageError(`--compare: ${file} is no report in JSON of parley assess`, ASSESS);
  return report as Report;
}

interface Named {
  readonly targets: readonly Target[];
  readonly credentials: readonly (readonly [string, string])[];
}

/** The targets for the argument: a URL, the gateway itself, a name of the configuration, or a command. */
function targetsOf(text: string, io: CommandLine['io'], file: string | undefined): Named {
  if (/^https?:\/\//i.test(text)) {
    if (!URL.canParse(text)) throw new UsageError(`${JSON.stringify(text)} is not a URL`, ASSESS);
    const url = new URL(text);
    if (url.username !== '' || url.password !== '')
      throw new UsageError('give credentials with --auth, not in the URL', ASSESS);
    return { targets: [{ kind: 'url', url }], credentials: [] };
  }
  const known = hasConfiguration({ ...io, file });
  if (text === 'self' && !known)
    throw new UsageError(
      'no configuration found in this folder; name the file of the gateway with --config FILE',
      ASSESS,
    );
  if (known && /^[\w-]+$/.test(text)) {
    const { config } = loadConfig({ ...io, file, listens: false });
    const named = text === 'self' ? selfTargets(config) : namedTarget(text.toLowerCase(), config);
    if (named !== undefined) return named;
  }
  const [command = '', ...args] = splitCommand(text);
  return { targets: [{ kind: 'command', command: { command, args, cwd: io.cwd } }], credentials: [] };
}

const pairs = (headers: Readonly<Record<string, string>> = {}): (readonly [string, string])[] =>
  Object.entries(headers);

function namedTarget(name: string, config: Config): Named | undefined {
  const server = config.servers[name];
  if (server?.url !== undefined)
    return { targets: [{ kind: 'url', url: new URL(server.url) }], credentials: pairs(server.headers) };
  if (server?.command !== undefined) {
    const { command, args, env, cwd } = server;
    return { targets: [{ kind: 'command', command: { command, args, env, cwd } }], credentials: [] };
  }
  const agent = config.agents[name];
  if (agent?.url === undefined) return undefined;
  return { targets: [{ kind: 'url', url: new URL(agent.url) }], credentials: pairs(agent.headers) };
}

/** The endpoints of a running gateway: for all servers, for the older transport, and for agents. */
function selfTargets(config: Config): Named {
  const { host, port } = config.listen;
  const name = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
  const address = name.includes(':') ? `[${name}]` : name;
  const origin = `${config.tls.cert === undefined ? 'http' : 'https'}://${address}:${port}`;
  const paths = ['/mcp', '/sse', ...(Object.keys(config.agents).length > 0 ? ['/a2a'] : [])];
  return { targets: paths.map((each) => ({ kind: 'url', url: new URL(each, origin) })), credentials: [] };
}
