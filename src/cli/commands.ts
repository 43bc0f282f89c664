import { columns } from '../telemetry/style.js';

/** Every command and flag. The parser, the help and the suggestions for typing errors read this table. */
export interface Flag {
  readonly name: string;
  readonly short?: string;
  /** The placeholder of the value in the help; undefined for a flag without a value. */
  readonly value?: string;
  readonly description: string;
}

export interface Command {
  /** The words of the command, separated by a space. */
  readonly name: 'serve' | 'stdio' | 'logs' | 'config check';
  /** The required argument after the name. */
  readonly operand?: string;
  readonly summary: string;
  readonly details: string;
  readonly flags: readonly Flag[];
  readonly examples: readonly string[];
}

const CONFIG: Flag = {
  name: 'config',
  short: 'c',
  value: 'FILE',
  description: 'The YAML or JSON file. Default: parley.yaml, parley.yml or parley.json in this folder.',
};
const HELP: Flag = { name: 'help', short: 'h', description: 'Show this help.' };
const VERSION: Flag = { name: 'version', short: 'V', description: 'Show the version.' };

export const TOP_FLAGS: readonly Flag[] = [HELP, VERSION];

export const COMMANDS: readonly Command[] = [
  {
    name: 'serve',
    summary: 'Serve the gateway over HTTP.',
    details:
      'Serves the configured MCP servers at /mcp, the A2A agents at /a2a, and an info page at /. Without a configuration it\n' +
      'serves a quickstart with two example servers. On a terminal it shows the state of each server, then one line for\n' +
      'each change; with log.level debug also one line for each call.\n' +
      'SIGINT and SIGTERM stop it after the running calls have finished. SIGHUP reads the configuration again: servers,\n' +
      'agents and log.level change at once, and the log names keys that need a restart.',
    flags: [CONFIG, HELP],
    examples: ['parley serve', 'parley serve --config parley.yaml', 'PARLEY_LISTEN=127.0.0.1:8080 parley serve'],
  },
  {
    name: 'stdio',
    summary: 'Serve the gateway on stdin and stdout.',
    details:
      'For MCP clients that start their servers as programs. It opens no port, ends when stdin closes, and writes the log\n' +
      'to stderr. SIGHUP reads the configuration again.',
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
  },
  {
    name: 'config check',
    summary: 'Check the configuration and show it with all defaults.',
    details:
      'Prints the configuration with all defaults and environment variables, and with secrets masked. Errors go to\n' +
      'stderr, each with its key, its value and the fix. The exit code is 0 for a valid configuration and 1 otherwise.',
    flags: [CONFIG, { name: 'json', description: 'Print one JSON object on stdout, errors included.' }, HELP],
    examples: ['parley config check', 'parley config check --config .vscode/mcp.json --json'],
  },
  {
    name: 'logs',
    operand: 'SERVER',
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
      { name: 'json', description: 'Print one JSON object.' },
      HELP,
    ],
    examples: ['parley logs files', 'parley logs files --url http://127.0.0.1:4600 --json'],
  },
];

/** The help of one command, or of the whole program. */
export function helpText(command?: Command): string {
  if (command === undefined) {
    const rows = COMMANDS.map((known): [string, string] => [usageOf(known), known.summary]);
    return [
      'Parley is a gateway: it puts many MCP servers and A2A agents behind one endpoint, for clients of every version.',
      'Usage: parley <command> [options]',
      `Commands:\n${columns(rows)}`,
      `Options:\n${columns(TOP_FLAGS.map(flagRow))}`,
      'A PARLEY_* environment variable exists for every key of the configuration; see docs/configuration.md.\n' +
        'parley <command> --help describes a command.\n',
    ].join('\n\n');
  }
  return [
    command.summary,
    `Usage: parley ${usageOf(command)} [options]`,
    command.details,
    `Options:\n${columns(command.flags.map(flagRow))}`,
    `Examples:\n${command.examples.map((example) => `  ${example}`).join('\n')}\n`,
  ].join('\n\n');
}

const usageOf = ({ name, operand }: Command): string => (operand === undefined ? name : `${name} ${operand}`);

function flagRow({ name, short, value, description }: Flag): [string, string] {
  const long = value === undefined ? `--${name}` : `--${name} ${value}`;
  return [short === undefined ? `    ${long}` : `-${short}, ${long}`, description];
}
