import { createHash } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { type Cluster, startCluster } from '../../../test/support/state-engines.js';
import type { AuditTrail } from '../../core/audit-trail.js';
import { type Caller, GATEWAY, principalOf } from '../../core/caller.js';
import { newId, type State, wallMs } from '../../state/index.js';
import { SILENT } from '../../telemetry/log.js';
import { type CredentialSource, type CredentialTarget, configuredCredential } from '../upstream-credentials.js';
import { SingleFlightRefresh } from '../vault/single-flight-refresh.js';
import { Vault } from '../vault/vault.js';
import { Logins } from './login-flow.js';
import type { LoginSecret, TokenServer } from './login-tokens.js';
import type { Fetch } from './oauth-library.js';

const HERE = 'https://tools.example/mcp';
const ELSEWHERE = 'https://other.example/mcp';
const ISSUER = 'https://as.example';
const ADA: Caller = { ...GATEWAY, principal: principalOf({ subject: 'ada' }) };
const AT: TokenServer = {
  issuer: ISSUER,
  server: ISSUER,
  tokenEndpoint: `${ISSUER}/token`,
  methods: ['none'],
  resource: undefined,
  namesIssuer: false,
};
const client = { client_id: 'parley' };

let cluster: Cluster;
let state: State;
let vault: Vault;
let tokenRequests: number;

beforeAll(async () => {
  cluster = await startCluster('sqlite');
  state = await cluster.open();
});
beforeEach(async () => {
  await cluster.clear();
  vault = new Vault({ rows: state.vault, now: wallMs });
  tokenRequests = 0;
});
afterAll(() => cluster.stop());

const targetAt = (url: string): CredentialTarget => ({
  kind: 'server',
  name: 'tools',
  url,
  configured: configuredCredential({}),
  auth: { clientCredentials: {}, tokenExchange: {}, oauth: { scopes: [], quirks: [], clientId: 'parley' } },
});

const fetch: Fetch = async () => {
  tokenRequests++;
  return Response.json({ access_token: 'new-token', token_type: 'Bearer', expires_in: 3600 });
};

function loginsWith(pending: object = {}): Logins {
  return new Logins({
    vault,
    refresh: new SingleFlightRefresh({ vault, bus: state.bus, self: newId(), log: SILENT }),
    pending: { put: async () => {}, take: async <T>() => pending as T },
    clients: state.upstreamClients,
    links: undefined as never,
    fetchFor: () => fetch,
    base: () => undefined,
    audit: { change: (_record: unknown, work: () => unknown) => work(), record: () => {} } as unknown as AuditTrail,
    changed: () => {},
    log: SILENT,
  });
}

const sourceAt = (url: string): CredentialSource => loginsWith().factory(targetAt(url))!;

/** Stores the entry of a user who signed in. */
async function signedIn(resource: string, more: Partial<LoginSecret> = {}, expiresAt?: number): Promise<void> {
  const secret: LoginSecret = { accessToken: 'a-token', login: 'l', requested: undefined, at: AT, client, ...more };
  const key = { caller: ADA.principal.key, issuer: ISSUER, resource, upstream: 'server:tools' };
  await vault.put(key, secret, { state: 'active', expiresAt });
}

const headersOf = async (source: CredentialSource) => (await source.for(ADA)).headers;
const required = expect.objectContaining({ reason: 'login_required' });

test('the token of a sign-in is not used after the name got the URL of another origin', async () => {
  const logins = loginsWith({
    owner: ADA.principal.key,
    user: 'ada',
    upstream: 'server:tools',
    url: HERE,
    verifier: 'v',
    redirectUri: 'https://gateway.example/connect/callback',
    // The resource is the same at both URLs, so only the URL of the sign-in tells them apart.
    at: { ...AT, resource: ELSEWHERE },
    client,
    scope: undefined,
    browser: createHash('sha256').update('cookie').digest('hex'),
  });
  const source = logins.factory(targetAt(HERE))!;
  await logins.finish(new URLSearchParams({ state: 's', code: 'c' }), 'cookie');
  expect(await headersOf(source)).toEqual(['Authorization', 'Bearer new-token']);

  const moved = sourceAt(ELSEWHERE);
  // Several times, because the second call finds the key that the first call remembered.
  for (let i = 0; i < 3; i++) await expect(headersOf(moved)).rejects.toEqual(required);
  expect(await headersOf(sourceAt('https://tools.example/v2/mcp'))).toEqual(['Authorization', 'Bearer new-token']);
});

test('an entry without a URL belongs to the origin of its resource', async () => {
  await signedIn(HERE);
  expect(await headersOf(sourceAt(HERE))).toEqual(['Authorization', 'Bearer a-token']);
  await expect(headersOf(sourceAt(ELSEWHERE))).rejects.toEqual(required);
  await vault.forget((await vault.list())[0]!.id);
  await signedIn('urn:example:tools');
  await expect(headersOf(sourceAt(HERE))).rejects.toEqual(required);
});

test('an expired token of another origin is not renewed', async () => {
  await signedIn(HERE, { url: HERE, refreshToken: 'r' }, wallMs() - 1_000);
  await expect(headersOf(sourceAt(ELSEWHERE))).rejects.toEqual(required);
  expect(tokenRequests).toBe(0);
  expect(await headersOf(sourceAt(HERE))).toEqual(['Authorization', 'Bearer new-token']);
  expect((await vault.read<LoginSecret>((await vault.list())[0]!))?.secret.url).toBe(HERE);
});

test('an entry that is replaced with one for another origin is out of use', async () => {
  await signedIn(HERE, { url: HERE });
  const source = sourceAt(HERE);
  expect(await headersOf(source)).toEqual(['Authorization', 'Bearer a-token']);
  await signedIn(HERE, { url: ELSEWHERE, accessToken: 'b-token' });
  await expect(headersOf(source)).rejects.toEqual(required);
});
