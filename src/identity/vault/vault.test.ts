import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Cluster, ENGINES, QUICK, startCluster } from '../../../test/support/state-engines.js';
import { sleep } from '../../core/timing.js';
import type { State } from '../../state/index.js';
import { wallMs } from '../../state/index.js';
import { SILENT } from '../../telemetry/log.js';
import { RefreshFailed, type RefreshJob, SingleFlightRefresh } from './single-flight-refresh.js';
import { GATEWAY_OWNER, type Tokens, Vault, type VaultKey } from './vault.js';

const key = (caller: string, more: Partial<VaultKey> = {}): VaultKey => ({
  caller,
  issuer: 'https://issuer.example',
  resource: 'https://upstream.example/mcp',
  upstream: 'server:github',
  ...more,
});
const tokens = (accessToken: string): Tokens => ({ accessToken, refreshToken: `refresh-${accessToken}` });

describe.each(ENGINES)('the vault on %s', (engine) => {
  let cluster: Cluster;
  let a: State;
  let b: State;

  beforeAll(async () => {
    cluster = await startCluster(engine, QUICK);
    [a, b] = await Promise.all([cluster.open(), cluster.open()]);
  }, 120_000);
  beforeEach(() => cluster.clear());
  afterAll(() => cluster.stop());

  const vaultOf = (state: State): Vault => new Vault({ rows: state.vault, now: wallMs });

  test('another replica reads the secret, and a forgotten one is out of use there within a second', async () => {
    const [first, second] = [vaultOf(a), vaultOf(b)];
    const { id } = await first.put(key('ada'), tokens('t-1'));
    expect(await second.get(key('ada'))).toMatchObject({ state: 'active', secret: tokens('t-1') });
    // The entry was read a moment ago, so no promise is needed.
    expect(second.get(key('ada'))).toMatchObject({ secret: tokens('t-1') });
    expect(await second.get(key('bob'))).toBeUndefined();
    expect(await second.get(key('ada', { issuer: 'https://other.example' }))).toBeUndefined();
    await first.forget(id);
    await sleep(600);
    expect(await second.get(key('ada'))).toBeUndefined();
  });

  test('S18: the database contains no secret, and a ciphertext copied to another row does not open', async () => {
    const vault = vaultOf(a);
    await vault.put(key('ada'), tokens('canary-ada-token'));
    await vault.put(key('bob'), tokens('canary-bob-token'));
    const dump = JSON.stringify(await a.db.q('SELECT * FROM vault'));
    expect(dump).not.toContain('canary');
    expect(dump).not.toContain(Buffer.from('canary').toString('base64').slice(0, 6));
    const secretOf = `SELECT secret FROM vault WHERE id = $1`;
    const [row] = await a.db.q<{ secret: string }>(secretOf, [vault.idOf(key('ada'))]);
    await a.db.q('UPDATE vault SET secret = $1 WHERE id = $2', [row!.secret, vault.idOf(key('bob'))]);
    await expect(vault.read(key('bob'))).rejects.toThrow('belongs to another row');
    await expect(vault.read(key('ada'))).resolves.toMatchObject({ secret: tokens('canary-ada-token') });
    // Changing the owner of the row does not give the secret to another caller either.
    await a.db.q(`DELETE FROM vault WHERE id = $1`, [vault.idOf(key('bob'))]);
    await a.db.q('UPDATE vault SET id = $1, caller = $2 WHERE id = $3', [
      vault.idOf(key('bob')),
      'bob',
      vault.idOf(key('ada')),
    ]);
    await expect(vault.read(key('bob'))).rejects.toThrow('belongs to another row');
  });

  test('secrets that were obtained with different settings are separate, and their ciphertexts cannot be exchanged', async () => {
    const vault = vaultOf(a);
    const [wide, narrow] = [key(GATEWAY_OWNER, { variant: 'wide' }), key(GATEWAY_OWNER, { variant: 'narrow' })];
    await vault.put(wide, tokens('t-wide'));
    expect(await vault.read(narrow)).toBeUndefined();
    expect(await vault.read(key(GATEWAY_OWNER))).toBeUndefined();
    await vault.put(narrow, tokens('t-narrow'));
    expect(await vault.read(wide)).toMatchObject({ variant: 'wide', secret: tokens('t-wide') });
    expect(await vault.read(narrow)).toMatchObject({ variant: 'narrow', secret: tokens('t-narrow') });
    await a.db.q('UPDATE vault SET secret = (SELECT secret FROM vault WHERE id = $1) WHERE id = $2', [
      vault.idOf(wide),
      vault.idOf(narrow),
    ]);
    await expect(vault.read(narrow)).rejects.toThrow('belongs to another row');
  });

  test('states can be read: active, expired, needs_reauth, failed', async () => {
    const vault = vaultOf(a);
    const past = wallMs() - 1_000;
    await vault.put(key('ada', { upstream: 'server:a' }), tokens('x'), { state: 'active' });
    await vault.put(key('ada', { upstream: 'server:b' }), tokens('x'), { state: 'active', expiresAt: past });
    await vault.put(key('ada', { upstream: 'server:c' }), tokens('x'), { state: 'needs_reauth', reason: 'revoked' });
    await vault.put(key('ada', { upstream: 'server:d' }), tokens('x'), { state: 'failed', reason: 'HTTP 503' });
    const rows = await vault.list({ caller: 'ada' });
    expect(rows.map(({ state, reason }) => [state, reason])).toEqual([
      ['active', undefined],
      ['expired', undefined],
      ['needs_reauth', 'revoked'],
      ['failed', 'HTTP 503'],
    ]);
    expect(rows[1]!.since).toBe(past);
    expect(JSON.stringify(rows)).not.toContain('secret');
  });

  test('rows are bounded per caller; unusable ones make room first', async () => {
    const vault = vaultOf(a);
    for (let n = 0; n < 200; n++) await vault.put(key('ada', { upstream: `server:${n}` }), tokens('x'));
    await expect(vault.put(key('ada', { upstream: 'server:more' }), tokens('x'))).rejects.toThrow('200 credentials');
    await vault.put(key('bob'), tokens('x'));
    await vault.put(key('ada', { upstream: 'server:7' }), tokens('x'), { state: 'failed', reason: 'x' });
    await vault.put(key('ada', { upstream: 'server:more' }), tokens('x'));
    expect(await vault.read(key('ada', { upstream: 'server:7' }))).toBeUndefined();
  }, 60_000);

  test('rotation: values under the old key are read and rewritten under the new one', async () => {
    const setting = (id: string): { id: string; key: string } => ({ id, key: randomBytes(32).toString('base64') });
    const [k1, k2] = [setting('old'), setting('new')];
    const before = await cluster.open({ keys: [k1] });
    await vaultOf(before).put(key('ada'), tokens('t-1'));
    await vaultOf(before).put(key('bob'), tokens('t-2'));
    const after = await cluster.open({ keys: [k2, k1] });
    // A replica that still seals with the old key can read values under the new key, once it knows both keys.
    const old = await cluster.open({ keys: [k1, k2] });
    expect(await vaultOf(after).read(key('ada'))).toMatchObject({ secret: tokens('t-1') });
    await expect.poll(async () => (await after.vault.list({ caller: 'ada' }))[0]?.keyId).toBe('new');
    expect(await vaultOf(old).read(key('bob'))).toMatchObject({ keyId: 'old', secret: tokens('t-2') });
    expect(await after.vault.rotate('', 100)).toMatchObject({ rewritten: expect.any(Number), failed: 0 });
    expect((await after.vault.list()).every(({ keyId }) => keyId === 'new')).toBe(true);
    const without = await cluster.open({ keys: [k2] });
    expect(await vaultOf(without).read(key('bob'))).toMatchObject({ secret: tokens('t-2') });
    const lost = await cluster.open({ keys: [setting('third')] });
    await expect(vaultOf(lost).read(key('bob'))).rejects.toThrow('add that key after the first one');
  });

  const refresherOf = (state: State, self: string): { vault: Vault; refresh: SingleFlightRefresh } => {
    const vault = vaultOf(state);
    return { vault, refresh: new SingleFlightRefresh({ vault, bus: state.bus, self, log: SILENT }) };
  };
  const job = (run: RefreshJob<Tokens>['run'], owner = GATEWAY_OWNER): RefreshJob<Tokens> => ({
    key: key(owner),
    due: (entry) => entry?.state !== 'active',
    usable: ({ expiresAt }) => expiresAt === undefined || expiresAt > wallMs(),
    run,
    creates: owner === GATEWAY_OWNER,
  });

  test('100 calls on two replicas renew a token once', async () => {
    const [one, two] = [refresherOf(a, 'one'), refresherOf(b, 'two')];
    let runs = 0;
    const run = async () => {
      runs++;
      await sleep(150);
      return { secret: tokens(`t-${runs}`), expiresAt: wallMs() + 60_000 };
    };
    const calls = Array.from({ length: 100 }, (_, i) => (i % 2 ? one : two).refresh.refresh(job(run)));
    const entries = await Promise.all(calls);
    expect(runs).toBe(1);
    expect(new Set(entries.map(({ secret }) => secret.accessToken))).toEqual(new Set(['t-1']));
  });

  test('a failed renewal is not repeated by other calls and replicas until its pause is over', async () => {
    const [one, two] = [refresherOf(a, 'one'), refresherOf(b, 'two')];
    let runs = 0;
    const run = async (): Promise<never> => {
      runs++;
      throw new RefreshFailed('failed', 'the issuer answered HTTP 503');
    };
    const calls = Array.from({ length: 40 }, (_, i) => (i % 2 ? one : two).refresh.refresh(job(run)));
    const results = await Promise.allSettled(calls);
    expect(results.every(({ status }) => status === 'rejected')).toBe(true);
    expect(runs).toBe(1);
    await expect(two.refresh.refresh(job(run))).rejects.toMatchObject({ state: 'failed' });
    expect(runs).toBe(1);
    expect(await two.vault.read(key(GATEWAY_OWNER))).toMatchObject({
      state: 'failed',
      reason: 'the issuer answered HTTP 503',
    });
  });

  test('a token that is still valid stays in use when its renewal fails', async () => {
    const { vault, refresh } = refresherOf(a, 'one');
    await vault.put(key('ada'), tokens('t-1'), { state: 'active', expiresAt: wallMs() + 30_000 });
    const entry = await refresh.refresh({
      ...job(() => Promise.reject(new RefreshFailed('failed', 'HTTP 503')), 'ada'),
      due: () => true,
    });
    expect(entry).toMatchObject({ state: 'active', secret: tokens('t-1'), attempts: 1 });
  });

  test('a renewal that the issuer refuses for good asks for the user, and nobody tries again', async () => {
    const { vault, refresh } = refresherOf(a, 'one');
    await vault.put(key('ada'), tokens('t-1'), { state: 'active', expiresAt: wallMs() - 1 });
    let runs = 0;
    const run = (): Promise<never> => {
      runs++;
      return Promise.reject(new RefreshFailed('needs_reauth', 'invalid_grant'));
    };
    for (let i = 0; i < 3; i++)
      await expect(refresh.refresh(job(run, 'ada'))).rejects.toMatchObject({ state: 'needs_reauth' });
    expect(runs).toBe(1);
    expect(await vault.read(key('ada'))).toMatchObject({ state: 'needs_reauth', reason: 'invalid_grant' });
  });

  test('a replica that dies while it renews is replaced', async () => {
    const two = refresherOf(b, 'two');
    // The lease of a process that has ended, so nobody renews the lease.
    await a.bus.lease(`vault:${two.vault.idOf(key(GATEWAY_OWNER))}`, 'dead', 1_500);
    const entry = await two.refresh.refresh(job(async () => ({ secret: tokens('t-2') })));
    expect(entry.secret).toEqual(tokens('t-2'));
  });

  test('a replica that was stopped for longer than its lease does not use the spent refresh token again', async () => {
    const [one, two] = [refresherOf(a, 'one'), refresherOf(b, 'two')];
    await two.vault.put(key('ada'), tokens('t-1'), { state: 'active', expiresAt: wallMs() - 1 });
    const spent: (string | undefined)[] = [];
    const renewal: RefreshJob<Tokens> = {
      ...job(async (entry) => {
        spent.push(entry?.secret.refreshToken);
        return { secret: tokens('t-2'), expiresAt: wallMs() + 60_000 };
      }, 'ada'),
      due: (entry) => (entry?.expiresAt ?? 0) < wallMs(),
    };
    const lease = `vault:${one.vault.idOf(key('ada'))}`;
    let reads = 0;
    const read = one.vault.read.bind(one.vault);
    one.vault.read = async <T extends object>(which: VaultKey) => {
      const entry = await read<T>(which);
      // The process stops after it has read the row under its lease; the lease ends, and the other replica renews.
      if (++reads === 2) {
        await a.bus.release(lease, 'one');
        await two.refresh.refresh(renewal);
      }
      return entry;
    };
    expect((await one.refresh.refresh(renewal)).secret).toEqual(tokens('t-2'));
    expect(spent).toEqual(['refresh-t-1']);
  });

  test('a secret that is forgotten while it is renewed stays forgotten', async () => {
    const { vault, refresh } = refresherOf(a, 'one');
    const { id } = await vault.put(key('ada'), tokens('t-1'), { state: 'active', expiresAt: wallMs() - 1 });
    const run = async () => {
      await vaultOf(b).forget(id);
      return { secret: tokens('t-2') };
    };
    await expect(refresh.refresh(job(run, 'ada'))).rejects.toMatchObject({ state: 'needs_reauth' });
    expect(await vault.read(key('ada'))).toBeUndefined();
  });
});
