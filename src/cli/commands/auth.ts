import { hasConfiguration, loadConfig } from '../../config/load.js';
import type { Config } from '../../config/schema.js';
import { createLog } from '../../telemetry/log-output.js';
import { columns, oneLine } from '../../telemetry/terminal-style.js';
import { CONFIG, type Command, type CommandLine, HELP, JSON_OUTPUT } from '../command.js';

const USER = { name: 'user', value: 'NAME', description: 'Only this user of the gateway. Default: all users.' };

function configOf({ io, text }: CommandLine): Config {
  const file = hasConfiguration({ ...io, file: text('config') }) ? text('config') : io.quickstart;
  return loadConfig({ ...io, file }).config;
}

const quiet = () => createLog({ level: 'silent', format: 'text' });

const SIGNS = { ok: 'ok     ', warning: 'warning', problem: 'PROBLEM' } as const;

export const AUTH_DOCTOR: Command = {
  name: 'auth doctor',
  operands: ['SERVER'],
  summary: 'Find out why users cannot sign in at a server or agent.',
  details:
    'Repeats the steps by which the gateway finds the authorization server: the refusal without a token, the metadata of\n' +
    'the resource and of the authorization server, PKCE, registration, authentication at the token endpoint. Shows each\n' +
    'step, and for a failed step the settings to change. Sends no secret. The exit code is 1 if there is a problem.',
  flags: [CONFIG, JSON_OUTPUT, HELP],
  examples: ['parley auth doctor github', 'parley auth doctor github --json'],
  run: async (line) => {
    const { io, operands, given } = line;
    const [name = ''] = operands;
    const { diagnoseUpstream } = await import('../../app/commands/upstream-accounts.js');
    const found = await diagnoseUpstream(configOf(line), name);
    if (given('json')) io.stdout(`${JSON.stringify({ server: name, ...found }, null, 2)}\n`);
    else {
      const lines = found.hops.map(({ hop, state, found: text, advice }) =>
        [`${SIGNS[state]}  ${hop}: ${text}`, ...(advice === undefined ? [] : [`         ${advice}`])]
          .map(oneLine)
          .join('\n'),
      );
      const quirks =
        found.quirks.length === 0 ? '' : `\nTo set: auth: { oauth: { quirks: [${found.quirks.join(', ')}] } }\n`;
      io.stdout(`${found.url}\n\n${lines.join('\n')}\n${quirks}`);
    }
    return found.ok ? 0 : 1;
  },
};

export const AUTH_LIST: Command = {
  name: 'auth list',
  summary: 'List the users who signed in at servers and agents.',
  details:
    'Shows each user with the server, the issuer and the state of the sign-in, without tokens. needs_reauth means that\n' +
    'the user has to sign in again; the next call of the user gives the link.',
  flags: [CONFIG, JSON_OUTPUT, HELP],
  examples: ['parley auth list', 'parley auth list --json'],
  run: async (line) => {
    const { io, given } = line;
    const { listAccounts } = await import('../../app/commands/upstream-accounts.js');
    const accounts = await listAccounts(configOf(line), quiet(), undefined);
    if (given('json')) io.stdout(`${JSON.stringify({ accounts }, null, 2)}\n`);
    else if (accounts.length === 0) io.stdout('Nobody has signed in at a server or agent.\n');
    else
      io.stdout(
        `${columns(
          accounts.map(({ user, upstream, issuer, state, reason }): [string, string] => [
            `${user}  ${upstream}`,
            `${state}${reason === undefined ? '' : ` (${reason})`}, ${issuer}`,
          ]),
        )}\n`,
      );
    return 0;
  },
};

export const AUTH_LOGOUT: Command = {
  name: 'auth logout',
  operands: ['SERVER'],
  summary: 'Forget the tokens of users at a server or agent.',
  details:
    'Removes the tokens from the database. Running gateways stop using them within a second, and ask the users to sign\n' +
    'in again. The authorization server is not told; end the session there too if a token is in the wrong hands.',
  flags: [CONFIG, USER, JSON_OUTPUT, HELP],
  examples: ['parley auth logout github --user ada', 'parley auth logout github --json'],
  run: async (line) => {
    const { io, operands, text, given } = line;
    const [name = ''] = operands;
    const { logOut } = await import('../../app/commands/upstream-accounts.js');
    const users = await logOut(configOf(line), quiet(), name, text('user'));
    if (given('json')) io.stdout(`${JSON.stringify({ server: name, users })}\n`);
    else io.stdout(users.length === 0 ? 'Nobody was signed in.\n' : `Signed out: ${users.join(', ')}\n`);
    return 0;
  },
};
