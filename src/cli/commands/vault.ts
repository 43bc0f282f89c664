import type { ShownSecret } from '../../app/commands/vault.js';
import { hasConfiguration, loadConfig } from '../../config/load.js';
import type { Config } from '../../config/schema.js';
import { columns } from '../../telemetry/terminal-style.js';
import { CONFIG, type Command, type CommandLine, type Flag, HELP, JSON_OUTPUT, UsageError } from '../command.js';

const CALLER: Flag = {
  name: 'caller',
  value: 'NAME',
  description: 'Only the credentials of this caller; gateway means those of the gateway itself.',
};
const UPSTREAM: Flag = {
  name: 'upstream',
  value: 'NAME',
  description: 'Only the credentials for this server or agent.',
};

export const VAULT_LIST: Command = {
  name: 'vault list',
  summary: 'List the credentials for servers and agents, with their states.',
  details:
    'Shows whose credential it is, for which server or agent, who issued it, and its state: active, expired,\n' +
    'needs_reauth (the user has to sign in again) or failed (with the reason). Tokens are never shown.',
  flags: [CONFIG, CALLER, UPSTREAM, JSON_OUTPUT, HELP],
  examples: ['parley vault list', 'parley vault list --upstream github --json'],
  run: async (line) => {
    const { io, text, given } = line;
    const { listSecrets } = await import('../../app/commands/vault.js');
    const rows = await listSecrets(configOf(line), { caller: text('caller'), upstream: text('upstream') });
    if (given('json')) io.stdout(`${JSON.stringify({ credentials: rows.map(asJson) }, null, 2)}\n`);
    else io.stdout(rows.length === 0 ? 'There are no credentials in the vault.\n' : `${columns(rows.map(asRow))}\n`);
    return 0;
  },
};

export const VAULT_ROTATE: Command = {
  name: 'vault rotate',
  summary: 'Encrypt all stored secrets under the first key of state.keys.',
  details:
    'Put a new key first in state.keys on every replica, keep the old keys after it, and restart. Replicas read secrets\n' +
    'under all of these keys. This command then encrypts all credentials, registered servers and agents, and the\n' +
    'records of the built-in authorization server under the new key; the gateways keep running. After that the old keys\n' +
    'can be removed. The exit code is 1 if a secret could not be read: then a key is missing.',
  flags: [CONFIG, JSON_OUTPUT, HELP],
  examples: ['parley vault rotate', 'parley vault rotate --config parley.yaml --json'],
  run: async (line) => {
    const { io, given } = line;
    const { rotateSecrets } = await import('../../app/commands/vault.js');
    const result = await rotateSecrets(configOf(line));
    const { keyId, rewritten, failed } = result;
    if (given('json')) io.stdout(`${JSON.stringify(result)}\n`);
    else io.stdout(`All secrets that can be read are under the key ${keyId}; ${rewritten} were rewritten.\n`);
    if (failed > 0)
      io.stderr(`${failed} secrets could not be read: add the keys they were encrypted under to state.keys.\n`);
    return failed > 0 ? 1 : 0;
  },
};

export const VAULT_FORGET: Command = {
  name: 'vault forget',
  summary: 'Remove credentials for servers and agents from the vault.',
  details:
    'Give an id of parley vault list, a caller, or a server or agent. Only credentials that match all given flags are\n' +
    'removed. Running gateways stop using the credentials within one second. The token stays valid at\n' +
    'its issuer until it expires.',
  flags: [
    CONFIG,
    {
      name: 'id',
      value: 'ID',
      description: 'The id of the credential, or the beginning of it (8 characters or more).',
    },
    CALLER,
    UPSTREAM,
    JSON_OUTPUT,
    HELP,
  ],
  examples: ['parley vault forget --caller ada --upstream github', 'parley vault forget --id 3f9c2b71'],
  run: async (line) => {
    const { io, text, given } = line;
    const [id, caller, upstream] = [text('id'), text('caller'), text('upstream')];
    if (id === undefined && caller === undefined && upstream === undefined)
      throw new UsageError('vault forget needs --id, --caller or --upstream', VAULT_FORGET);
    if (id !== undefined && id.length < 8) throw new UsageError('--id needs at least 8 characters', VAULT_FORGET);
    const { forgetSecrets } = await import('../../app/commands/vault.js');
    const rows = await forgetSecrets(configOf(line), { id, caller, upstream });
    if (given('json')) io.stdout(`${JSON.stringify({ forgotten: rows.map(asJson) }, null, 2)}\n`);
    else if (rows.length > 0) io.stdout(`Removed:\n${columns(rows.map(asRow))}\n`);
    if (rows.length > 0) return 0;
    io.stderr('No credential matches; parley vault list shows them.\n');
    return 1;
  },
};

function configOf({ io, text }: CommandLine): Config {
  const file = text('config');
  return loadConfig({ ...io, file: hasConfiguration({ ...io, file }) ? file : io.quickstart }).config;
}

const timeText = (at: number | undefined): string | undefined =>
  at === undefined ? undefined : new Date(at).toISOString();

function asRow(row: ShownSecret): [string, string] {
  const { id, upstream, caller, ofGateway, issuer, state, since, reason, expiresAt } = row;
  const ends = state === 'active' && expiresAt !== undefined ? `, expires ${timeText(expiresAt)}` : '';
  const why = reason === undefined ? '' : `: ${reason}`;
  const who = ofGateway ? 'the gateway' : caller;
  return [`${id.slice(0, 12)}  ${upstream}`, `${who} at ${issuer}, ${state} since ${timeText(since)}${why}${ends}`];
}

function asJson(row: ShownSecret): object {
  const { id, upstream, caller, ofGateway, issuer, resource, state, reason, keyId } = row;
  return {
    id,
    upstream,
    caller: ofGateway ? null : caller,
    issuer,
    resource,
    state,
    since: timeText(row.since),
    reason: reason ?? null,
    expiresAt: timeText(row.expiresAt) ?? null,
    retryAt: timeText(row.retryAt) ?? null,
    keyId,
    createdAt: timeText(row.createdAt),
    updatedAt: timeText(row.updatedAt),
  };
}
