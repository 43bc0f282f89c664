import { expect, test } from 'vitest';
import { configFrom } from './load.js';
import { ConfigError } from './problem.js';
import { readEntry, readRegistration } from './upstream-entry.js';
import { maskEntry, urlsOf } from './written-settings.js';

const at = (port: number): string => `http://127.0.0.1:${port}/mcp`;

function problemsOf(server: object): string[] {
  try {
    return configFrom({ servers: { pool: server } }).warnings.map(({ key, message }) => `${key}: ${message}`);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return error.problems.map(({ key, message }) => `${key}: ${message}`);
  }
}

test('without url, the first of the replicas is the url', () => {
  const { config } = configFrom({ servers: { pool: { replicas: [at(1), at(2)] } } });
  expect(config.servers['pool']).toMatchObject({ url: at(1), replicas: [at(2)] });
  expect(config.routing).toMatchObject({ objective: 1_000, recordChoices: true });
});

test('replicas beside url, with an objective of their own', () => {
  const { config } = configFrom({ servers: { pool: { url: at(1), replicas: [at(2), at(3)], objective: '200ms' } } });
  expect(config.servers['pool']).toMatchObject({ url: at(1), replicas: [at(2), at(3)], objective: 200 });
});

test.each([
  [{ url: at(1), replicas: [at(2), at(1)] }, `"${at(1)}" is there twice`],
  [{ replicas: Array.from({ length: 70 }, (_, port) => at(port + 1)) }, 'has 69 URLs; 63 besides url are the most'],
  [{ url: at(1), replicas: ['ftp://x'] }, 'has the scheme ftp:'],
  [{ command: 'x', replicas: [at(1)] }, 'has no effect on a server with a command'],
  [
    { url: at(1), replicas: [at(2)], auth: { oauth: { registration: 'auto' } } },
    'is another origin than that of url, and tokens of users go only to the origin where they signed in',
  ],
])('%j is a problem', (server, problem) => {
  expect(problemsOf(server).join('\n')).toContain(problem);
});

test('users may sign in at replicas of one origin', () => {
  const server = { url: at(1), replicas: [`${at(1)}/b`], auth: { oauth: { registration: 'auto' } } };
  expect(problemsOf(server)).toEqual([]);
});

test('a registration is checked by every one of its URLs', () => {
  const { config } = configFrom({});
  const written = { url: at(1), replicas: ['http://user:secret@127.0.0.1:2/mcp'] };
  const { urls } = readRegistration('servers', 'pool', written, { config });
  expect(urls.map(({ key }) => key)).toEqual(['servers.pool.url', 'servers.pool.replicas[0]']);
  // Stored secrets are dropped if any of the URLs changes.
  expect(urlsOf('servers', written)).not.toEqual(urlsOf('servers', { ...written, replicas: [at(3)] }));
  expect(JSON.stringify(maskEntry('servers', written))).not.toContain('secret');
  expect(readEntry('servers', 'pool', { replicas: [at(5)] }, { config, env: {} }).settings.url).toBe(at(5));
});
