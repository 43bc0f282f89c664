import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Cluster, ENGINES, QUICK, startCluster } from '../../../test/support/state-engines.js';
import { Seal } from '../../core/seal.js';
import { type State, wallMs } from '../../state/index.js';
import { OpenIdLogin } from './openid-login.js';

const ISSUER = 'https://login.example';
const DOCUMENT = {
  issuer: ISSUER,
  authorization_endpoint: `${ISSUER}/authorize`,
  token_endpoint: `${ISSUER}/token`,
  jwks_uri: `${ISSUER}/jwks`,
};

describe.each(ENGINES)('a sign-in at another provider on %s', (engine) => {
  let cluster: Cluster;
  let state: State;
  beforeAll(async () => {
    cluster = await startCluster(engine, QUICK);
    state = await cluster.open();
  }, 120_000);
  afterAll(() => cluster.stop());

  test('an interaction has one sign-in: a flood of forms stores one row, and the last form counts', async () => {
    const { oauthRecords: records, oauthUsers: users } = state;
    const settings = {
      ...{ issuer: ISSUER, clientId: 'parley', clientSecret: undefined, name: 'Example', scopes: ['openid'] },
      ...{ rolesClaim: 'groups', roles: [], tenantClaim: undefined, allowClaim: 'groups', allow: [] },
    };
    const login = new OpenIdLogin({
      ...{ settings, records, users, redirectUri: 'https://gateway.example/oauth/callback', now: wallMs },
      seal: new Seal(state.keyring, wallMs),
      send: async () => ({ status: 200, body: Buffer.from(JSON.stringify(DOCUMENT)) }),
    });
    const begin = async (uid: string): Promise<string> =>
      new URL(await login.begin(uid)).searchParams.get('state') ?? '';
    const states: string[] = [];
    for (let i = 0; i < 20; i++) states.push(await begin('interaction-one'));
    const other = await begin('interaction-two');
    expect(await records.count('UpstreamLogin')).toBe(2);
    expect(await login.take(states[0]!)).toBeUndefined();
    expect(await login.take(states.at(-1)!)).toMatchObject({ uid: 'interaction-one' });
    expect(await login.take(other)).toMatchObject({ uid: 'interaction-two' });
  });
});
