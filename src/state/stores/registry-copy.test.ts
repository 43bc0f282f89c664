import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { type Cluster, ENGINES, QUICK, startCluster } from '../../../test/support/state-engines.js';
import { Envelope } from '../envelope-encryption.js';
import { RegistryCopy, type State } from '../index.js';

describe.each(ENGINES)('a copy of the registry on %s', (engine) => {
  let cluster: Cluster;
  let a: State;
  beforeAll(async () => {
    cluster = await startCluster(engine, QUICK);
    a = await cluster.open();
  }, 120_000);
  beforeEach(() => cluster.clear());
  afterAll(() => cluster.stop());

  test('reads the entries that changed, and notices those that were removed', async () => {
    const b = await cluster.open();
    const copy = new RegistryCopy(b.registry, 'server');
    const values = async (): Promise<unknown> =>
      Object.fromEntries([...(await copy.update())].map(([name, { value }]) => [name, value]));
    expect(await values()).toEqual({});
    for (const name of ['two', 'one', 'three']) await a.registry.put('server', name, { name });
    await a.registry.put('agent', 'other', {});
    expect([...(await copy.update()).keys()]).toEqual(['one', 'three', 'two']);

    const opened = vi.spyOn(Envelope.prototype, 'open');
    try {
      await a.registry.put('server', 'two', { changed: true });
      expect(await values()).toEqual({ one: { name: 'one' }, two: { changed: true }, three: { name: 'three' } });
      expect(opened).toHaveBeenCalledTimes(1);
      await a.registry.remove('server', 'one');
      await a.registry.put('server', 'four', {});
      expect(await values()).toEqual({ two: { changed: true }, three: { name: 'three' }, four: {} });
      await a.registry.remove('server', 'two');
      await a.registry.put('server', 'two', { again: true });
      expect(await values()).toEqual({ two: { again: true }, three: { name: 'three' }, four: {} });
      expect(opened).toHaveBeenCalledTimes(3);
    } finally {
      opened.mockRestore();
    }
  });

  test('leaves out an entry while the entry cannot be read', async () => {
    await a.registry.put('server', 'files', { good: true });
    await a.registry.put('server', 'other', {});
    const copy = new RegistryCopy(a.registry, 'server');
    expect((await copy.update()).size).toBe(2);
    const [row] = await a.db.q<{ json: string }>(`SELECT json FROM registry WHERE name = 'files'`);
    await a.registry.put('server', 'files', { good: false });
    await a.db.q(`UPDATE registry SET json = 'parley-envelope-1.broken' WHERE name = 'files'`);
    expect([...(await copy.update()).keys()]).toEqual(['other']);
    // The same value with the same revision, as a rotation of keys writes it.
    await a.db.q(`UPDATE registry SET json = $1 WHERE name = 'files'`, [row!.json]);
    expect((await copy.update()).get('files')?.value).toEqual({ good: true });
  });

  test('reads all entries of a database that was restored to an older state', async () => {
    const one = await a.registry.put('server', 'files', { old: true });
    const [row] = await a.db.q<{ json: string }>('SELECT json FROM registry');
    await a.registry.put('server', 'files', { old: false });
    const copy = new RegistryCopy(a.registry, 'server');
    expect((await copy.update()).get('files')?.value).toEqual({ old: false });
    await a.db.q('UPDATE registry SET json = $1, rev = $2', [row!.json, one!]);
    await a.db.q(`UPDATE meta SET value = $1 WHERE key = 'registry'`, [one!]);
    expect((await copy.update()).get('files')?.value).toEqual({ old: true });
  });
});
