import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { boundYoungGeneration } from '../app/heap-limits.js';
import { watchFailures } from '../app/process-failures.js';
import { VERSION } from '../app/product-info.js';
import type { Reloadable, RunningGateway } from '../app/running.js';
import { formatListen } from '../config/address.js';
import type { Environment } from '../config/expand.js';
import { hasConfiguration, loadConfig } from '../config/load.js';
import { ConfigError, formatProblem, nearest } from '../config/problem.js';
import type { Config } from '../config/schema.js';
import { callLog, createLog, type Logger, writesText } from '../telemetry/process-log.js';
import { type Style, styleOf } from '../telemetry/style.js';
import { checkConfig } from './check.js';
import { helpText } from './commands.js';
import { fetchLogs, gatewayOf, logsText } from './logs.js';
import { parseCommandLine, UsageError } from './parse.js';
import { welcomeText } from './quickstart-welcome.js';
import { logProblems, Reloads } from './reload.js';
import { summaryText } from './summary.js';

/** The functions that start the gateway; the command line knows nothing else of it. */
export interface Starters {
  startServe(
    config: Config,
    io: { log: Logger; calls: ReturnType<typeof callLog>; quickstart: boolean },
  ): Promise<RunningGateway>;
  startStdio(
    config: Config,
    options: {
      log: Logger;
      calls: ReturnType<typeof callLog>;
      server?: string;
      started?: (gateway: Reloadable) => void;
    },
  ): Promise<void>;
}

export interface CliEnvironment {
  readonly env: Environment;
  readonly cwd: string;
  readonly quickstart: string;
  stdout(text: string): void;
  stderr(text: string): void;
  /** Whether stdout is a terminal, and its style. */
  readonly style: Style;
  /** Whether stderr is a terminal. */
  readonly terminal: boolean;
  starters(): Promise<Starters>;
}

const surroundings: CliEnvironment = {
  env: process.env,
  cwd: process.cwd(),
  quickstart: fileURLToPath(new URL('../../examples/quickstart.yaml', import.meta.url)),
  stdout: (text) => process.stdout.write(text),
  stderr: (text) => process.stderr.write(text),
  style: styleOf(process.stdout),
  terminal: process.stderr.isTTY === true,
  // Loaded on demand, so that help and checks start fast.
  starters: async () => (await import('../app/load-starters.js')).loadStarters(),
};

/** Runs one command line to its end. Returns the exit code: 0, 1 for a failure, 2 for a wrong command line. */
export async function main(argv: readonly string[], given: Partial<CliEnvironment> = {}): Promise<number> {
  const io = { ...surroundings, ...given };
  try {
    const invocation = parseCommandLine(argv);
    if (invocation.kind === 'help') {
      io.stdout(helpText(invocation.command));
      return 0;
    }
    if (invocation.kind === 'version') {
      io.stdout(`${VERSION}\n`);
      return 0;
    }
    const { command, flags, operand } = invocation;
    const file = textOf(flags['config']);
    switch (command.name) {
      case 'serve':
        return await withReloads((reloads) => serve(file, io, reloads));
      case 'stdio': {
        const server = textOf(flags['server']);
        return await withReloads((reloads) => stdio(file, server, io, reloads));
      }
      case 'logs':
        return await logs(operand!, { file, url: textOf(flags['url']), json: flags['json'] === true }, io);
      case 'config check':
        return check(file, flags['json'] === true, io);
    }
  } catch (error) {
    return report(error, io);
  }
}

const textOf = (flag: string | true | undefined): string | undefined => (typeof flag === 'string' ? flag : undefined);

const STOP_SIGNALS = ['SIGINT', 'SIGTERM'] as const;

async function withReloads(run: (reloads: Reloads) => Promise<number>): Promise<number> {
  const reloads = new Reloads();
  try {
    return await run(reloads);
  } finally {
    reloads.release();
  }
}

async function serve(given: string | undefined, io: CliEnvironment, reloads: Reloads): Promise<number> {
  const quickstart = isQuickstart(given, io) || !hasConfiguration({ ...io, file: given });
  const file = quickstart ? io.quickstart : given;
  return serveFile(file, io, quickstart, reloads);
}

async function serveFile(
  file: string | undefined,
  io: CliEnvironment,
  quickstart: boolean,
  reloads: Reloads,
): Promise<number> {
  const load = () => loadConfig({ ...io, file });
  const { config, warnings } = load();
  const log = createLog(config.log, io.terminal);
  logProblems(warnings, log);
  const { startServe } = await io.starters();
  const stop = stopSignal();
  const unwatch = watchFailures(log);
  try {
    const calls = callLog(log, config.log, io.terminal);
    const running = await startServe(config, { log, calls, quickstart });
    boundYoungGeneration();
    reloads.follow(load, running, log);
    io.stdout(`Parley is listening on ${running.url}\n`);
    const { signal } = stop;
    if (quickstart || writesText(config.log, io.terminal)) {
      const text = quickstart ? welcome(running, config, io) : summarize(running, io);
      // If the gateway was stopped meanwhile, nobody reads the summary.
      io.stdout(await Promise.race([text, signal.then(() => '')]));
    }
    running.reportChanges();
    log.info({ signal: await signal }, 'stopping');
    await reloads.stop();
    await running.close();
    return 0;
  } catch (error) {
    throw explain(error, config);
  } finally {
    unwatch();
    stop.release();
  }
}

