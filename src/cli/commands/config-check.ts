import { hasConfiguration } from '../../config/load.js';
import { CONFIG, type Command, HELP } from '../command.js';
import { checkConfig } from '../config-check-output.js';

export const CONFIG_CHECK: Command = {
  name: 'config check',
  summary: 'Check the configuration and show it with all defaults.',
  details:
    'Prints the configuration with all defaults and environment variables, and with secrets masked. Errors go to\n' +
    'stderr, each with its key, its value and the fix. The exit code is 0 for a valid configuration and 1 otherwise.',
  flags: [CONFIG, { name: 'json', description: 'Print one JSON object on stdout, errors included.' }, HELP],
  examples: ['parley config check', 'parley config check --config .vscode/mcp.json --json'],
  run: ({ io, text, given }) => {
    const file = hasConfiguration({ ...io, file: text('config') }) ? text('config') : io.quickstart;
    const { code, stdout, stderr } = checkConfig({ ...io, file }, given('json'));
    io.stderr(stderr);
    io.stdout(stdout);
    return code;
  },
};
