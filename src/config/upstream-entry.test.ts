import { expect, test } from 'vitest';
import { configFrom } from './load.js';
import { readEntry, readRegistration } from './upstream-entry.js';

const configOf = (value: object = {}) => configFrom(value).config;
const URL = 'http://127.0.0.1:1/mcp';

test('S0-10: an entry registered at run time equals the same entry in a file', () => {
  const rest = { mcp: { invocation: false }, timeouts: { connect: '7s', call: '5m' }, naming: { separator: '-' } };
  const servers = { web: { url: URL, timeouts: { callMax: '1m' } }, files: { command: 'x', tools: { deny: ['a'] } } };
  const whole = configOf({ ...rest, servers });
  for (const [name, settings] of Object.entries(servers)) {
    const entry = readEntry('servers', name, settings, { config: configOf(rest), env: {} });
    expect(entry).toEqual({ name, settings: whole.servers[name], warnings: [] });
  }
  const agents = { Planner: { url: URL, headers: { 'X-Key': 'v' } } };
  const { settings } = readEntry('agents', 'Planner', agents.Planner, { config: configOf(rest), env: {} });
  expect(settings).toEqual(configOf({ ...rest, agents }).agents['planner']);
});

test('a command has the longer default of timeouts.connect, unless the configuration sets that key', () => {
  const connect = (rest: object) =>
    readEntry('servers', 'a', { command: 'x' }, { config: configOf(rest), env: {} }).settings.timeouts.connect;
  expect([connect({}), connect({ timeouts: { connect: '5s' } })]).toEqual([60_000, 5_000]);
});

test.each([
  ['servers', 'a', {}, 'has neither url nor command'],
  ['servers', 'a', { url: 'ftp://x' }, 'url'],
  ['servers', 'a', { url: URL, headerz: {} }, 'is not a known key'],
  ['servers', '?', { url: URL }, 'cannot be the name of a server'],
  ['servers', 'sse', { url: URL }, 'is taken'],
  ['servers', 'connect', { url: URL }, '/connect/mcp is an endpoint'],
  ['servers', 'planner', { url: URL }, 'is also the name of an agent'],
  ['agents', 'files', { url: URL }, 'is also the name of a server'],
  ['agents', '__proto__', { url: 'nowhere' }, 'url'],
  ['servers', 'a', { url: '$' + '{TOKEN_OF_NOBODY}' }, 'TOKEN_OF_NOBODY is not set'],
] as const)('%s.%s: %o is refused: %s', (section, name, value, message) => {
  const config = configOf({ servers: { files: { command: 'x' } }, agents: { planner: { url: URL } } });
  expect(() => readEntry(section, name, value, { config, env: {} })).toThrow(message);
});

test('a problem does not show secrets from environment variables', () => {
  const env = { API_KEY: 'sk-very-secret-value' };
  const read = () => readEntry('servers', 'a', { url: '$' + '{API_KEY}' }, { config: configOf(), env });
  expect(read).toThrow('url');
  expect(read).not.toThrow('sk-very-secret-value');
});

test('an entry without settings is refused, and the message asks for them', () => {
  const read = () => readEntry('servers', 'a', null as never, { config: configOf(), env: {} });
  expect(read).toThrow(/has no value|has no settings/);
});

test.each(['servers', 'agents'] as const)('%s: a registration with a token exchange is refused', (section) => {
  const read = (auth: unknown) => () => readRegistration(section, 'Files', { url: URL, auth }, { config: configOf() });
  const client = { clientId: 'a', clientSecret: 'b', tokenUrl: 'https://issuer.example/token' };
  const place = `${section}.files.auth.tokenExchange`;
  expect(read({ tokenExchange: client })).toThrow(place);
  expect(read({ tokenExchange: client })).toThrow('is not allowed in a registration: it sends tokens of callers');
  expect(read({ tokenExchange: { clientId: 'a' } })).toThrow(place);
  expect(read({ clientCredentials: client })).not.toThrow();
  // The same settings are accepted from the configuration file, which the operator writes.
  const { settings } = readEntry(
    section,
    'Files',
    { url: URL, auth: { tokenExchange: client } },
    { config: configOf(), env: {} },
  );
  expect(settings.auth.tokenExchange).toMatchObject(client);
});

test.each([
  ['servers', { openapi: 'https:/host/../../../../../../etc/hostname' }],
  ['servers', { openapi: 'http:etc/hostname' }],
  ['agents', { url: URL, keys: 'https:/host/../../../../../../etc/hostname' }],
] as const)('S1: a registration in %s cannot name a file as if it were a URL: %o', (section, value) => {
  expect(() => readRegistration(section, 'a', value, { config: configOf() })).toThrow('cannot name files');
});
