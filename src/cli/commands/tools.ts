import { columns } from '../../telemetry/terminal-style.js';
import type { Command, CommandLine } from '../command.js';
import { type GatewayAddress, GatewayRefusal, gatewayAddress, refusalText, unreachable } from '../gateway-api.js';
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
  const address = gatewayAddress(line);
  const { url, token } = address;
  const { withGateway } = await import('../../app/commands/gateway-client.js');
  const path = operands[0] === undefined ? '/mcp' : `/mcp/${encodeURIComponent(operands[0].toLowerCase())}`;
  const found = await withGateway({ url: `${url}${path}`, token }, (gateway) => gateway.tools()).catch(
    (error: unknown) => {
      const failure = connectionError(address, error);
      if (operands[0] === undefined || !(failure instanceof GatewayRefusal) || failure.status !== 404) throw failure;
      throw new Error(`there is no server ${JSON.stringify(firstLine(operands[0]))}; parley servers lists them`);
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

/** The error for a person: a failed connection names the gateway, and a refusal of the gateway is passed on. */
export function connectionError({ url, token }: GatewayAddress, error: unknown): Error {
  const message = error instanceof Error ? error.message : String(error);
  if (/fetch failed/i.test(message)) return unreachable(url, error);
  const refusal = refusalIn(error);
  if (!refusal) return new Error(firstLine(message, 500));
  const { status, body } = refusal;
  return new GatewayRefusal(firstLine(refusalText(status, body, url, token !== undefined), 500), status, body);
}

/**
 * The HTTP answer that caused an error of the client library. The library's own message speaks of the protocol only.
 */
function refusalIn(error: unknown): { readonly status: number; readonly body: unknown } | undefined {
  const { status, text } = ((error as { data?: unknown }).data ?? {}) as { status?: unknown; text?: unknown };
  if (typeof status !== 'number' || typeof text !== 'string') return undefined;
  try {
    return { status, body: JSON.parse(text) };
  } catch {
    return undefined;
  }
}
