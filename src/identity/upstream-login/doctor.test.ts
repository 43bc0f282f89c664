import { expect, test } from 'vitest';
import { diagnose } from './doctor.js';
import type { LoginSettings } from './login-settings.js';
import type { Fetch } from './oauth-library.js';

const URL_OF = 'https://tools.example/mcp';
const ISSUER = 'https://as.example';
const RESOURCE = 'https://tools.example/.well-known/oauth-protected-resource/mcp';
const SERVER = `${ISSUER}/.well-known/oauth-authorization-server`;
const METADATA = {
  issuer: ISSUER,
  authorization_endpoint: `${ISSUER}/authorize`,
  token_endpoint: `${ISSUER}/token`,
  registration_endpoint: `${ISSUER}/register`,
  code_challenge_methods_supported: ['S256'],
};
const GOOD: Record<string, object> = {
  [RESOURCE]: { resource: URL_OF, authorization_servers: [ISSUER] },
  [SERVER]: METADATA,
};

function examine(documents: Record<string, object>, more: Partial<LoginSettings> = {}, status = 401) {
  const fetch: Fetch = async (input) => {
    const url = String(input instanceof Request ? input.url : input);
    if (url === URL_OF) {
      const header = `Bearer resource_metadata="${RESOURCE}", scope="read"`;
      return new Response(null, { status, headers: { 'WWW-Authenticate': header } });
    }
    const found = documents[url];
    return found ? Response.json(found) : new Response('absent', { status: 404 });
  };
  return diagnose({ url: URL_OF, settings: { scopes: [], quirks: [], ...more }, fetch, documentUrl: undefined });
}

const problems = async (diagnosis: ReturnType<typeof examine>): Promise<string[]> =>
  (await diagnosis).hops.filter(({ state }) => state === 'problem').map(({ hop }) => hop);

test('finds no problem in a correct chain, and shows every hop', async () => {
  const { ok, hops, quirks } = await examine(GOOD);
  expect([ok, quirks]).toEqual([true, []]);
  expect(hops.map(({ hop }) => hop)).toEqual([
    'request without a token',
    'resource metadata (RFC 9728)',
    'resource of the metadata',
    'authorization server',
    'metadata of the authorization server (RFC 8414, OpenID Connect)',
    'issuer of the metadata',
    'authorization_endpoint',
    'token_endpoint',
    'PKCE',
    'registration of the gateway',
    'authentication at the token endpoint',
    'issuer in the answer (RFC 9207)',
    'scopes',
  ]);
});

test('names the wrong hop, and the quirk that accepts it', async () => {
  const cases: [Record<string, object>, string, string?][] = [
    [
      { ...GOOD, [RESOURCE]: { ...GOOD[RESOURCE], resource: 'https://x.example/' } },
      'resource of the metadata',
      'any-resource',
    ],
    [{ ...GOOD, [SERVER]: { ...METADATA, issuer: 'https://x.example' } }, 'issuer of the metadata', 'any-issuer'],
    [{ ...GOOD, [SERVER]: { ...METADATA, code_challenge_methods_supported: undefined } }, 'PKCE', 'assume-pkce'],
    [{ ...GOOD, [SERVER]: { ...METADATA, code_challenge_methods_supported: ['plain'] } }, 'PKCE'],
    [{ ...GOOD, [SERVER]: { ...METADATA, token_endpoint: 'http://as.example/token' } }, 'token_endpoint'],
    [{ ...GOOD, [SERVER]: { ...METADATA, registration_endpoint: undefined } }, 'registration of the gateway'],
    [
      { ...GOOD, [SERVER]: { ...METADATA, token_endpoint_auth_methods_supported: ['private_key_jwt'] } },
      'authentication at the token endpoint',
    ],
  ];
  for (const [documents, hop, quirk] of cases) {
    expect(await problems(examine(documents)), hop).toEqual([hop]);
    if (quirk === undefined) continue;
    expect((await examine(documents)).quirks).toEqual([quirk]);
    // With the quirk in the configuration, the deviation is no longer a problem.
    expect((await examine(documents, { quirks: [quirk] })).ok, quirk).toBe(true);
  }
});

test('distinguishes an unreachable server from a server that needs no sign-in', async () => {
  const fetch: Fetch = async () => {
    throw new Error('connect ECONNREFUSED');
  };
  const away = await diagnose({ url: URL_OF, settings: { scopes: [], quirks: [] }, fetch, documentUrl: undefined });
  expect(away).toMatchObject({ ok: false, hops: [{ found: 'no answer: connect ECONNREFUSED' }] });
  const open = await examine(GOOD, {}, 200);
  expect(open.hops[0]).toMatchObject({ state: 'warning', found: 'HTTP 200 instead of 401' });
});

test('names the quirks of known issuers', async () => {
  const issuer = 'https://login.microsoftonline.com/tenant/v2.0';
  const { quirks } = await examine({ ...GOOD, [RESOURCE]: { resource: URL_OF, authorization_servers: [issuer] } });
  expect(quirks).toEqual(['no-resource', 'assume-pkce']);
});
