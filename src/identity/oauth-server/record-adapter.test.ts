import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Cluster, ENGINES, QUICK, startCluster } from '../../../test/support/state-engines.js';
import { Seal } from '../../core/seal.js';
import { type State, wallMs } from '../../state/index.js';
import { SILENT } from '../../telemetry/log.js';
import { RecordAdapter, type RecordAdapterOptions, revokeGrant, USED_CLIENT } from './record-adapter.js';
import { recordId } from './record-id.js';
import { RevocationList } from './revocation-list.js';
import { Revocations } from './revoke-tokens.js';

describe.each(ENGINES)('records of the authorization server on %s', (engine) => {
  let cluster: Cluster;
  let state: State;
  beforeAll(async () => {
    cluster = await startCluster(engine, QUICK);
    state = await cluster.open();
  }, 120_000);
  afterAll(() => cluster.stop());

  test('a flood of registrations refuses nobody, removes no client in use, and keeps a bounded number', async () => {
    const { oauthRecords: records } = state;
    const revocations = new Revocations(state.oauthRevocations, state.bus, wallMs);
    const seal = new Seal(state.keyring, wallMs);
    const clients = new RecordAdapter('Client', { records, revocations, seal, now: wallMs, most: { Client: 20 } });
    await clients.upsert('used', { client_name: 'used' });
    await records.extend('Client', recordId('used'), wallMs() + USED_CLIENT);
    for (let i = 0; i < 60; i++) await clients.upsert(`flood-${i}`, { client_name: 'x' });
    await clients.upsert('new', { client_name: 'new' });
    expect(await clients.find('new')).toMatchObject({ client_name: 'new' });
    expect(await clients.find('used')).toMatchObject({ client_name: 'used' });
    expect(await clients.find('flood-0')).toBeUndefined();
    expect(await records.count('Client')).toBeLessThanOrEqual(20);
  });

  test('a client that only refreshes keeps its grant: it lives as long as the newest refresh token', async () => {
    const { oauthRecords: records } = state;
    const revocations = new Revocations(state.oauthRevocations, state.bus, wallMs);
    const options = { records, revocations, seal: new Seal(state.keyring, wallMs), now: wallMs };
    const [grants, tokens] = [new RecordAdapter('Grant', options), new RecordAdapter('RefreshToken', options)];
    const now = Math.floor(wallMs() / 1_000);
    await grants.upsert('grant', { accountId: 'ada', exp: now + 60 }, 60);
    await tokens.upsert('first', { accountId: 'ada', grantId: 'grant' }, 600);
    await tokens.consume('first');
    await tokens.upsert('second', { accountId: 'ada', grantId: 'grant' }, 1_200);
    expect((await grants.find('grant'))?.exp).toBeGreaterThanOrEqual(now + 1_200);
    // A shorter life of a new token does not shorten the life of an older token of the same grant.
    await tokens.upsert('other', { accountId: 'ada', grantId: 'grant' }, 30);
    expect((await grants.find('grant'))?.exp).toBeGreaterThanOrEqual(now + 1_200);
    // A refresh at the moment at which the grant ends does not restore the grant.
    await grants.destroy('grant');
    await tokens.upsert('late', { accountId: 'ada', grantId: 'grant' }, 1_200);
    expect(await grants.find('grant')).toBeUndefined();
  });

  const optionsOf = (more: Partial<RecordAdapterOptions> = {}): RecordAdapterOptions => ({
    records: state.oauthRecords,
    revocations: new Revocations(state.oauthRevocations, state.bus, wallMs),
    seal: new Seal(state.keyring, wallMs),
    now: wallMs,
    ...more,
  });
  const rows = async (table: string): Promise<number> =>
    (await state.db.q<{ n: number }>(`SELECT COUNT(*) AS n FROM ${table}`))[0]!.n;

  test('a client that refreshes in a loop makes a bounded number of rows, and can hide no second use', async () => {
    const options = optionsOf({ mostUsed: 20 });
    const [grants, tokens] = [new RecordAdapter('Grant', options), new RecordAdapter('RefreshToken', options)];
    await grants.upsert('loop', { accountId: 'bob' }, 600);
    const before = await rows('oauth_records');
    const refused: unknown[] = [];
    let token = 'loop-0';
    await tokens.upsert(token, { accountId: 'bob', grantId: 'loop' }, 600);
    for (let i = 1; i <= 100; i++) {
      const done = await tokens.consume(token).then(
        () => true,
        (error: unknown) => refused.push(error) < 0,
      );
      if (!done) continue;
      token = `loop-${i}`;
      await tokens.upsert(token, { accountId: 'bob', grantId: 'loop' }, 600);
    }
    expect((await rows('oauth_records')) - before).toBe(21);
    expect(refused).toHaveLength(80);
    for (const error of refused) expect(error).toMatchObject({ statusCode: 429, error: 'temporarily_unavailable' });
    // The client still has its last token, and the grant lives.
    expect(await tokens.find(token)).not.toHaveProperty('consumed');
    expect(await grants.find('loop')).toBeDefined();
    // The second use of the very first token still ends the grant.
    await expect(tokens.consume('loop-0')).rejects.toMatchObject({ error: 'invalid_grant' });
    expect(await grants.find('loop')).toBeUndefined();
    expect(await tokens.find(token)).toBeUndefined();
  });

  test('sign-ins in a loop leave a bounded number of tokens of a grant, and of grants and sessions of a user', async () => {
    const options = optionsOf();
    const [grants, sessions, tokens] = ['Grant', 'Session', 'RefreshToken'].map(
      (kind) => new RecordAdapter(kind, options),
    );
    await grants!.upsert('first', { accountId: 'cleo' }, 600);
    for (let i = 0; i < 120; i++) {
      await tokens!.upsert(`cleo-${i}`, { accountId: 'cleo', grantId: 'first' }, 900 + i);
      await grants!.upsert(`grant-${i}`, { accountId: 'cleo' }, 600);
      await sessions!.upsert(`session-${i}`, { accountId: 'cleo', uid: `session-${i}` }, 600 + i);
    }
    const kept = await state.db.q<{ model: string; n: number }>(
      `SELECT model, COUNT(*) AS n FROM oauth_records WHERE account = 'cleo' GROUP BY model ORDER BY model`,
    );
    expect(kept).toEqual([
      { model: 'Grant', n: 51 },
      { model: 'RefreshToken', n: 50 },
      { model: 'Session', n: 101 },
    ]);
    // The newest stay, and so does the grant that is in use.
    expect(await tokens!.find('cleo-119')).toBeDefined();
    expect(await grants!.find('grant-119')).toBeDefined();
    expect(await grants!.find('first')).toBeDefined();
    expect(await sessions!.find('session-119')).toBeDefined();
    expect(await sessions!.find('session-0')).toBeUndefined();
  });

  test('a client that ends its tokens and grants in a loop makes a bounded number of revocations, and each works', async () => {
    const options = optionsOf();
    const revocations = options.revocations as Revocations;
    const grants = new RecordAdapter('Grant', options);
    const access = new RecordAdapter('AccessToken', options);
    const list = new RevocationList(state.oauthRevocations, SILENT);
    const before = await rows('oauth_revocations');
    const issuedAt = wallMs() - 2_000;
    for (let i = 0; i < 250; i++) {
      const [jti, grant] = [`jti-${i}`, `dan-${i}`];
      await grants.upsert(grant, { accountId: 'dan' }, 600);
      const token = { jti, grant: recordId(grant), user: 'dan', issuedAt };
      if (!(await revocations.endToken({ jti, user: 'dan', expiresAt: issuedAt + 600_000 })))
        await revokeGrant(options, recordId(grant));
      // The first read may have begun before the revocation.
      await list.refresh();
      await list.refresh();
      expect(await list.covers(token)).toBe(true);
      await access.revokeByGrantId(grant);
      expect(await grants.find(grant)).toBeUndefined();
    }
    expect((await rows('oauth_revocations')) - before).toBe(201);
    await list.refresh();
    expect(await list.covers({ jti: 'other', grant: 'other', user: 'dan', issuedAt: wallMs() + 2_000 })).toBe(false);
    expect(await list.covers({ jti: 'other', grant: 'other', user: 'erin', issuedAt })).toBe(false);
    list.close();
  });
});
