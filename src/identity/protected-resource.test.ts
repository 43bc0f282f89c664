import { describe, expect, test } from 'vitest';
import { principalOf } from '../core/caller.js';
import { type AuthenticationRequest, type Authenticator, Challenge } from './authenticator.js';
import { BearerChallenges } from './bearer-challenge.js';
import { ProtectedResources } from './protected-resource.js';

const request = (url: string, headers: Record<string, string> = {}): AuthenticationRequest => ({
  method: 'POST',
  url,
  peer: '127.0.0.1',
  certificate: undefined,
  header: (name) => headers[name],
});

const resources = (bases = ['https://gateway.example'], requiredScopes: string[] = []): ProtectedResources =>
  new ProtectedResources({
    bases: () => bases,
    authorizationServers: ['https://idp.example'],
    requiredScopes,
    supportedScopes: ['tools:write', 'offline_access'],
    reservedAgents: new Set(['tasks', 'message']),
  });

describe('the endpoint of a path', () => {
  test.each([
    ['/', ''],
    ['/mcp', '/mcp'],
    ['/mcp/', '/mcp'],
    ['/mcp?x=1', '/mcp'],
    ['/mcp/weather', '/mcp/weather'],
    ['/weather/mcp', '/weather/mcp'],
    ['/sse', '/sse'],
    ['/messages?session=1', '/sse'],
    ['/mcp/sse', '/mcp/sse'],
    ['/mcp/messages', '/mcp/sse'],
    ['/mcp/weather/messages', '/mcp/weather/sse'],
    ['/a2a', '/a2a'],
    ['/a2a/message:send', '/a2a'],
    ['/a2a/tasks/1', '/a2a'],
    ['/a2a/travel/tasks/1', '/a2a/travel'],
    ['/v1/a2a/travel', '/v1/a2a/travel'],
    ['/a2a.v1.A2AService/SendMessage', '/a2a'],
    ['/lf.a2a.v1.A2AService/SendMessage', '/a2a'],
    ['/health', ''],
  ])('%s belongs to "%s"', (path, endpoint) => {
    expect(resources().endpointOf(path)).toBe(endpoint);
  });
});

describe('S13: audiences', () => {
  test.each([
    ['https://gateway.example', '/mcp', true],
    ['https://gateway.example/', '/a2a/travel', true],
    ['HTTPS://Gateway.Example:443/mcp', '/mcp', true],
    ['https://gateway.example/mcp', '/mcp/weather', true],
    ['https://gateway.example/mcp/weather', '/mcp', false],
    ['https://gateway.example/mcp/we', '/mcp/weather', false],
    ['https://gateway.example/sse', '/messages', true],
    ['https://gateway.example/a2a', '/mcp', false],
    ['http://gateway.example/mcp', '/mcp', false],
    ['https://gateway.example.evil/mcp', '/mcp', false],
    ['https://gateway.example/mcp#x', '/mcp', false],
    ['not a url', '/mcp', false],
    ['', '/mcp', false],
  ])('%s at %s: %s', (audience, path, covered) => {
    expect(resources().covers(audience, request(path))).toBe(covered);
  });
});

describe('metadata', () => {
  test('names the resource, the issuers and the scopes, but never offline_access (AUR-07)', () => {
    expect(resources().metadata('/mcp', request('/x'))).toEqual({
      resource: 'https://gateway.example/mcp',
      authorization_servers: ['https://idp.example'],
      scopes_supported: ['tools:write'],
      bearer_methods_supported: ['header'],
      resource_name: 'Parley',
    });
  });

  test('uses the base by which the client reached the gateway, and never a foreign Host', () => {
    const both = resources(['http://127.0.0.1:4600', 'http://localhost:4600']);
    const at = (host: string) => both.metadata('', request('/', { host }));
    expect(at('localhost:4600')).toMatchObject({ resource: 'http://localhost:4600' });
    expect(at('evil.example')).toMatchObject({ resource: 'http://127.0.0.1:4600' });
  });
});

describe('S14: challenges', () => {
  const inner: Authenticator = {
    enabled: true,
    authenticate: ({ header }) =>
      header('authorization') === 'Bearer good'
        ? principalOf({ subject: 'ada' })
        : new Challenge('no', { 'WWW-Authenticate': 'Bearer realm="parley", Signature' }),
  };
  const headerFor = (given: unknown): string | undefined => (given as Challenge).headers['WWW-Authenticate'];

  test('name the metadata of the endpoint and the scopes', () => {
    const challenges = new BearerChallenges(inner, resources(undefined, ['mcp:use']));
    expect(headerFor(challenges.authenticate(request('/mcp/weather')))).toBe(
      'Bearer realm="parley", scope="mcp:use", ' +
        'resource_metadata="https://gateway.example/.well-known/oauth-protected-resource/mcp/weather", Signature',
    );
    expect(headerFor(challenges.authenticate(request('/', { authorization: 'Bearer bad' })))).toBe(
      'Bearer realm="parley", error="invalid_token", scope="mcp:use", ' +
        'resource_metadata="https://gateway.example/.well-known/oauth-protected-resource", Signature',
    );
    expect(challenges.authenticate(request('/', { authorization: 'Bearer good' }))).toMatchObject({ key: 'ada' });
  });

  test('name no metadata if no authorization server is known', () => {
    const none = new ProtectedResources({
      bases: () => ['https://gateway.example'],
      authorizationServers: [],
      requiredScopes: ['x'],
      supportedScopes: [],
      reservedAgents: new Set(),
    });
    expect(headerFor(new BearerChallenges(inner, none).authenticate(request('/mcp')))).toBe(
      'Bearer realm="parley", Signature',
    );
  });

  test('a token in the query is refused, even beside a valid token in the header', () => {
    const challenges = new BearerChallenges(inner, resources());
    const good = { authorization: 'Bearer good' };
    expect(() => challenges.authenticate(request('/mcp?access_token=good', good))).toThrow('refused');
    expect(challenges.authenticate(request('/mcp?x=access_token', good))).toMatchObject({ key: 'ada' });
  });
});
