import path from 'node:path';
import { ConfigReloader, logProblems } from '../../app/config-reloader.js';
import { boundYoungGeneration } from '../../app/heap-limits.js';
import { watchFailures } from '../../app/process-failures.js';
import type { RunningGateway } from '../../app/running-gateway.js';
import { formatListen } from '../../config/address-fields.js';
import { hasConfiguration, loadConfig } from '../../config/load.js';
import type { Config } from '../../config/schema.js';
import { followLevelSignal, LogLevelSwitch } from '../../telemetry/log-level.js';
import { callLog, createLog, writesText } from '../../telemetry/log-output.js';
import { type CliEnvironment, CONFIG, type Command, HELP } from '../command.js';
import { welcomeText } from '../quickstart-welcome.js';
import { type Reloads, withReloads } from '../reload-signals.js';
import { summaryText } from '../startup-summary.js';

export const SERVE: Command = {
  name: 'serve',
  summary: 'Serve the gateway over HTTP.',
  details:
    'Serves the configured MCP servers at /mcp, the A2A agents at /a2a, and an info page at /. Without a configuration it\n' +
    'serves a quickstart with two example servers. On a terminal it shows the state of each server, then one line for\n' +
    'each change; with log.level debug also one line for each call.\n' +
    'SIGINT and SIGTERM stop it after the running calls have finished. SIGHUP and a change of the file make it read the\n' +
    'configuration again: servers, agents, views, policy and log.level change at once, and the log names keys that need a\n' +
    'restart. A file with errors changes nothing, and the log names the errors. SIGUSR2 switches the log to debug, and the\n' +
    'next SIGUSR2 back.',
  flags: [CONFIG, HELP],
  examples: ['parley serve', 'parley serve --config parley.yaml', 'PARLEY_LISTEN=127.0.0.1:8080 parley serve'],
  run: ({ io, text }) => withReloads((reloads) => serve(text('config'), io, reloads)),
};

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
  const first = load();
  const { config } = first;
  const log = createLog(config.log, io.terminal);
  logProblems(first.warnings, log);
  const levels = new LogLevelSwitch(log);
  const reloader = new ConfigReloader({ load, first, log, levels });
  const { startServe } = await io.starters();
  const stop = stopSignal();
  const unwatch = watchFailures(log);
  const unfollow = followLevelSignal(levels);
  try {
    const calls = callLog(log, config.log, io.terminal);
    const running = await startServe(config, { log, calls, quickstart, reloader });
    boundYoungGeneration();
    reloads.follow(reloader, running, log);
    io.stdout(`Parley is listening on ${running.url}\n`);
    const { signal } = stop;
    if (quickstart || writesText(config.log, io.terminal)) {
      const text = quickstart ? welcome(running, config, io) : summarize(running, io);
      // If the gateway was stopped in the meantime, nobody reads the summary.
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
    unfollow();
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

const STOP_SIGNALS = ['SIGINT', 'SIGTERM'] as const;

/**
 * `signal` resolves at the first SIGINT or SIGTERM. Until `release` is called, a second signal ends the process at
 * once.
 */
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
