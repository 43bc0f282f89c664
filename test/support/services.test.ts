/** Servers that fault tests kill write their data to disk as in production. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { expect, test } from 'vitest';
import { startPostgres } from './services.js';

const TESTS = fileURLToPath(new URL('..', import.meta.url));

test('PostgreSQL waits for the disk by default', async () => {
  const postgres = await startPostgres();
  try {
    const client = new pg.Client({ connectionString: await postgres.createDatabase() });
    await client.connect();
    const shown = async (name: string): Promise<unknown> => (await client.query(`SHOW ${name}`)).rows[0][name];
    expect(await shown('fsync')).toBe('on');
    expect(await shown('synchronous_commit')).toBe('on');
    expect(await shown('full_page_writes')).toBe('on');
    await client.end();
  } finally {
    await postgres.stop();
  }
});

test.each(['faults', 'cluster'])('no test under test/%s switches this off', (folder) => {
  const files = readdirSync(join(TESTS, folder), { recursive: true, encoding: 'utf8' });
  const sources = files.filter((name) => /\.(?:ts|mjs)$/.test(name));
  expect(sources.length).toBeGreaterThan(3);
  for (const name of sources)
    expect(readFileSync(join(TESTS, folder, name), 'utf8'), name).not.toMatch(/fsync|synchronous_commit|\bQUICK\b/);
});
