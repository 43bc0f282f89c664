import type { Command } from '../command.js';
import { gatewayAddress } from '../gateway-api.js';
import { GATEWAY_FLAGS } from '../gateway-output.js';
import { fetchLogs, logsText } from '../logs-output.js';

export const LOGS: Command = {
  name: 'logs',
  operands: ['SERVER'],
  summary: "Show the last log lines of a server's process.",
  details:
    'Asks the running gateway for the last lines that the process of a server wrote to stderr, and for the times when\n' +
    'its processes started and ended. Secrets of its environment are masked. With auth, it needs a token with\n' +
    'admin: true. GET /servers/SERVER/logs answers the same as JSON.',
  flags: GATEWAY_FLAGS,
  examples: ['parley logs files', 'parley logs files --url http://127.0.0.1:4600 --json'],
  run: async (line) => {
    const { io, operands, given } = line;
    const [server = ''] = operands;
    const found = await fetchLogs(gatewayAddress(line), server);
    io.stdout(given('json') ? `${JSON.stringify(found, null, 2)}\n` : logsText(found));
    return 0;
  },
};
