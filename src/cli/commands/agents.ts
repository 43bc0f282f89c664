import { columns } from '../../telemetry/terminal-style.js';
import type { Command, CommandLine } from '../command.js';
import { gatewayAddress } from '../gateway-api.js';
import { firstLine, GATEWAY_FLAGS, listAll, optional, printJson } from '../gateway-output.js';

export const AGENTS: Command = {
  name: 'agents',
  summary: 'List the agents of the running gateway.',
  details: 'Lists the agents that the token may see, under the names that parley send takes.',
  flags: GATEWAY_FLAGS,
  examples: ['parley agents', 'parley agents --json'],
  run: agents,
};

async function agents(line: CommandLine): Promise<number> {
  const { io, given } = line;
  const address = gatewayAddress(line);
  const listed = (await optional(address, '/a2a/agents')) as { agents?: Record<string, unknown>[] } | undefined;
  const found = listed?.agents ?? (await listAll(address, '/api/v1/agents')) ?? [];
  if (given('json')) printJson(line, { agents: found });
  else if (found.length === 0) io.stdout('The token sees no agent.\n');
  else
    io.stdout(
      `${columns(found.map((agent): [string, string] => [firstLine(String(agent['agent_id'] ?? agent['name'])), firstLine(String(agent['description'] ?? ''))]))}\n`,
    );
  return 0;
}
