import { columns, paint } from '../../telemetry/terminal-style.js';
import type { Command, CommandLine } from '../command.js';
import { GatewayRefusal, gatewayAddress, requestJson } from '../gateway-api.js';
import { firstLine, GATEWAY_FLAGS, optional, printJson } from '../gateway-output.js';

export const STATUS: Command = {
  name: 'status',
  summary: 'Show whether the gateway runs, and the state of its servers and its storage.',
  details:
    'Asks the running gateway. The counts are those of servers and agents that the token may see. The exit code is 0 if\n' +
    'the gateway accepts calls and its storage answers, and 1 otherwise.',
  flags: GATEWAY_FLAGS,
  examples: ['parley status', 'parley status --url https://gateway.example.com --json'],
  run: status,
};

interface Counts {
  readonly up?: number;
  readonly down?: number;
  readonly starting?: number;
  readonly unknown?: number;
}

async function status(line: CommandLine): Promise<number> {
  const { io, given } = line;
  const address = gatewayAddress(line);
  const health = (await healthOf(address)) as Record<string, unknown>;
  const details = ((await optional(address, '/api/v1/status').catch(() => undefined)) ?? {}) as Record<string, unknown>;
  const ok = health['status'] === 'ok' || health['status'] === 'degraded';
  if (given('json')) {
    // Both answers have a member `servers`. The member of /health replaces the other, because it has names and states,
    // and the other has only counts.
    printJson(line, { url: address.url, ...details, ...health });
    return ok ? 0 : 1;
  }
  const counts = (health['serverCounts'] ?? details['servers']) as Counts | undefined;
  const state = String(health['status'] ?? 'unknown');
  const rows: [string, string][] = [
    ['Gateway', address.url],
    ['State', paint(io.style, state === 'ok' ? 'green' : ok ? 'yellow' : 'red', firstLine(state))],
    ['Version', firstLine(String(health['version'] ?? '?'))],
    ['Servers', counts === undefined ? '?' : countsText(counts)],
    ['Storage', firstLine(String(health['storage'] ?? '?'))],
    ['Sessions', String(health['sessions'] ?? '?')],
  ];
  const { agents, replica } = details;
  if (typeof agents === 'object' && agents !== null) rows.push(['Agents', countsText(agents)]);
  if (typeof replica === 'string') rows.push(['Replica', firstLine(replica)]);
  io.stdout(`${columns(rows)}\n`);
  // A gateway shows only its own state to a caller that it does not know.
  if (counts === undefined)
    io.stderr(
      `The gateway shows its servers to known callers only; ${address.token === undefined ? 'set PARLEY_TOKEN to a token of the gateway' : 'the gateway does not know this token'}.\n`,
    );
  return ok ? 0 : 1;
}

function countsText({ up = 0, down = 0, starting = 0, unknown = 0 }: Counts): string {
  return [
    `${up} up`,
    ...(down > 0 ? [`${down} down`] : []),
    ...(starting > 0 ? [`${starting} starting`] : []),
    ...(unknown > 0 ? [`${unknown} not called yet`] : []),
  ].join(', ');
}

/** A gateway that is stopping answers with an error status and the same body. */
async function healthOf(address: Parameters<typeof requestJson>[0]): Promise<unknown> {
  try {
    return await requestJson(address, '/health');
  } catch (error) {
    if (error instanceof GatewayRefusal && error.status === 503 && error.body !== undefined) return error.body;
    throw error;
  }
}
