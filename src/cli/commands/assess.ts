import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { BUILD } from '../../app/product-info.js';
import type { AssessOptions, Target } from '../../assess/assess.js';
import { splitCommand } from '../../assess/command-line.js';
import { PROFILES, profileOf } from '../../assess/profiles.js';
import type { Report } from '../../assess/report/model.js';
import { FORMATS, type Format, formatOfFile, render } from '../../assess/report/render.js';
import type { ProgressListener } from '../../assess/run.js';
import { selfTargets } from '../../assess/self.js';
import { hasConfiguration, loadConfig } from '../../config/load.js';
import type { Config } from '../../config/schema.js';
import { CONFIG, type Command, type CommandLine, HELP, UsageError } from '../command.js';
import { BIN } from '../own-program.js';

const PROFILE_NAMES = PROFILES.map(({ name }) => name).join(', ');
const TOKEN_VARIABLE = 'PARLEY_ASSESS_AUTH';

export const ASSESS: Command = {
  name: 'assess',
  operands: ['TARGET'],
  summary: 'Grade an MCP server or an A2A agent by its specification.',
  details:
    'TARGET is a URL (http, https, ws or wss), a command in quotes, or the name of a server or agent of the\n' +
    'configuration. The target self is every endpoint of the gateway of the configuration, which must be running. The\n' +
    'target client starts a server that grades the MCP client that connects to it. Each requirement is checked over the\n' +
    'wire; docs/assess.md lists the requirements. The probes only read, and call only tools that declare to be read-only,\n' +
    'unless --active is given. Credentials go only to the host of the target. The exit code is 1 if no server or agent\n' +
    'was recognised, if the score is below --gate, or if the time was not enough; otherwise it is 0.',
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
    { name: 'port', value: 'PORT', description: 'For client: the port on this machine. Default: a free port.' },
    {
      name: 'idle',
      value: 'SECONDS',
      description: 'For client: the time without a request after which the client is graded. Default: 5.',
    },
    { name: 'stdio', description: 'For client: serve stdin and stdout; the report goes to --output.' },
    HELP,
  ],
  examples: [
    'parley assess https://example.com/mcp',
    'parley assess "npx -y @modelcontextprotocol/server-everything" --active',
    'parley assess wss://example.com/ws --auth "Bearer TOKEN"',
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
  // Loaded on demand, so that the other commands start fast.
  if (operands[0] === 'client') {
    const { assessClient } = await import('./assess-client.js');
    const report = await assessClient({
      ...{ io, profile, tool: `parley ${BUILD}`, stdio: given('stdio'), time: seconds * 1_000 },
      port: numberOf(text('port'), 'port', 0, 65_535) ?? 0,
      idle: (numberOf(text('idle'), 'idle', 1, 3_600) ?? 5) * 1_000,
    });
    if (!given('stdio')) io.stdout(render(report, format, io.style));
    for (const file of files) writeFileSync(path.resolve(io.cwd, file), render(report, formatOfFile(file)!));
    return report.complete && (gate === undefined || report.score >= gate) ? 0 : 1;
  }
  const before = text('compare');
  const { targets, credentials, client } = await targetsOf(operands[0]!, io, text('config'));
  const options: Omit<AssessOptions, 'target'> = {
    tool: `parley ${BUILD}`,
    profile,
    active: given('active'),
    revisions: text('revision')
      ?.split(',')
      .map((each) => each.trim()),
    credentials: authorization === undefined ? credentials : [['Authorization', authorization]],
    client,
    pace: { interval: 1_000 / rate, total: seconds * 1_000 },
    progress: io.terminal ? (...news) => io.redraw(scorecard(...news)) : undefined,
  };
  const earlier = before === undefined ? [] : readReports(path.resolve(io.cwd, before));
  const { assess, nameOf, REVISION_DATES } = await import('../../assess/assess.js');
  const unpublished = options.revisions?.find((date) => !REVISION_DATES.includes(date));
  if (unpublished !== undefined)
    throw new UsageError(`--revision: ${unpublished} is not one of ${REVISION_DATES.join(', ')}`, ASSESS);
  const reports: Report[] = [];
  for (const target of targets) {
    // A file with several reports is searched by the name of the target. If there is one report and one target, they
    // are compared even if the names differ.
    const own = earlier.length > 1 || targets.length > 1 ? nameOf(target) : earlier[0]?.target;
    const report = await assess({ ...options, target, before: earlier.find((each) => each.target === own) });
    if (io.terminal) io.redraw('');
    // Every other format writes one document about all targets, at the end.
    if (format === 'text') io.stdout(`${reports.length > 0 ? '\n' : ''}${render(report, format, io.style)}`);
    reports.push(report);
  }
  if (format !== 'text') io.stdout(render(reports, format));
  for (const file of files) writeFileSync(path.resolve(io.cwd, file), render(reports, formatOfFile(file)!));
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

/** The progress bar, or the line with the result of a surface whose probes are finished. */
function scorecard(...[done, total, label, { passed, failed }, finished]: Parameters<ProgressListener>): string {
  const counts = `${passed} passed, ${failed} failed`;
  if (finished !== undefined) return `${finished.surface}: ${counts}\n`;
  const full = Math.round((BAR * done) / Math.max(1, total));
  return `[${'#'.repeat(full)}${'.'.repeat(BAR - full)}] ${counts} ${label}`;
}

/** The reports of a file: one report, or a list of reports on several targets. */
function readReports(file: string): readonly Report[] {
  let content: unknown;
  try {
    content = JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    throw new UsageError(`--compare: ${file} cannot be read: ${(error as Error).message}`, ASSESS);
  }
  const reports = (Array.isArray(content) ? content : [content]) as readonly (Partial<Report> | null)[];
  if (reports.some((each) => each?.format !== 1 || !Array.isArray(each.sections)))
    throw new UsageError(`--compare: ${file} is not a report in JSON of parley assess`, ASSESS);
  return reports as readonly Report[];
}

interface Named {
  readonly targets: readonly Target[];
  readonly credentials: readonly (readonly [string, string])[];
  readonly client?: AssessOptions['client'];
}

/** The targets for the argument: a URL, the gateway itself, a name of the configuration, or a command. */
async function targetsOf(text: string, io: CommandLine['io'], file: string | undefined): Promise<Named> {
  if (/^(https?|wss?):\/\//i.test(text)) {
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
    const named = text === 'self' ? await selfNamed(config, io, file) : await namedTarget(text.toLowerCase(), config);
    if (named !== undefined) return named;
  }
  const [command = '', ...args] = splitCommand(text);
  return { targets: [{ kind: 'command', command: { command, args, cwd: io.cwd } }], credentials: [] };
}

async function namedTarget(name: string, config: Config): Promise<Named | undefined> {
  const server = config.servers[name];
  if (server?.command !== undefined) {
    const { command, args, env, cwd } = server;
    return { targets: [{ kind: 'command', command: { command, args, env, cwd } }], credentials: [] };
  }
  const upstream = server ?? config.agents[name];
  if (upstream === undefined) return undefined;
  if (upstream.url === undefined)
    throw new UsageError(
      `${name} has no URL of its own, because this gateway serves its tools; assess the gateway: parley assess self`,
      ASSESS,
    );
  const { clientFor, fixedHeaders } = await import('../../app/assessed-upstream.js');
  return {
    targets: [{ kind: 'url', url: new URL(upstream.url) }],
    credentials: await fixedHeaders(upstream),
    client: clientFor(upstream),
  };
}

/** Every endpoint of a running gateway, and the gateway as a program. */
async function selfNamed(config: Config, io: CommandLine['io'], file: string | undefined): Promise<Named> {
  const { listen, tls, mcp, servers, views, agents, a2a } = config;
  const { servesSse } = await import('../../app/endpoint-list.js');
  const enabled = (entries: Readonly<Record<string, { readonly enabled: boolean }>>): string[] =>
    Object.keys(entries).filter((name) => entries[name]!.enabled);
  const env = Object.entries(io.env).filter((entry): entry is [string, string] => entry[1] !== undefined);
  const targets = selfTargets({
    host: listen.host,
    port: listen.port,
    tls: tls.cert !== undefined,
    mcp: {
      http: mcp.enabled,
      sse: servesSse(config),
      webSocket: mcp.enabled && mcp.webSocket,
    },
    stdio: {
      command: process.execPath,
      args: [BIN, 'stdio', ...(file === undefined ? [] : ['--config', file])],
      // The configuration may name variables.
      env: Object.fromEntries(env),
      cwd: io.cwd,
    },
    servers: enabled(servers),
    views: Object.keys(views),
    agents: a2a.enabled ? enabled(agents) : undefined,
  });
  return { targets, credentials: [] };
}
