import { ConfigReloader } from '../../app/config-reloader.js';
import { watchFailures } from '../../app/process-failures.js';
import type { Reloadable } from '../../app/running-gateway.js';
import { hasConfiguration, loadConfig } from '../../config/load.js';
import { formatProblem, nearest } from '../../config/problem.js';
import type { Config } from '../../config/schema.js';
import { followLevelSignal, LogLevelSwitch } from '../../telemetry/log-level.js';
import { callLog, createLog } from '../../telemetry/log-output.js';
import { type CliEnvironment, CONFIG, type Command, HELP, UsageError } from '../command.js';
import { type Reloads, withReloads } from '../reload-signals.js';

export const STDIO: Command = {
  name: 'stdio',
  summary: 'Serve the gateway on stdin and stdout.',
  details:
    'For MCP clients that start their servers as programs. It opens no port, ends when stdin closes, and writes the log\n' +
    'to stderr. SIGHUP and a change of the file make it read the configuration again. SIGUSR2 switches the log to debug,\n' +
    'and the next SIGUSR2 back.',
  flags: [
    CONFIG,
    {
      name: 'server',
      value: 'NAME',
      description: 'Serve this server only, with its own names. Default: all servers.',
    },
    { name: 'view', value: 'NAME', description: 'Serve this view of the configuration (views.NAME) only.' },
    HELP,
  ],
  examples: ['parley stdio --config parley.yaml', 'parley stdio --server weather'],
  run: ({ io, text }) =>
    withReloads((reloads) => stdio(text('config'), { server: text('server'), view: text('view') }, io, reloads)),
};

async function stdio(
  file: string | undefined,
  wanted: { readonly server: string | undefined; readonly view: string | undefined },
  io: CliEnvironment,
  reloads: Reloads,
): Promise<number> {
  if (!hasConfiguration({ ...io, file })) {
    throw new UsageError('no configuration found in this folder; name a file with --config FILE');
  }
  const load = () => loadConfig({ ...io, file, listens: false });
  const first = load();
  const { config, warnings } = first;
  for (const warning of warnings) io.stderr(`${formatProblem(warning)}\n`);
  const server = servedName(wanted, config);
  const { startStdio } = await io.starters();
  const log = createLog(config.log, io.terminal);
  const levels = new LogLevelSwitch(log);
  const reloader = new ConfigReloader({ load, first, log, levels });
  const started = (gateway: Reloadable): void => reloads.follow(reloader, gateway, log);
  const unwatch = watchFailures(log);
  // Without a handler the signal would end the process.
  const unfollow = followLevelSignal(levels);
  try {
    await startStdio(config, {
      log,
      calls: callLog(log, config.log, io.terminal),
      started,
      ...(server !== undefined && { server }),
    });
  } finally {
    unwatch();
    unfollow();
  }
  return 0;
}

/** The server or view that the flags name. One name suffices, because a view cannot have the name of a server. */
function servedName(
  wanted: { readonly server: string | undefined; readonly view: string | undefined },
  config: Config,
): string | undefined {
  const [server, view] = [wanted.server?.toLowerCase(), wanted.view?.toLowerCase()];
  if (server !== undefined && view !== undefined) throw new UsageError('give --server or --view, not both');
  if (server !== undefined && config.servers[server]?.enabled !== true) throw noSuchServer(server, config);
  const views = Object.keys(config.views).map((name) => name.toLowerCase());
  if (view === undefined || views.includes(view)) return view ?? server;
  const near = nearest(view, views);
  const hint = near === undefined ? `the views are ${views.join(', ') || '(none)'}` : `did you mean ${near}?`;
  throw new Error(`there is no view ${JSON.stringify(view)}; ${hint}`);
}

function noSuchServer(name: string, config: Config): Error {
  const names = Object.keys(config.servers).filter((known) => config.servers[known]?.enabled === true);
  const near = nearest(name, names);
  if (config.servers[name] !== undefined)
    return new Error(`the server ${JSON.stringify(name)} is disabled (enabled: false)`);
  const hint = near === undefined ? `the servers are ${names.join(', ') || '(none)'}` : `did you mean ${near}?`;
  return new Error(`there is no server ${JSON.stringify(name)}; ${hint}`);
}
