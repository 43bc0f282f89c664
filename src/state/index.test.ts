import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { freePort } from '../../test/support/services.js';
import { openState } from './index.js';

let data: string;
beforeEach(() => {
  data = mkdtempSync(join(tmpdir(), 'parley-open-'));
});
afterEach(() => rmSync(data, { recursive: true, force: true }));

const keys = [{ id: 'a', key: Buffer.alloc(32, 1).toString('base64') }];

test('the default state needs only a folder', async () => {
  const state = await openState({ data: join(data, 'new') });
  expect(readdirSync(join(data, 'new')).filter((name) => !name.includes('-'))).toEqual(['keyring.json', 'parley.db']);
  expect(await state.health()).toMatchObject({ ok: true });
  await state.close();
  await state.close();
  expect(await state.health()).toMatchObject({ ok: false });
});

/** The child process runs the sources, not a build that may be outdated. */
const LOADER = new URL('../../test/support/ts.mjs', import.meta.url).href;

test('the embedded gateway loads neither the PostgreSQL nor the Redis driver', async () => {
  const program = `import { Module } from 'node:module';
    const { openState } = await import(process.argv[1]);
    await (await openState({ data: process.argv[2] })).close();
    console.log(Object.keys(Module._cache).filter((file) => /node_modules.(?:pg|ioredis)./.test(file)).length)`;
  const module = new URL('./index.ts', import.meta.url).href;
  const args = ['--import', LOADER, '--input-type=module', '-e', program, module, data];
  const out = spawnSync(process.execPath, args, { encoding: 'utf8' });
  expect(out.status, out.stderr).toBe(0);
  expect(out.stdout.trim()).toBe('0');
});

test.each([
  ['a database that is not PostgreSQL', { db: 'mysql://x', keys }, 'postgres://'],
  ['a bus that is not Redis', { db: 'postgres://x', bus: 'nats://x', keys }, 'redis://'],
  ['a bus without a shared database', { bus: 'redis://x', keys }, 'state.db'],
  ['replicas without common keys', { db: 'postgres://x' }, 'openssl rand -base64 32'],
])('%s is refused, and the message says what to change', async (_, options, hint) => {
  await expect(openState({ data, ...options })).rejects.toMatchObject({
    code: 'config',
    message: expect.stringContaining(hint),
  });
});

test('an unreachable database is an error in bounded time', async () => {
  const db = `postgres://parley@127.0.0.1:${await freePort()}/x`;
  await expect(openState({ data, db, keys })).rejects.toMatchObject({ code: 'unavailable' });
});
