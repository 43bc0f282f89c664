import type { ApiKey } from '../../app/commands/api-keys.js';
import { hasConfiguration, loadConfig } from '../../config/load.js';
import type { Config } from '../../config/schema.js';
import { columns } from '../../telemetry/terminal-style.js';
import { type CliEnvironment, CONFIG, type Command, type CommandLine, HELP, JSON_OUTPUT } from '../command.js';

const DEFAULT_EXPIRY = '90d';

export const KEYS_CREATE: Command = {
  name: 'keys create',
  operands: ['NAME'],
  summary: 'Make an API key for a caller and print it once.',
  details:
    'The key is printed once; the database stores only a keyed hash of the key. NAME is the caller in logs, and owns the\n' +
    'sessions and tasks. Two keys of the same name and scope are valid together, so a new key can replace an old key\n' +
    'without a gap. Without --servers and --tools the caller may use everything. Running gateways accept the key at once\n' +
    'if auth.keys is true.',
  flags: [
    CONFIG,
    { name: 'servers', value: 'NAMES', description: 'Servers and agents, separated by commas; * is a wildcard.' },
    { name: 'tools', value: 'NAMES', description: 'Tools as SERVER__TOOL, separated by commas; * is a wildcard.' },
    { name: 'roles', value: 'NAMES', description: 'Roles of the caller, separated by commas, such as admin.' },
    { name: 'tenant', value: 'NAME', description: 'The tenant of the caller. Tenants share no state.' },
    {
      name: 'expires',
      value: 'TIME',
      description: `When the key expires: 12h, 90d, 2027-01-31 or never. Default: ${DEFAULT_EXPIRY}.`,
    },
    JSON_OUTPUT,
    HELP,
  ],
  examples: ['parley keys create ci --tools "github__*" --expires 30d', 'parley keys create ops --roles admin --json'],
  run: async (line) => {
    const { io, operands, text, given } = line;
    const [name = ''] = operands;
    const { createApiKey } = await import('../../app/commands/api-keys.js');
    const config = configOf(line);
    const created = await createApiKey(config, {
      name,
      roles: listed(text('roles')),
      servers: listed(text('servers')),
      tools: listed(text('tools')),
      tenant: text('tenant'),
      expires: text('expires') ?? DEFAULT_EXPIRY,
    });
    const { key, ...about } = created;
    if (!config.auth.keys) io.stderr('Gateways refuse API keys until the configuration has auth: { keys: true }.\n');
    if (given('json')) print(io, { key, ...shown(about) });
    else
      io.stdout(
        `${key}\n\nKey ${about.id} of ${name}, expires ${timeText(about.expiresAt, 'never')}. It is not shown again.\n`,
      );
    return 0;
  },
};

export const KEYS_LIST: Command = {
  name: 'keys list',
  summary: 'List the API keys with their scopes and their last use.',
  details:
    'Shows every key in the database of the configuration, newest first, without the keys themselves. The last use is\n' +
    'accurate to a minute.',
  flags: [CONFIG, { name: 'name', value: 'NAME', description: 'Only the keys of this caller.' }, JSON_OUTPUT, HELP],
  examples: ['parley keys list', 'parley keys list --name ci --json'],
  run: async (line) => {
    const { io, text, given } = line;
    const { listApiKeys } = await import('../../app/commands/api-keys.js');
    const keys = await listApiKeys(configOf(line), text('name'));
    if (given('json')) print(io, { keys: keys.map(shown) });
    else io.stdout(keys.length === 0 ? 'There are no API keys.\n' : `${columns(keys.map(rowOf))}\n`);
    return 0;
  },
};

export const KEYS_REVOKE: Command = {
  name: 'keys revoke',
  operands: ['KEY'],
  summary: 'Revoke an API key, or all keys of a caller.',
  details:
    'KEY is the id of a key, as parley keys list shows it, or the name of a caller. Every running gateway refuses the\n' +
    'key within one second and ends the streams that were opened with it.',
  flags: [CONFIG, JSON_OUTPUT, HELP],
  examples: ['parley keys revoke 5f0c6b1d2e3a4f58', 'parley keys revoke ci'],
  run: async (line) => {
    const { io, operands, given } = line;
    const [which = ''] = operands;
    const { revokeApiKeys } = await import('../../app/commands/api-keys.js');
    const revoked = await revokeApiKeys(configOf(line), which);
    if (given('json')) print(io, { revoked });
    else if (revoked.length === 0) io.stdout(`${which} is revoked already.\n`);
    else io.stdout(`Revoked ${revoked.join(', ')}.\n`);
    return 0;
  },
};

function configOf({ io, text }: CommandLine): Config {
  const file = hasConfiguration({ ...io, file: text('config') }) ? text('config') : io.quickstart;
  return loadConfig({ ...io, file }).config;
}

const print = (io: CliEnvironment, value: object): void => io.stdout(`${JSON.stringify(value, null, 2)}\n`);

const listed = (text: string | undefined): string[] =>
  (text ?? '')
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');

const timeText = (at: number | undefined, otherwise: string): string =>
  at === undefined ? otherwise : new Date(at).toISOString();

/** A key in the JSON output, with times in ISO 8601. */
function shown({ createdAt, expiresAt, lastUsedAt, revokedAt, ...key }: ApiKey): object {
  const time = (at: number | undefined): string | null => (at === undefined ? null : new Date(at).toISOString());
  return {
    ...key,
    tenant: key.tenant ?? null,
    createdAt: time(createdAt),
    expiresAt: time(expiresAt),
    lastUsedAt: time(lastUsedAt),
    revokedAt: time(revokedAt),
  };
}

function rowOf(key: ApiKey): [string, string] {
  const { id, name, tenant, roles, servers, tools, expiresAt, lastUsedAt, revokedAt } = key;
  const scope = [
    ...(tenant === undefined ? [] : [`tenant ${tenant}`]),
    ...(roles.length > 0 ? [`roles ${roles.join(' ')}`] : []),
    ...(servers.length > 0 ? [`servers ${servers.join(' ')}`] : []),
    ...(tools.length > 0 ? [`tools ${tools.join(' ')}`] : []),
    revokedAt === undefined ? `expires ${timeText(expiresAt, 'never')}` : `revoked ${timeText(revokedAt, '')}`,
    `last used ${timeText(lastUsedAt, 'never')}`,
  ];
  return [`${id}  ${name}`, scope.join(', ')];
}
