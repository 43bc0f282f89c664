import { columns } from '../../telemetry/style.js';
import type { Command, CommandLine } from '../command.js';
import { gatewayAddress, unreachable } from '../gateway-api.js';
import { firstLine, GATEWAY_FLAGS, printJson } from '../gateway-output.js';

export const TOOLS: Command = {
  name: 'tools',
  optional: ['SERVER'],
  summary: 'List the tools of the running gateway.',
  details:
    'Lists the tools that the token may see, under the names that parley call takes. With SERVER those of one server.',
  flags: GATEWAY_FLAGS,
  examples: ['parley tools', 'parley tools weather --json'],
  run: tools,
};

async function tools(line: CommandLine): Promise<number> {
  const { io, operands, given } = line;
  const { url, token } = gatewayAddress(line);
  const { withGateway } = await import('../../app/gateway-client.js');
  const path = operands[0] === undefined ? '/mcp' : `/mcp/${encodeURIComponent(operands[0].toLowerCase())}`;
  const found = await withGateway({ url: `${url}${path}`, token }, (gateway) => gateway.tools()).catch(
    (error: unknown) => {
      throw connectionError(url, error);
    },
  );
  if (given('json')) printJson(line, { tools: found });
  else if (found.length === 0) io.stdout('The token sees no tool.\n');
  else
    io.stdout(
      `${columns(found.map(({ name, title, description }): [string, string] => [firstLine(name, 128), firstLine(title ?? description)]))}\n`,
    );
  return 0;
}

/** A failed connection names the gateway; an answer of the gateway is passed on. */
export function connectionError(url: string, error: unknown): Error {
  const message = error instanceof Error ? error.message : String(error);
  return /fetch failed/i.test(message) ? unreachable(url, error) : new Error(firstLine(message, 500));
}
