import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Cluster, ENGINES, QUICK, startCluster } from '../../../test/support/state-engines.js';
import type { State } from '../index.js';

const KEY = { issuer: 'https://as.example', upstream: 'server:notes', redirectUri: 'https://gw.example/callback' };

describe.each(ENGINES)('sign-ins at upstreams on %s', (engine) => {
  let cluster: Cluster;
  let a: State;
  let b: State;
  beforeAll(async () => {
    cluster = await startCluster(engine, QUICK);
    [a, b] = await Promise.all([cluster.open(), cluster.open()]);
  }, 120_000);
  beforeEach(() => cluster.clear());
  afterAll(() => cluster.stop());

  test('S5: a sign-in that began at replica A can be taken once at any replica', async () => {
    await a.upstreamLogins.put('state-1', 'ada', { verifier: 'canary' }, 60_000);
    const taken = await Promise.all(
      Array.from({ length: 10 }, (_, i) => (i % 2 ? a : b).upstreamLogins.take('state-1')),
    );
    expect(taken.filter((each) => each !== undefined)).toEqual([{ verifier: 'canary' }]);
  });

  test('S5: an expired sign-in cannot be taken, and the sweeper removes it', async () => {
    await a.upstreamLogins.put('old', 'ada', {}, -1);
    await a.upstreamLogins.put('older', 'ada', {}, -1);
    expect(await b.upstreamLogins.take('old')).toBeUndefined();
    expect(await b.upstreamLogins.sweep()).toBe(1);
  });

  test('a caller has a bounded number of sign-ins; the sign-ins of other callers stay', async () => {
    await a.upstreamLogins.put('of-ben', 'ben', { n: -1 }, 50_000);
    for (let n = 0; n < 25; n++) await a.upstreamLogins.put(`s${n}`, 'ada', { n }, 60_000 + n);
    expect(await a.upstreamLogins.take('s0')).toBeUndefined();
    expect(await a.upstreamLogins.take('s24')).toEqual({ n: 24 });
    expect(await a.upstreamLogins.take('of-ben')).toEqual({ n: -1 });
  });

  test('of two replicas that register the gateway, one wins; the client is used at its issuer only', async () => {
    const [first, second] = await Promise.all([
      a.upstreamClients.add(KEY, { client: 'of-a' }),
      b.upstreamClients.add(KEY, { client: 'of-b' }),
    ]);
    expect(first).toEqual(second);
    expect(await b.upstreamClients.get({ ...KEY, issuer: 'https://evil.example' })).toBeUndefined();
    await a.upstreamClients.remove(KEY);
    expect(await b.upstreamClients.get(KEY)).toBeUndefined();
  });

  test('S18: the database contains no secret, and a row copied to another id cannot be read', async () => {
    await a.upstreamClients.add(KEY, { secret: 'canary' });
    const other = { ...KEY, upstream: 'server:other' };
    await a.upstreamClients.add(other, { secret: 'other' });
    await a.upstreamLogins.put('state', 'ada', { verifier: 'canary' }, 60_000);
    for (const table of ['upstream_clients', 'upstream_logins'])
      expect(JSON.stringify(await a.db.q(`SELECT * FROM ${table}`))).not.toContain('canary');
    await a.db.q(
      `UPDATE upstream_clients SET secret = (SELECT secret FROM upstream_clients WHERE upstream = $1) WHERE upstream = $2`,
      [KEY.upstream, other.upstream],
    );
    await expect(a.upstreamClients.get(other)).rejects.toThrow();
    expect(await a.upstreamClients.get(KEY)).toEqual({ secret: 'canary' });
  });
});
