import { expect, test } from 'vitest';
import { card, exchange, json, Stage, saying, TASK } from '../../../test/support/remote-agents.js';
import { GATEWAY } from '../../core/caller.js';
import { apiKeySource, basicSource } from '../../identity/upstream/configured-key.js';
import { CredentialsBySource, type UpstreamAuth } from '../../identity/upstream-credentials.js';
import type { AgentCard } from '../../protocol/a2a/model.js';
import type { JsonObject } from '../../protocol/jsonrpc/raw.js';
import { SecurityMatch } from './card-security.js';

const NO_AUTH: UpstreamAuth = { clientCredentials: {}, tokenExchange: {} };
const SCHEMES: JsonObject = {
  key: { apiKeySecurityScheme: { location: 'header', name: 'X-Agent-Key' } },
  query: { apiKeySecurityScheme: { location: 'query', name: 'api key' } },
  queried: { apiKeySecurityScheme: { location: 'query', name: 'apikey' } },
  cookie: { apiKeySecurityScheme: { location: 'cookie', name: 'session' } },
  evil: { apiKeySecurityScheme: { location: 'header', name: 'Host' } },
  basic: { httpAuthSecurityScheme: { scheme: 'Basic' } },
  bearer: { httpAuthSecurityScheme: { scheme: 'Bearer' } },
  oauth: { oauth2SecurityScheme: { flows: { clientCredentials: { tokenUrl: 'https://x.example', scopes: {} } } } },
  oidc: { openIdConnectSecurityScheme: { openIdConnectUrl: 'https://x.example' } },
  mtls: { mtlsSecurityScheme: {} },
};
const requiring = (...alternatives: string[][]): AgentCard =>
  ({
    securitySchemes: SCHEMES,
    securityRequirements: alternatives.map((names) => ({
      schemes: Object.fromEntries(names.map((name) => [name, {}])),
    })),
  }) as unknown as AgentCard;
const matchOf = (auth: Partial<UpstreamAuth>, more: { headers?: Record<string, string>; cert?: string } = {}) =>
  new SecurityMatch('it', {
    auth: { ...NO_AUTH, ...auth },
    headers: more.headers ?? {},
    tls: more.cert === undefined ? {} : { cert: more.cert },
  });
const TOKEN = { clientCredentials: { clientId: 'x' } };

test.each([
  ['key', { apiKey: 'k' }, 'auth.apiKey'],
  ['cookie', { apiKey: 'k' }, 'auth.apiKey'],
  ['basic', { username: 'u', password: 'p' }, 'auth.username'],
  ['bearer', { apiKey: 'k' }, 'auth.apiKey'],
  ['oauth', TOKEN, 'auth.clientCredentials'],
  ['oidc', TOKEN, 'auth.clientCredentials'],
] as const)('the scheme %s is met by its setting, and the error names it', (name, auth, remedy) => {
  expect(matchOf(auth).of(requiring([name])).missing).toBeUndefined();
  expect(matchOf({}).explained(requiring([name]), 401)).toMatchObject({
    reason: 'upstream_unauthorized',
    message: expect.stringContaining(remedy),
    detail: { outcome: 'not_executed' },
  });
});

test('the settings must meet all schemes of one alternative', () => {
  expect(matchOf({ apiKey: 'k' }).of(requiring(['key', 'mtls'])).missing).toContain('tls.cert');
  expect(matchOf({ apiKey: 'k' }, { cert: 'x' }).of(requiring(['key', 'mtls'])).missing).toBeUndefined();
  expect(matchOf(TOKEN).of(requiring(['key', 'mtls'], ['oauth'])).missing).toBeUndefined();
  expect(matchOf({}, { headers: { 'x-agent-key': '1' } }).of(requiring(['key'])).missing).toBeUndefined();
  expect(matchOf({}).of(requiring()).missing).toBeUndefined();
});

test('S4: a card cannot choose a header of the connection, or a name that cannot be sent', () => {
  expect(matchOf({ apiKey: 'k' }).of(requiring(['evil'])).missing).toContain('Host');
  expect(matchOf({ apiKey: 'k' }).of(requiring(['query'])).missing).toContain('api key');
});

test.each([
  ['key', { apiKey: 'k&=1' }, { headers: { 'x-agent-key': 'k&=1' } }],
  ['queried', { apiKey: 'k&=1' }, { path: '/?apikey=k%26%3D1' }],
  ['cookie', { apiKey: 'k;1' }, { headers: { cookie: 'session=k%3B1' } }],
  ['bearer', { apiKey: 'k' }, { headers: { authorization: 'Bearer k' } }],
  ['basic', { username: 'ada', password: 'p' }, { headers: { authorization: 'Basic YWRhOnA=' } }],
] as const)('the credential of the scheme %s arrives where the card asks for it', async (name, auth, expected) => {
  const stage = new Stage();
  try {
    const seen: { path: string; headers: object }[] = [];
    const server = await stage.server(({ path, headers, body }, response, { url }) => {
      if (path.includes('/.well-known/')) {
        const { securitySchemes, securityRequirements } = requiring([name]);
        json(response, { ...card([{ url, protocolBinding: 'JSONRPC' }]), securitySchemes, securityRequirements });
        return;
      }
      seen.push({ path, headers });
      json(response, { jsonrpc: '2.0', id: body['id'], result: { task: TASK } });
    });
    const credentials = new CredentialsBySource([basicSource, apiKeySource]);
    const agent = stage.agent(server.url, { auth: { ...NO_AUTH, ...auth } }, { allowPrivate: true, credentials });
    await agent.send(GATEWAY, saying('hi'), exchange());
    expect(seen[0]).toMatchObject(expected);
  } finally {
    await stage.close();
  }
});
