import { hasConfiguration, loadConfig } from '../../config/load.js';
import { CONFIG, type Command, HELP, JSON_OUTPUT } from '../command.js';
import { fetchLogs, gatewayOf, logsText } from '../logs.js';

export const LOGS: Command = {
  name: 'logs',
  operands: ['SERVER'],
  summary: "Show the last log lines of a server's process.",
  details:
    'Asks the running gateway for the last lines that the process of a server wrote to stderr, and for the times when\n' +
    'its processes started and ended. Secrets of its environment are masked. With auth, it needs a token with\n' +
    'admin: true. GET /servers/SERVER/logs answers the same as JSON.',
  flags: [
    CONFIG,
    {
      name: 'url',
      value: 'URL',
      description: 'The URL of the gateway. Default: the listen address of the configuration.',
    },
    JSON_OUTPUT,
    HELP,
  ],
  examples: ['parley logs files', 'parley logs files --url http://127.0.0.1:4600 --json'],
  run: async ({ io, operands: [server = ''], text, given }) => {
    const file = hasConfiguration({ ...io, file: text('config') }) ? text('config') : io.quickstart;
    const { config } = loadConfig({ ...io, file });
    const found = await fetchLogs(gatewayOf(config, text('url')), server);
    io.stdout(given('json') ? `${JSON.stringify(found, null, 2)}\n` : logsText(found));
    return 0;
  },
};
