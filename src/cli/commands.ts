import { columns } from '../telemetry/style.js';

/** Every command and flag, once: the parser, the help and the suggestions for misspelt ones all read this table. */
export interface Flag {
  readonly name: string;
  readonly short?: string;
  /** What stands for the value in the help; a flag without it takes none. */
  readonly value?: string;
  readonly description: string;
}

export interface Command {
  /** As typed, words separated by a space. */
  readonly name: 'serve' | 'stdio' | 'logs' | 'config check';
  /** What follows its name and has to. */
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
  description: 'The configuration, YAML or JSON. Default: parley.yaml, parley.yml or parley.json here.',
};
const HELP: Flag = { name: 'help', short: 'h', description: 'Show this help.' };
const VERSION: Flag = { name: 'version', short: 'V', description: 'Show the version.' };

export const TOP_FLAGS: readonly Flag[] = [HELP, VERSION];

export const COMMANDS: readonly Command[] = [
  {
    name: 'serve',
    summary: 'Serve the gateway over HTTP.',
    details:
      'Puts the configured MCP servers and A2A agents behind one endpoint: MCP at /mcp, A2A at /a2a, a page for people\n' +
      'at /. Without a configuration it starts a quickstart with two example servers. On a terminal it shows the state of\n' +
      'each server, then a line for each change; with log.level debug also one for each call.\n' +
      'Stops at SIGINT and SIGTERM, after outstanding calls have finished. SIGHUP reads the configuration again:\n' +
      'servers, agents and log.level change at once, the log names keys that need a restart.',
    flags: [CONFIG, HELP],
    examples: ['parley serve', 'parley serve --config parley.yaml', 'PARLEY_LISTEN=127.0.0.1:8080 parley serve'],
  },
  {
    name: 'stdio',
    summary: 'Serve the same gateway on stdin and stdout.',
    details:
      'MCP only, for clients that start their servers as programs. Opens no port, and ends when stdin closes. The log\n' +
      'goes to stderr. SIGHUP reads the configuration again.',
    flags: [
      CONFIG,
      {
        name: 'server',
        value: 'NAME',
        description: 'Serve this server only, under its own names. Default: all of them.',
      },
      HELP,
    ],
    examples: ['parley stdio --config parley.yaml', 'parley stdio --server weather'],
  },
  {
    name: 'config check',
    summary: 'Check the configuration and show what is in effect.',
    details:
      'Prints the configuration with all defaults and environment variables applied and with secrets masked. Problems\n' +
      'go to stderr, each with its key, its value and what to do. Ends with 0 when it can be used and with 1 when not.',
    flags: [CONFIG, { name: 'json', description: 'Print one JSON object, problems included, on stdout.' }, HELP],
    examples: ['parley config check', 'parley config check --config .vscode/mcp.json --json'],
  },
  {
    name: 'logs',
    operand: 'SERVER',
    summary: 'Show what the process of a server wrote last.',
    details:
      'Asks the running gateway for the last lines that a server started by it wrote to stderr, and when its processes\n' +
      'started and ended. Secrets of its environment are masked. With auth, a token with admin: true is needed.\n' +
      'GET /servers/SERVER/logs answers the same as JSON.',
    flags: [
      CONFIG,
      {
        name: 'url',
        value: 'URL',
        description: 'The gateway. Default: the address that the configuration listens on.',
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
      'Parley puts many MCP servers and A2A agents behind one endpoint and speaks every version of both to either side.',
      'Usage: parley <command> [options]',
      `Commands:\n${columns(rows)}`,
      `Options:\n${columns(TOP_FLAGS.map(flagRow))}`,
      'Every key of the configuration can also be set by a PARLEY_* variable; see docs/configuration.md.\n' +
        'parley <command> --help tells more about a command.\n',
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
