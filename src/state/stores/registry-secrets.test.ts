import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Cluster, ENGINES, QUICK, startCluster } from '../../../test/support/state-engines.js';
import type { State } from '../index.js';

const SETTINGS = {
  settings: { url: 'https://x.example', headers: { 'X-Key': 'canary-header' }, env: { TOKEN: 'canary-env' } },
};

describe.each(ENGINES)('secrets of registered servers on %s', (engine) => {
  let cluster: Cluster;
  let a: State;
  beforeAll(async () => {
    cluster = await startCluster(engine, QUICK);
    a = await cluster.open();
  }, 120_000);
  beforeEach(() => cluster.clear());
  afterAll(() => cluster.stop());

  const texts = async (): Promise<string[]> =>
    (await a.db.q<{ json: string }>('SELECT json FROM registry ORDER BY name')).map(({ json }) => json);

  test('S18: the database contains none of them, and an entry copied to another name cannot be read', async () => {
    await a.registry.put('server', 'files', SETTINGS);
    await a.registry.put('server', 'other', { settings: {} });
    expect(await texts()).toEqual([expect.not.stringContaining('canary'), expect.not.stringContaining('settings')]);
    expect((await a.registry.get('server', 'files'))?.value).toEqual(SETTINGS);
    const [copied] = await texts();
    await a.db.q('UPDATE registry SET json = $1 WHERE name = $2', [copied!, 'other']);
    await expect(a.registry.get('server', 'other')).rejects.toThrow('belongs to another row');
    // The other entries stay in use.
    expect((await a.registry.list()).map(({ name }) => name)).toEqual(['files']);
  });

  test('plain rows of an earlier version are read and written again, encrypted, under the same version', async () => {
    const rev = await a.registry.put('server', 'files', {});
    await a.db.q('UPDATE registry SET json = $1', [JSON.stringify(SETTINGS)]);
    expect(await a.registry.list('server')).toMatchObject([{ name: 'files', value: SETTINGS, rev }]);
    await expect.poll(texts).toEqual([expect.stringMatching(/^parley-envelope-1\./)]);
    expect(await a.registry.get('server', 'files')).toMatchObject({ value: SETTINGS, rev });
    expect(await a.registry.version()).toBe(rev);
  });

  test('rotate writes every row under the first key', async () => {
    const key = (id: string): { id: string; key: string } => ({ id, key: randomBytes(32).toString('base64') });
    const [k1, k2] = [key('one'), key('two')];
    const before = await cluster.open({ keys: [k1] });
    await before.registry.put('server', 'files', SETTINGS);
    const after = await cluster.open({ keys: [k2, k1] });
    expect(await after.registry.rotate()).toEqual({ rewritten: 1, failed: 0 });
    expect(await after.registry.rotate()).toEqual({ rewritten: 0, failed: 0 });
    const without = await cluster.open({ keys: [k2] });
    expect((await without.registry.get('server', 'files'))?.value).toEqual(SETTINGS);
  });
});
