import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Cluster, ENGINES, QUICK, startCluster } from '../../../test/support/engines.js';
import { Seal } from '../../core/seal.js';
import { type State, wallMs } from '../../state/index.js';
import { RecordAdapter, USED_CLIENT } from './record-adapter.js';
import { recordId } from './record-id.js';

describe.each(ENGINES)('records of the authorization server on %s', (engine) => {
  let cluster: Cluster;
  let state: State;
  beforeAll(async () => {
    cluster = await startCluster(engine, QUICK);
    state = await cluster.open();
  }, 120_000);
  afterAll(() => cluster.stop());

  test('a flood of registrations refuses nobody, removes no client in use, and keeps a bounded number', async () => {
    const { oauthRecords: records, oauthRevocations: revocations } = state;
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
    const { oauthRecords: records, oauthRevocations: revocations } = state;
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
});
