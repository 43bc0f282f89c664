import { ConfigReloader } from '../../app/config-reloader.js';
import { watchFailures } from '../../app/process-failures.js';
import type { Reloadable } from '../../app/running.js';
import { hasConfiguration, loadConfig } from '../../config/load.js';
import { formatProblem, nearest } from '../../config/problem.js';
import type { Config } from '../../config/schema.js';
import { callLog, createLog } from '../../telemetry/process-log.js';
import { type CliEnvironment, CONFIG, type Command, HELP, UsageError } from '../command.js';
import { type Reloads, withReloads } from '../reload.js';

export const STDIO: Command = {
  name: 'stdio',
  summary: 'Serve the gateway on stdin and stdout.',
  details:
    'For MCP clients that start their servers as programs. It opens no port, ends when stdin closes, and writes the log\n' +
    'to stderr. SIGHUP and a change of the file make it read the configuration again.',
  flags: [
    CONFIG,
    {
      name: 'server',
      value: 'NAME',
      description: 'Serve this server only, with its own names. Default: all servers.',
    },
    HELP,
  ],
  examples: ['parley stdio --config parley.yaml', 'parley stdio --server weather'],
  run: ({ io, text }) => withReloads((reloads) => stdio(text('config'), text('server'), io, reloads)),
};

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
  const first = load();
  const { config, warnings } = first;
  for (const warning of warnings) io.stderr(`${formatProblem(warning)}\n`);
  const server = wanted?.toLowerCase();
  if (server !== undefined && config.servers[server]?.enabled !== true) throw noSuchServer(server, config);
  const { startStdio } = await io.starters();
  const log = createLog(config.log, io.terminal);
  const reloader = new ConfigReloader({ load, first, log });
  const started = (gateway: Reloadable): void => reloads.follow(reloader, gateway, log);
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

function noSuchServer(name: string, config: Config): Error {
  const names = Object.keys(config.servers).filter((known) => config.servers[known]?.enabled === true);
  const near = nearest(name, names);
  if (config.servers[name] !== undefined)
    return new Error(`the server ${JSON.stringify(name)} is disabled (enabled: false)`);
  const hint = near === undefined ? `the servers are ${names.join(', ') || '(none)'}` : `did you mean ${near}?`;
  return new Error(`there is no server ${JSON.stringify(name)}; ${hint}`);
}
