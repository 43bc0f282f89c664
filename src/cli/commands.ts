import { columns } from '../telemetry/terminal-style.js';
import { type Command, type Flag, HELP } from './command.js';
import { AGENTS } from './commands/agents.js';
import { ASSESS } from './commands/assess.js';
import { AUDIT_EXPORT, AUDIT_LIST, AUDIT_TAIL, AUDIT_VERIFY } from './commands/audit.js';
import { AUTH_DOCTOR, AUTH_LIST, AUTH_LOGOUT } from './commands/auth.js';
import { CALL } from './commands/call.js';
import { COMPLETION } from './commands/completion.js';
import { CONFIG_CHECK } from './commands/config-check.js';
import { CONFIG_DIFF } from './commands/config-diff.js';
import { CONFIG_SCHEMA } from './commands/config-schema.js';
import { CONNECT } from './commands/connect.js';
import { IMPORT } from './commands/import.js';
import { KEYS_CREATE, KEYS_LIST, KEYS_REVOKE } from './commands/keys.js';
import { LINT } from './commands/lint.js';
import { LOGS } from './commands/logs.js';
import { PINS_APPROVE, PINS_DIFF, PINS_FORGET, PINS_LIST } from './commands/pins.js';
import { PLUGIN_CHECK, PLUGIN_NEW } from './commands/plugin.js';
import { POLICY_EXPLAIN } from './commands/policy-explain.js';
import { POLICY_TEST } from './commands/policy-test.js';
import { RECORD } from './commands/record.js';
import { REPLAY } from './commands/replay.js';
import { ROUTING_EXPLAIN, ROUTING_FORGET, ROUTING_STATS } from './commands/routing.js';
import { ROUTING_REPLAY } from './commands/routing-replay.js';
import { SEARCH } from './commands/search.js';
import { SEND } from './commands/send.js';
import { SERVE } from './commands/serve.js';
import { SERVERS } from './commands/servers.js';
import { STATUS } from './commands/status.js';
import { STDIO } from './commands/stdio.js';
import { TAIL } from './commands/tail.js';
import { TOOLS } from './commands/tools.js';
import { USERS_ADD, USERS_LIST, USERS_PASSWORD, USERS_REMOVE, USERS_ROTATE } from './commands/users.js';
import { VAULT_FORGET, VAULT_LIST, VAULT_ROTATE } from './commands/vault.js';

const VERSION: Flag = { name: 'version', short: 'V', description: 'Show the version.' };

export const TOP_FLAGS: readonly Flag[] = [HELP, VERSION];

/** Every command, in the order of the help. */
export const COMMANDS: readonly Command[] = [
  ...[SERVE, STDIO, CONFIG_CHECK, CONFIG_DIFF, CONFIG_SCHEMA, IMPORT, CONNECT],
  ...[STATUS, SERVERS, TOOLS, CALL, AGENTS, SEND, LOGS, TAIL, RECORD, REPLAY, SEARCH, LINT, ASSESS, COMPLETION],
  ...[KEYS_CREATE, KEYS_LIST, KEYS_REVOKE],
  ...[USERS_ADD, USERS_LIST, USERS_REMOVE, USERS_PASSWORD, USERS_ROTATE],
  ...[POLICY_TEST, POLICY_EXPLAIN],
  ...[PLUGIN_NEW, PLUGIN_CHECK],
  ...[PINS_LIST, PINS_DIFF, PINS_APPROVE, PINS_FORGET],
  ...[AUDIT_VERIFY, AUDIT_LIST, AUDIT_TAIL, AUDIT_EXPORT],
  ...[AUTH_DOCTOR, AUTH_LIST, AUTH_LOGOUT],
  ...[ROUTING_EXPLAIN, ROUTING_STATS, ROUTING_REPLAY, ROUTING_FORGET],
  ...[VAULT_LIST, VAULT_ROTATE, VAULT_FORGET],
];

/** The commands that a newcomer needs. */
const FIRST: readonly Command[] = [SERVE, IMPORT, CONNECT, CONFIG_CHECK, STATUS, TOOLS, CALL];

const INTRODUCTION = [
  'Parley is a gateway: it puts many MCP servers and A2A agents behind one endpoint, for clients of every version.',
  'Usage: parley <command> [options]',
];

/** The text for a command line that names no command. */
export function firstSteps(): string {
  return [
    ...INTRODUCTION,
    `To begin with:\n${columns(commandRows(FIRST))}`,
    'parley --help shows all commands.\nparley <command> --help describes a command.\n',
  ].join('\n\n');
}

/** The help of one command, or of the whole program. */
export function helpText(command?: Command): string {
  if (command === undefined) {
    return [
      ...INTRODUCTION,
      `Commands:\n${columns(commandRows(COMMANDS))}`,
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

const commandRows = (commands: readonly Command[]): [string, string][] =>
  commands.map((command) => [usageOf(command), command.summary]);

const usageOf = ({ name, operands = [], optional = [], rest: more }: Command): string => {
  const rest = optional.reduceRight((after, each) => `[${after === '' ? each : `${each} ${after}`}]`, '');
  return [name, ...operands, ...(rest === '' ? [] : [rest]), ...(more === undefined ? [] : [`[${more} ...]`])].join(
    ' ',
  );
};

function flagRow({ name, short, value, description }: Flag): [string, string] {
  const long = value === undefined ? `--${name}` : `--${name} ${value}`;
  return [short === undefined ? `    ${long}` : `-${short}, ${long}`, description];
}
