import { columns, duration, paint, plural, type Style } from '../../telemetry/terminal-style.js';
import type { Command, CommandLine } from '../command.js';
import { gatewayAddress, requestJson } from '../gateway-api.js';
import { firstLine, GATEWAY_FLAGS, listAll, printJson } from '../gateway-output.js';

export const SERVERS: Command = {
  name: 'servers',
  summary: 'List the servers of the running gateway with their states.',
  details:
    'Lists the servers that the token may see: the name, the state, the number of tools, and the reason of a failure\n' +
    'with its duration. ' +
    'Administrators also see each of the replicas of a server.',
  flags: GATEWAY_FLAGS,
  examples: ['parley servers', 'parley servers --json'],
  run: servers,
};

const COLORS: Readonly<Record<string, 'green' | 'red' | 'yellow'>> = { up: 'green', down: 'red' };

async function servers(line: CommandLine): Promise<number> {
  const { io, given } = line;
  const address = gatewayAddress(line);
  const items = (await listAll(address, '/api/v1/servers')) ?? (await fromHealth(address));
  if (given('json')) {
    printJson(line, { servers: items });
    return 0;
  }
  if (items.length === 0) io.stdout('The token sees no server.\n');
  else
    io.stdout(
      `${columns(
        items.flatMap(({ name, status, since, count, problem, enabled, replicas }): [string, string][] => {
          const state = enabled === false ? 'off' : String(status ?? 'unknown');
          const away = state === 'down' && typeof since === 'number' ? `  for ${lasting(since)}` : '';
          const tools = typeof count === 'number' ? `  ${plural(count, 'tool')}` : '';
          const why = problem === undefined ? '' : `  ${firstLine(String(problem))}`;
          return [
            [
              firstLine(String(name)),
              `${paint(io.style, COLORS[state] ?? 'yellow', state.padEnd(7))}${away}${tools}${why}`,
            ],
            ...replicaRows(replicas, io.style),
          ];
        }),
      )}\n`,
    );
  return 0;
}

/**
 * The time since a change. It is never negative, although the clocks of the gateway and of this machine may differ.
 */
const lasting = (since: number): string => duration(Math.max(0, Date.now() - since));

/** One row for each equivalent server. The gateway sends these states to administrators only. */
function replicaRows(replicas: unknown, style: Style): [string, string][] {
  const rows = Array.isArray(replicas) ? (replicas as Record<string, unknown>[]) : [];
  return rows.map(({ position, url, status, calls, failures, expected, breaker, differs }) => {
    const state = String(status ?? 'unknown');
    const worth = typeof expected === 'number' ? `  worth ${expected.toFixed(2)}` : '';
    const pause = breaker === undefined ? '' : '  no calls until the next trial';
    const other = typeof differs === 'string' ? `  tools differ: ${firstLine(differs)}` : '';
    return [
      `  ${String(position)}`,
      `${paint(style, COLORS[state] ?? 'yellow', state.padEnd(7))}  ${firstLine(String(url))}  ${plural(Number(calls ?? 0), 'call')}, ${Number(failures ?? 0)} failed${worth}${pause}${other}`,
    ];
  });
}

/** A gateway without the management API names its servers in the answer of /health, to callers that it knows. */
async function fromHealth(address: Parameters<typeof requestJson>[0]): Promise<Record<string, unknown>[]> {
  const { servers: states } = (await requestJson(address, '/health')) as { servers?: Record<string, string> };
  if (states === undefined)
    throw new Error('the gateway names its servers to known callers only; set PARLEY_TOKEN to a token');
  return Object.entries(states).map(([name, status]) => ({ name, status }));
}
