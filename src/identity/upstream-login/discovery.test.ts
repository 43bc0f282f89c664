import { describe, expect, test } from 'vitest';
import { type DiscoveryOptions, discover } from './discovery.js';
import { LoginError } from './login-error.js';
import type { LoginSettings } from './login-settings.js';
import type { Fetch } from './oauth-library.js';

const URL_OF = 'https://tools.example/mcp';
const ISSUER = 'https://as.example';
const METADATA = {
  issuer: ISSUER,
  authorization_endpoint: `${ISSUER}/authorize`,
  token_endpoint: `${ISSUER}/token`,
  response_types_supported: ['code'],
  code_challenge_methods_supported: ['S256'],
};
const RESOURCE = 'https://tools.example/.well-known/oauth-protected-resource/mcp';
const SERVER = `${ISSUER}/.well-known/oauth-authorization-server`;

/** Documents by URL; every other URL is absent. */
function world(documents: Record<string, object>): { fetch: Fetch; asked: string[] } {
  const asked: string[] = [];
  const fetch: Fetch = async (input) => {
    const url = String(input instanceof Request ? input.url : input);
    asked.push(url);
    const found = documents[url];
    return found ? Response.json(found) : new Response(null, { status: 404 });
  };
  return { fetch, asked };
}

const settings = (more: Partial<LoginSettings> = {}): LoginSettings => ({ scopes: [], quirks: [], ...more });
const find = (documents: Record<string, object>, more: Partial<DiscoveryOptions> = {}) =>
  discover({ url: URL_OF, settings: settings(), challenge: undefined, fetch: world(documents).fetch, ...more });
const failedHop = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => 'none',
    (error: unknown) => (error instanceof LoginError ? error.hop : String(error)),
  );

const GOOD = {
  [RESOURCE]: { resource: URL_OF, authorization_servers: [ISSUER], scopes_supported: ['read', 'write'] },
  [SERVER]: METADATA,
};

describe('the chain from a server to its authorization server', () => {
  test('AUC-01: resource metadata names the issuer, the resource and the scopes', async () => {
    expect(await find(GOOD)).toMatchObject({
      issuer: ISSUER,
      resource: URL_OF,
      scope: 'read write',
      namesIssuer: false,
    });
  });

  test('AUC-01: the URL and the scope of the challenge come first', async () => {
    const place = 'https://tools.example/metadata.json';
    const header = `Bearer resource_metadata="${place}", scope="one"`;
    const documents = { [place]: GOOD[RESOURCE]!, [SERVER]: METADATA };
    expect(await find(documents, { challenge: { status: 401, header } })).toMatchObject({ scope: 'one' });
  });

  test('the first MCP revision with OAuth: the origin of the server is its authorization server', async () => {
    const own = 'https://tools.example';
    const documents = {
      [`${own}/.well-known/oauth-authorization-server`]: { ...METADATA, issuer: `${own}/` },
    };
    const plan = await find(documents, { settings: settings({ quirks: ['any-issuer'] }) });
    expect(plan).toMatchObject({ server: `${own}/`, resource: undefined });
  });

  test('the configured issuer wins over the one that the server names', async () => {
    const other = 'https://other.example';
    const place = `${other}/.well-known/oauth-authorization-server`;
    const documents = { ...GOOD, [place]: { ...METADATA, issuer: other } };
    expect((await find(documents, { settings: settings({ issuer: other }) })).issuer).toBe(other);
  });

  test('AUC-03: metadata for another resource is refused, unless the operator confirms it', async () => {
    const documents = { ...GOOD, [RESOURCE]: { ...GOOD[RESOURCE], resource: 'https://elsewhere.example/mcp' } };
    expect(await failedHop(find(documents))).toBe('resource');
    expect(await failedHop(find(documents, { settings: settings({ quirks: ['any-resource'] }) }))).toBe('none');
  });

  test('S15: metadata of another issuer and a server without S256 are refused', async () => {
    expect(await failedHop(find({ ...GOOD, [SERVER]: { ...METADATA, issuer: 'https://evil.example' } }))).toBe(
      'server-metadata',
    );
    for (const methods of [['plain'], undefined]) {
      const documents = { ...GOOD, [SERVER]: { ...METADATA, code_challenge_methods_supported: methods } };
      expect(await failedHop(find(documents))).toBe('pkce');
    }
    const silent = { ...GOOD, [SERVER]: { ...METADATA, code_challenge_methods_supported: undefined } };
    expect(await failedHop(find(silent, { settings: settings({ quirks: ['assume-pkce'] }) }))).toBe('none');
  });

  test('S9: endpoints that are not https, and private names of the upstream, end the search', async () => {
    for (const url of ['javascript:alert(1)', 'http://as.example/token', 'file:///etc/passwd'])
      expect(await failedHop(find({ ...GOOD, [SERVER]: { ...METADATA, token_endpoint: url } })), url).not.toBe('none');
    const insecure = { ...GOOD, [RESOURCE]: { ...GOOD[RESOURCE], authorization_servers: ['http://as.example'] } };
    const { fetch, asked } = world(insecure);
    expect(await failedHop(find({}, { fetch }))).not.toBe('none');
    expect(asked.some((url) => url.startsWith('http://as.example'))).toBe(false);
  });

  test('S11: a URL that egress refuses ends the search with an error about this URL', async () => {
    const fetch: Fetch = async () => {
      throw Object.assign(new Error('private address'), { name: 'EgressRefused' });
    };
    expect(await failedHop(find({}, { fetch }))).toBe('resource-metadata');
  });
});

describe('the card of an agent', () => {
  const card = {
    authorizationUrl: `${ISSUER}/authorize`,
    tokenUrl: `${ISSUER}/token`,
    scopes: ['agent:use'],
    pkce: true,
  };

  test('an OpenID issuer is used where the agent has no resource metadata', async () => {
    const place = `${ISSUER}/.well-known/openid-configuration`;
    const openId = { ...METADATA, jwks_uri: `${ISSUER}/jwks`, subject_types_supported: ['public'] };
    const documents = { [place]: { ...openId, id_token_signing_alg_values_supported: ['ES256'] } };
    const plan = await find(documents, { card: { issuer: ISSUER, scopes: ['openid'], pkce: false } });
    expect(plan).toMatchObject({ issuer: ISSUER, scope: 'openid', resource: undefined });
  });

  test('endpoints of an authorization code flow are used as they are; PKCE must be named', async () => {
    const plan = await find({}, { card });
    expect(plan).toMatchObject({ issuer: ISSUER, scope: 'agent:use', metadata: { token_endpoint: `${ISSUER}/token` } });
    expect(await failedHop(find({}, { card: { ...card, pkce: false } }))).toBe('pkce');
    expect(await failedHop(find({}, { card: { ...card, tokenUrl: 'http://as.example/token' } }))).not.toBe('none');
  });
});
