/** The commands for the users of the built-in authorization server. */
import { loadConfig } from '../../config/load.js';
import type { Config } from '../../config/schema.js';
import { SILENT } from '../../telemetry/log.js';
import { columns } from '../../telemetry/terminal-style.js';
import { type CliEnvironment, CONFIG, type Command, type CommandLine, HELP, JSON_OUTPUT } from '../command.js';
import { readPassword } from '../password-input.js';

const configOf = ({ io, text }: CommandLine): Config => loadConfig({ ...io, file: text('config') }).config;

/** Loaded on demand, so that help starts fast. */
const app = () => import('../../app/commands/users.js');

function report(io: CliEnvironment, json: boolean, value: object, sentence: string): number {
  io.stdout(json ? `${JSON.stringify(value, null, 2)}\n` : `${sentence}\n`);
  return 0;
}

const listOf = (given: string | undefined): string[] =>
  (given ?? '')
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');

export const USERS_ADD: Command = {
  name: 'users add',
  operands: ['NAME'],
  summary: 'Add a user who signs in with a password.',
  details:
    'Adds a user of the built-in authorization server (auth.builtin). The password is typed at the terminal, or is the\n' +
    'first line of stdin; it is never an argument. A running gateway knows the user at once.',
  flags: [
    CONFIG,
    {
      name: 'roles',
      value: 'ROLES',
      description: 'Roles, separated by commas. admin may use the administrative routes.',
    },
    { name: 'tenant', value: 'TENANT', description: 'The tenant of the user.' },
    JSON_OUTPUT,
    HELP,
  ],
  examples: ['parley users add ada', 'parley users add ops --roles admin,auditor --tenant acme'],
  run: async (line) => {
    const { io, operands, text, given } = line;
    const [name = ''] = operands;
    const config = configOf(line);
    const password = await readPassword();
    const roles = listOf(text('roles'));
    const tenant = text('tenant');
    await (await app()).withUsers(config, SILENT, (users) => users.add({ name, password, roles, tenant }));
    return report(io, given('json'), { user: name.trim().toLowerCase(), roles, tenant }, `added the user ${name}`);
  },
};

export const USERS_LIST: Command = {
  name: 'users list',
  summary: 'Show the users of the built-in authorization server.',
  details:
    'Shows local users and users of another OpenID provider who have signed in, with their roles, their tenant and the\n' +
    'time of their last sign-in.',
  flags: [CONFIG, JSON_OUTPUT, HELP],
  examples: ['parley users list', 'parley users list --json'],
  run: async (line) => {
    const { io, given } = line;
    const found = await (await app()).withUsers(configOf(line), SILENT, (users) => users.list());
    const users = found.map(({ id, name, issuer, roles, tenant, createdAt, signedInAt }) => ({
      id,
      name,
      issuer,
      roles,
      tenant,
      createdAt: new Date(createdAt).toISOString(),
      signedInAt: signedInAt === undefined ? undefined : new Date(signedInAt).toISOString(),
    }));
    if (given('json')) io.stdout(`${JSON.stringify({ users }, null, 2)}\n`);
    else if (users.length === 0) io.stdout('There are no users. "parley users add NAME" adds one.\n');
    else {
      const rows = users.map(({ id, name, roles, tenant, signedInAt }): [string, string] => [
        id,
        [
          ...(name === id ? [] : [name]),
          roles.length > 0 ? `roles ${roles.join(', ')}` : 'no roles',
          ...(tenant === undefined ? [] : [`tenant ${tenant}`]),
          signedInAt === undefined ? 'has never signed in' : `signed in ${signedInAt}`,
        ].join(' · '),
      ]);
      io.stdout(`${columns(rows)}\n`);
    }
    return 0;
  },
};

export const USERS_REMOVE: Command = {
  name: 'users remove',
  operands: ['NAME'],
  summary: 'Remove a user and end all access that the user has given.',
  details:
    'Removes a user. Sessions, grants and refresh tokens end at once, and every running gateway refuses access tokens of\n' +
    'the user within a second. The accounts of the user at servers and agents, and its tasks, are forgotten. A user of\n' +
    'another OpenID provider can sign in again through that provider.',
  flags: [CONFIG, JSON_OUTPUT, HELP],
  examples: ['parley users remove ada', 'parley users remove https://idp.example#0042'],
  run: async (line) => {
    const { io, operands, given } = line;
    const [name = ''] = operands;
    await (await app()).withUsers(configOf(line), SILENT, (users) => users.remove(name));
    return report(io, given('json'), { removed: name }, `removed the user ${name}`);
  },
};

export const USERS_PASSWORD: Command = {
  name: 'users password',
  operands: ['NAME'],
  summary: 'Change the password of a user and sign the user out everywhere.',
  details:
    'Changes the password of a local user. The password is typed at the terminal, or is the first line of stdin. All\n' +
    'sessions and tokens of the user end within a second, because somebody else may hold them.',
  flags: [CONFIG, JSON_OUTPUT, HELP],
  examples: ['parley users password ada'],
  run: async (line) => {
    const { io, operands, given } = line;
    const [name = ''] = operands;
    const config = configOf(line);
    const password = await readPassword();
    await (await app()).withUsers(config, SILENT, (users) => users.setPassword(name, password));
    return report(io, given('json'), { changed: name }, `changed the password of ${name}`);
  },
};

export const USERS_ROTATE: Command = {
  name: 'users rotate-key',
  summary: 'Make a new key that signs access tokens.',
  details:
    'Makes a new signing key for the built-in authorization server. Every running gateway uses it within seconds. Tokens\n' +
    'of the old key stay valid until they expire.',
  flags: [CONFIG, JSON_OUTPUT, HELP],
  examples: ['parley users rotate-key'],
  run: async (line) => {
    const { io, given } = line;
    const kid = await (await app()).rotateSigningKey(configOf(line), SILENT);
    return report(io, given('json'), { kid }, `the new signing key is ${kid}`);
  },
};
