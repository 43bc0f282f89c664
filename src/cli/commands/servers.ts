import { columns, paint } from '../../telemetry/style.js';
import type { Command, CommandLine } from '../command.js';
import { gatewayAddress, requestJson } from '../gateway-api.js';
import { firstLine, GATEWAY_FLAGS, listAll, printJson } from '../gateway-output.js';

export const SERVERS: Command = {
  name: 'servers',
  summary: 'List the servers of the running gateway with their states.',
  details:
    'Lists the servers that the token may see: the name, the state, the number of tools, and the reason of a failure.',
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
        items.map(({ name, status, tools, detail, enabled }): [string, string] => {
          const state = enabled === false ? 'off' : String(status ?? 'unknown');
          const count = typeof tools === 'number' ? `  ${tools} tools` : '';
          const why = detail === undefined ? '' : `  ${firstLine(String(detail))}`;
          return [
            firstLine(String(name)),
            `${paint(io.style, COLORS[state] ?? 'yellow', state.padEnd(7))}${count}${why}`,
          ];
        }),
      )}\n`,
    );
  return 0;
}

/** A gateway without the management API names its servers in its health, to callers that it knows. */
async function fromHealth(address: Parameters<typeof requestJson>[0]): Promise<Record<string, unknown>[]> {
  const { servers: states } = (await requestJson(address, '/health')) as { servers?: Record<string, string> };
  if (states === undefined)
    throw new Error('the gateway names its servers to known callers only; set PARLEY_TOKEN to a token');
  return Object.entries(states).map(([name, status]) => ({ name, status }));
}