/** How long the summary waits for servers that start; slower servers are reported later. */
const SUMMARY_WAIT = 2_000;
const WELCOME_WAIT = 15_000;

async function summarize(running: RunningGateway, io: CliEnvironment): Promise<string> {
  await running.settled(SUMMARY_WAIT);
  return `${summaryText(running.summary(), io.style)}\nStop with Ctrl-C.\n`;
}

async function welcome(running: RunningGateway, { data }: Config, io: CliEnvironment): Promise<string> {
  await running.settled(WELCOME_WAIT);
  const { url } = running;
  return welcomeText({ url, offer: await running.offer(), file: io.quickstart, data, cwd: io.cwd });
}

/** Whether `--config` names the configuration of the quickstart. */
function isQuickstart(file: string | undefined, io: CliEnvironment): boolean {
  return file !== undefined && path.resolve(io.cwd, file) === io.quickstart;
}

async function stdio(
  file: string | undefined,
  wanted: string | undefined,
  io: CliEnvironment,
  reloads: Reloads,
): Promise<number> {
  if (!hasConfiguration({ ...io, file })) {
    throw new UsageError('no configuration found in this folder; name a file with --config FILE');
  }
  const load = () => loadConfig({ ...io, file, listens: false });
  const { config, warnings } = load();
  for (const warning of warnings) io.stderr(`${formatProblem(warning)}\n`);
  const server = wanted?.toLowerCase();
  if (server !== undefined && config.servers[server]?.enabled !== true) throw noSuchServer(server, config);
  const { startStdio } = await io.starters();
  const log = createLog(config.log, io.terminal);
  const started = (gateway: Reloadable): void => reloads.follow(load, gateway, log);
  const unwatch = watchFailures(log);
  try {
    await startStdio(config, {
      log,
      calls: callLog(log, config.log, io.terminal),
      started,
      ...(server !== undefined && { server }),
    });
  } finally {
    unwatch();
  }
  return 0;
}

async function logs(
  server: string,
  { file, url, json }: { file: string | undefined; url: string | undefined; json: boolean },
  io: CliEnvironment,
): Promise<number> {
  const quickstart = !hasConfiguration({ ...io, file });
  const { config } = loadConfig({ ...io, file: quickstart ? io.quickstart : file });
  const found = await fetchLogs(gatewayOf(config, url), server);
  io.stdout(json ? `${JSON.stringify(found, null, 2)}\n` : logsText(found));
  return 0;
}

function check(file: string | undefined, json: boolean, io: CliEnvironment): number {
  const quickstart = !hasConfiguration({ ...io, file });
  const { code, stdout, stderr } = checkConfig({ ...io, file: quickstart ? io.quickstart : file }, json);
  io.stderr(stderr);
  io.stdout(stdout);
  return code;
}

function noSuchServer(name: string, config: Config): Error {
  const names = Object.keys(config.servers).filter((known) => config.servers[known]?.enabled === true);
  const near = nearest(name, names);
  if (config.servers[name] !== undefined)
    return new Error(`the server ${JSON.stringify(name)} is disabled (enabled: false)`);
  const hint = near === undefined ? `the servers are ${names.join(', ') || '(none)'}` : `did you mean ${near}?`;
  return new Error(`there is no server ${JSON.stringify(name)}; ${hint}`);
}

/** `signal` resolves at the first SIGINT or SIGTERM; until `release` a second one ends the process at once. */
function stopSignal(): { signal: Promise<NodeJS.Signals>; release(): void } {
  let listener: (signal: NodeJS.Signals) => void = () => {};
  const signal = new Promise<NodeJS.Signals>((resolve) => {
    let asked = false;
    listener = (name) => {
      if (asked) process.exit(1);
      asked = true;
      resolve(name);
    };
    for (const name of STOP_SIGNALS) process.on(name, listener);
  });
  const release = (): void => {
    for (const name of STOP_SIGNALS) process.off(name, listener);
  };
  return { signal, release };
}

function explain(error: unknown, config: Config): unknown {
  const address = formatListen(config.listen);
  switch ((error as NodeJS.ErrnoException | undefined)?.code) {
    case 'EADDRINUSE':
      return new Error(
        `listen: ${address} is in use; stop the other process, or set listen or PARLEY_LISTEN to another address`,
      );
    case 'EACCES':
      return new Error(`listen: this user may not listen on ${address}; use a port above 1023`);
    case 'EADDRNOTAVAIL':
      return new Error(`listen: ${address} is not an address of this machine`);
    default:
      return error;
  }
}

function report(error: unknown, io: CliEnvironment): number {
  if (error instanceof ConfigError) {
    io.stderr(error.problems.map((problem) => `${formatProblem(problem)}\n`).join(''));
    return 1;
  }
  if (error instanceof UsageError) {
    const help = error.command === undefined ? 'parley --help' : `parley ${error.command.name} --help`;
    io.stderr(`parley: ${error.message}\nSee ${help}\n`);
    return 2;
  }
  io.stderr(`parley: ${error instanceof Error ? error.message : String(error)}\n`);
  return 1;
}
