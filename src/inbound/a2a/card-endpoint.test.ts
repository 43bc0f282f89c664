import { type AgentCard, verifyAgentCardSignature } from '@a2a-js/sdk';
import { ClientFactory } from '@a2a-js/sdk/client';
import { A2AClient as Client02 } from 'a2a-sdk-0.2/client';
import { ClientFactory as ClientFactory03 } from 'a2a-sdk-0.3/client';
import { createLocalJWKSet, flattenedVerify, importJWK, type JSONWebKeySet } from 'jose';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { cardOf, cardsOf, StaticAgent, showing } from '../../../test/support/static-agent.js';
import { OpenAdmission } from '../../core/admission.js';
import { OPEN } from '../../identity/authenticator.js';
import { type CardKeyRecord, CardKeys } from '../../identity/card-keys.js';
import { TokenAuthenticator } from '../../identity/token-authenticator.js';
import type { JsonObject, JsonValue } from '../../protocol/jsonrpc/raw.js';
import { Origins } from '../http/host-and-origin.js';
import type { Route } from '../http/route.js';
import { RouteTable } from '../http/route-table.js';
import { sendText } from '../http/send-body.js';
import { HttpServer } from '../http/server.js';
import { CardEndpoint } from './card-endpoint.js';
import { restErrors } from './error-response.js';

const TOKENS = [
  { name: 'ann', token: 'ann-ann-ann-ann-ann-ann-ann-ann', admin: false },
  { name: 'bob', token: 'bob-bob-bob-bob-bob-bob-bob-bob', admin: false },
];
const bearer = (name: string) => ({ Authorization: `Bearer ${TOKENS.find((each) => each.name === name)!.token}` });

const planner = new StaticAgent(
  'planner',
  cardOf('Planner', {
    provider: { organization: 'Acme', url: 'https://acme.example.com' },
    documentationUrl: 'https://acme.example.com/docs',
    capabilities: { extensions: [{ uri: 'https://example.com/ext/a', params: { empty: '', list: [] } }] },
    skills: [{ id: 'plan', name: 'Plan', description: 'Plans trips – überall', tags: ['travel'], examples: ['Rome'] }],
  }),
  'verified',
);
const secret = new StaticAgent('secret', cardOf('Secret'));
const away = new StaticAgent('away', undefined);

interface Stand {
  readonly url: string;
  readonly posts: string[];
  close(): Promise<void>;
}

async function stand({
  auth = false,
  publicCards = true,
  grpc,
  behind,
}: {
  auth?: boolean;
  publicCards?: boolean;
  grpc?: string;
  /** Whether the gateway is behind a trusted proxy; `fixed`: the public URL is configured. */
  behind?: 'fixed' | 'free';
}) {
  let url = '';
  let kept: CardKeyRecord | undefined;
  const posts: string[] = [];
  const cards = cardsOf([planner, secret, away], {
    base: () => url,
    grpc: () => grpc,
    identified: auth,
    fixed: behind === 'fixed',
    admission: auth
      ? showing({ '': ['planner', 'away'], ann: ['planner', 'secret'], bob: [] })
      : new OpenAdmission(() => true),
  });
  const keys = new CardKeys({
    store: {
      load: async () => kept && { record: kept, rev: 1 },
      save: async (record) => {
        kept = record;
        return true;
      },
    },
    sealer: { close: (value) => JSON.stringify(value), open: (sealed) => JSON.parse(sealed) as unknown },
  });
  const endpoint = new CardEndpoint({
    cards,
    gateway: { read: (_, __, work) => work() },
    keys,
    publicCards,
    identified: auth,
  });
  const server = new HttpServer({
    authenticator: auth ? new TokenAuthenticator(TOKENS) : OPEN,
    origins: new Origins({
      loopback: true,
      hosts: ['gateway.example'],
      origins: [],
      corsOrigins: [],
      credentials: false,
    }),
    routes: new RouteTable({
      routes: [
        ...endpoint.routes(),
        ...['/a2a', '/a2a/{agent}', '/a2a/{agent}/rpc'].map(
          (path): Route => ({
            method: 'POST',
            path,
            access: 'public',
            errors: restErrors('1.0.1'),
            description: 'Records the posted requests',
            handle: ({ req, res }) => {
              posts.push(`${req.method} ${req.target} ${req.header('a2a-version') ?? '-'}`);
              sendText(
                res,
                200,
                [],
                'application/json',
                JSON.stringify({ jsonrpc: '2.0', id: 1, error: { code: -32001, message: 'none' } }),
              );
            },
          }),
        ),
      ],
      errors: restErrors('1.0.1'),
    }),
    ...(behind && { listener: { trustedProxies: ['127.0.0.1'] } }),
    failed: (error) => {
      throw error;
    },
  });
  const { port } = await server.listen('127.0.0.1', 0);
  url = `http://127.0.0.1:${port}`;
  return { url, posts, close: () => server.close(Promise.resolve()) };
}

let open: Stand;
let guarded: Stand;
let withGrpc: Stand;
beforeAll(async () => {
  // The SDK logs every signature that does not match with `console.debug`.
  vi.spyOn(console, 'debug').mockImplementation(() => {});
  open = await stand({});
  guarded = await stand({ auth: true });
  withGrpc = await stand({ grpc: '127.0.0.1:4601' });
});
afterAll(async () => {
  vi.restoreAllMocks();
  await Promise.all([open, guarded, withGrpc].map((each) => each.close()));
});

const PATH = '/a2a/planner/.well-known/agent-card.json';

async function get(url: string, headers: Record<string, string> = {}) {
  const response = await fetch(url, { headers });
  const text = await response.text();
  return { status: response.status, headers: response.headers, body: (text ? JSON.parse(text) : {}) as JsonObject };
}

describe('the card over HTTP only', () => {
  test('every interface has the origin of the card, for clients that refuse any other', async () => {
    const { host, origin } = new URL(withGrpc.url);
    for (const path of ['/.well-known/', '/a2a/.well-known/', '/a2a/planner/.well-known/']) {
      const whole = await get(`${withGrpc.url}${path}agent-card.json`);
      expect(addresses(whole.body)).toContain('127.0.0.1:4601');
      const http = await get(`${withGrpc.url}${path}agent-card-http.json`);
      expect(http.status).toBe(200);
      const found = addresses(http.body);
      expect(found.length).toBeGreaterThan(3);
      for (const url of found) expect([url, new URL(url).origin, new URL(url).host]).toEqual([url, origin, host]);
      expect({ ...http.body, ...INTERFACES }).toEqual({ ...whole.body, ...INTERFACES });
    }
  });

  test.each(['1.0', '0.3', '0.2'])('is served in the form of %s', async (version) => {
    const { body } = await get(`${withGrpc.url}/a2a/planner/.well-known/agent-card-http.json`, {
      'A2A-Version': version,
    });
    expect(addresses(body).length).toBeGreaterThan(0);
    for (const url of addresses(body)) expect(url.startsWith(withGrpc.url)).toBe(true);
  });

  test('without gRPC it equals the full card', async () => {
    const [http, whole] = await Promise.all(
      ['agent-card-http', 'agent-card'].map((name) => get(`${open.url}/a2a/planner/.well-known/${name}.json`)),
    );
    expect(http!.headers.get('etag')).toBe(whole!.headers.get('etag'));
  });

  const INTERFACES = { supportedInterfaces: 0, additionalInterfaces: 0, signatures: 0 };

  /** Every URL that a client of any version may choose from a card. */
  function addresses(card: JsonObject): string[] {
    const listed = [card['supportedInterfaces'], card['additionalInterfaces']].flatMap(
      (list) => (list ?? []) as JsonObject[],
    );
    return [card['url'], ...listed.map(({ url }) => url)].filter((url) => typeof url === 'string');
  }
});

describe('the URLs of cards', () => {
  test('S-1, S1-36, C-28: at the well-known paths of the host, of the routing agent and of each agent', async () => {
    for (const [path, name] of [
      ['/.well-known/agent-card.json', 'Parley'],
      ['/.well-known/agent.json', 'Parley'],
      ['/a2a/.well-known/agent-card.json', 'Parley'],
      ['/a2a/.well-known/agent.json', 'Parley'],
      [PATH, 'Planner'],
      ['/a2a/planner/.well-known/agent.json', 'Planner'],
      ['/a2a/Planner/.well-known/agent.json', 'Planner'],
      ['/.well-known/agents/planner.json', 'Planner'],
    ]) {
      const { status, body } = await get(open.url + path);
      expect([status, body['name']]).toEqual([200, name]);
    }
  });

  test('an unknown agent is not found; an unreachable agent is unavailable', async () => {
    const unknown = await get(`${open.url}/a2a/nobody/.well-known/agent-card.json`);
    expect(unknown.status).toBe(404);
    expect((await get(`${open.url}/.well-known/agents/nobody.json`)).status).toBe(404);
    expect((await get(`${open.url}/a2a/away/.well-known/agent-card.json`)).status).toBe(503);
  });

  test('refuses a POST to a card', async () => {
    const response = await fetch(open.url + PATH, { method: 'POST', body: '{}' });
    expect([response.status, response.headers.get('allow')]).toEqual([405, 'GET, HEAD, OPTIONS']);
  });
});

describe('the form of a card (G-14)', () => {
  test('for readers of 1.0: only members of 1.0', async () => {
    const { body } = await get(open.url + PATH, { 'A2A-Version': '1.0' });
    expect(Object.keys(body)).not.toContain('url');
    expect(Object.keys(body)).not.toContain('protocolVersion');
    expect((body['supportedInterfaces'] as JsonObject[])[0]?.['url']).toBe(`${open.url}/a2a/planner`);
    for (const member of ['name', 'description', 'version', 'capabilities', 'defaultInputModes', 'skills'])
      expect(body).toHaveProperty(member);
    const asked = await get(`${open.url}${PATH}?A2A-Version=1.0.1`);
    expect(Object.keys(asked.body)).toEqual(Object.keys(body));
  });

  test('S-5: for readers of 0.3: the preferred transport belongs to the URL and is listed among the interfaces', async () => {
    const { body } = await get(open.url + PATH, { 'A2A-Version': '0.3' });
    const url = `${open.url}/a2a/planner`;
    expect(body).toMatchObject({ protocolVersion: '0.3.0', url, preferredTransport: 'JSONRPC' });
    expect(body['additionalInterfaces']).toEqual([
      { url, transport: 'JSONRPC' },
      { url, transport: 'HTTP+JSON' },
    ]);
    expect(body).not.toHaveProperty('supportedInterfaces');
  });

  test('for readers that name no version: both forms, including security schemes', async () => {
    const { body } = await get(guarded.url + PATH);
    expect(body).toMatchObject({ protocolVersion: '0.3.0', url: `${guarded.url}/a2a/planner` });
    expect(body['supportedInterfaces']).toHaveLength(4);
    expect(body['securitySchemes']).toMatchObject({
      bearer: { type: 'http', httpAuthSecurityScheme: { scheme: 'Bearer' } },
    });
    expect(body['security']).toEqual([{ bearer: [] }]);
    expect(body['securityRequirements']).toEqual([{ schemes: { bearer: {} } }]);
  });

  test('a future version gets both forms', async () => {
    const { status, body } = await get(open.url + PATH, { 'A2A-Version': '7.0' });
    expect([status, 'url' in body, 'supportedInterfaces' in body]).toEqual([200, true, true]);
  });

  test('S1-37: at the old path the form of 0.2 and 0.1, with a URL whose sibling is the extended card of this agent', async () => {
    const { body } = await get(`${guarded.url}/a2a/planner/.well-known/agent.json`);
    expect(body).toMatchObject({ protocolVersion: '0.2.6', authentication: { schemes: ['Bearer'] } });
    const extended = (url: JsonValue | undefined) =>
      new URL(`${String(url)}/../agent/authenticatedExtendedCard`).pathname;
    expect(extended(body['url'])).toBe('/a2a/planner/agent/authenticatedExtendedCard');
    const front = await get(`${guarded.url}/.well-known/agent.json`);
    expect(extended(front.body['url'])).toBe('/a2a/agent/authenticatedExtendedCard');
    const named = await get(guarded.url + PATH, { 'A2A-Version': '0.2' });
    expect(named.body['url']).toBe(body['url']);
    const oldest = await get(guarded.url + PATH, { 'A2A-Version': '0.1' });
    expect(oldest.body).toMatchObject({ authentication: { schemes: ['Bearer'] } });
  });

  test('C-28: a named version decides the form at either path', async () => {
    const { body } = await get(`${open.url}/a2a/planner/.well-known/agent.json`, { 'A2A-Version': '1.0' });
    expect(body).toHaveProperty('supportedInterfaces');
  });
});

describe('caching (S-4)', () => {
  test('sends an ETag and a lifetime, and answers 304 to the ETag', async () => {
    const first = await get(open.url + PATH);
    const etag = first.headers.get('etag')!;
    expect(first.headers.get('cache-control')).toBe('public, max-age=300');
    expect(first.headers.get('vary')).toContain('A2A-Version, Accept');
    const again = await get(open.url + PATH, { 'If-None-Match': `"other", ${etag}` });
    expect([again.status, again.headers.get('etag'), again.body]).toEqual([304, etag, {}]);
    const other = await get(open.url + PATH, { 'A2A-Version': '1.0', 'If-None-Match': etag });
    expect(other.status).toBe(200);
    expect(other.headers.get('etag')).not.toBe(etag);
  });

  test('a changed card has another ETag', async () => {
    const before = (await get(open.url + PATH)).headers.get('etag');
    const { card } = planner;
    planner.card = { ...card!, version: '2.2.0' };
    expect((await get(open.url + PATH)).headers.get('etag')).not.toBe(before);
    planner.card = card;
    expect((await get(open.url + PATH)).headers.get('etag')).toBe(before);
  });

  test('HEAD has the same headers and no body', async () => {
    const got = await get(open.url + PATH);
    const head = await fetch(open.url + PATH, { method: 'HEAD' });
    expect(await head.text()).toBe('');
    for (const name of ['etag', 'content-length', 'content-type'])
      expect(head.headers.get(name)).toBe(got.headers.get(name));
  });

  test('G-15: a response for one caller is marked as private', async () => {
    const { headers } = await get(guarded.url + PATH, bearer('ann'));
    expect(headers.get('cache-control')).toBe('private, max-age=300');
    expect(headers.get('vary')).toContain('Authorization');
    expect((await get(guarded.url + PATH)).headers.get('cache-control')).toBe('public, max-age=300');
  });

  test('the media type follows the Accept header', async () => {
    expect((await get(open.url + PATH)).headers.get('content-type')).toBe('application/json');
    const asked = await get(open.url + PATH, { Accept: 'application/a2a+json' });
    expect(asked.headers.get('content-type')).toBe('application/a2a+json');
  });
});

describe('access to cards (S-7, S-61, G-15)', () => {
  test('cards are public even if callers authenticate, and show anonymous readers only public agents', async () => {
    expect((await get(guarded.url + PATH)).status).toBe(200);
    expect((await get(`${guarded.url}/a2a/secret/.well-known/agent-card.json`)).status).toBe(404);
    expect((await get(`${guarded.url}/a2a/secret/.well-known/agent-card.json`, bearer('ann'))).status).toBe(200);
    expect((await get(guarded.url + PATH, bearer('bob'))).status).toBe(404);
  });

  test('cards can be restricted to authenticated callers', async () => {
    const closed = await stand({ auth: true, publicCards: false });
    try {
      const refused = await get(closed.url + PATH);
      expect([refused.status, refused.headers.get('www-authenticate')]).toEqual([401, 'Bearer realm="parley"']);
      expect((await get(`${closed.url}/.well-known/api-catalog`)).status).toBe(401);
      expect((await get(closed.url + PATH, bearer('ann'))).status).toBe(200);
      // A program that verifies a signature need not be a caller of the gateway.
      expect((await get(`${closed.url}/.well-known/jwks.json`)).status).toBe(200);
    } finally {
      await closed.close();
    }
  });

  test('G-13: the agent’s original card, with the result of its signature check, is for callers only', async () => {
    const path = '/a2a/planner/.well-known/original-card.json';
    expect((await get(guarded.url + path)).status).toBe(401);
    const { body } = await get(guarded.url + path, bearer('ann'));
    expect(body).toMatchObject({ agent: 'planner', signature: 'verified', card: { name: 'Planner' } });
    expect(JSON.parse(body['text'] as string)).toEqual(body['card']);
  });

  test('G-3: the catalog is for callers only', async () => {
    expect((await get(`${guarded.url}/a2a/agents`)).status).toBe(401);
    const { body } = await get(`${guarded.url}/a2a/agents?tag=chat`, bearer('ann'));
    expect((body['agents'] as JsonObject[]).map((agent) => agent['agent_id'])).toEqual(['secret']);
    const linkset = await get(`${guarded.url}/.well-known/api-catalog`);
    expect(linkset.headers.get('content-type')).toContain('application/linkset+json');
    expect(JSON.stringify(linkset.body)).not.toContain('secret');
  });
});

/** RFC 8785 for the content of cards, implemented independently of the tested code. */
function jcs(value: JsonValue | undefined): string {
  if (Array.isArray(value)) return `[${value.map((each) => jcs(each)).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const keys = Object.keys(value).sort();
  return `{${keys.map((key) => `${JSON.stringify(key)}:${jcs(value[key])}`).join(',')}}`;
}

describe('signatures (S-6, G-13)', () => {
  const published = async (url: string) => (await get(`${url}/.well-known/jwks.json`)).body as unknown as JSONWebKeySet;

  async function exact(url: string, body: JsonObject): Promise<boolean> {
    const { signatures, ...card } = body;
    const payload = Buffer.from(jcs(card)).toString('base64url');
    const keys = createLocalJWKSet(await published(url));
    for (const signature of signatures as { protected: string; signature: string }[]) {
      const held = await flattenedVerify({ ...signature, payload }, keys).then(
        ({ protectedHeader }) => protectedHeader,
        () => undefined,
      );
      if (held) return held.alg === 'ES256' && held.typ === 'JOSE' && held['jku'] === `${url}/.well-known/jwks.json`;
    }
    return false;
  }

  const bySdk = (url: string, card: JsonObject) =>
    verifyAgentCardSignature(async (kid) => {
      const key = (await published(url)).keys.find((each) => each.kid === kid);
      return importJWK(key!, 'ES256') as never;
    })(card as unknown as AgentCard);

  const shapes: [string, string, Record<string, string>][] = [
    ['1.0', PATH, { 'A2A-Version': '1.0' }],
    ['0.3', PATH, { 'A2A-Version': '0.3' }],
    ['hybrid', PATH, {}],
    ['front', '/.well-known/agent-card.json', {}],
    ['0.2', '/a2a/planner/.well-known/agent.json', {}],
  ];

  test.each(shapes)('%s: covers the canonical form of the sent card', async (_, path, headers) => {
    for (const { url } of [open, guarded, withGrpc]) {
      expect(await exact(url, (await get(url + path, headers)).body)).toBe(true);
    }
  });

  test.each(shapes.filter(([name]) => !name.startsWith('0')))('%s: verifies with the SDK', async (_, path, headers) => {
    for (const { url } of [open, guarded, withGrpc]) {
      await expect(bySdk(url, (await get(url + path, headers)).body)).resolves.toBeUndefined();
    }
  });

  test('a card without empty members has one canonical form, and one signature', async () => {
    const { body } = await get(`${open.url}/a2a/secret/.well-known/agent-card.json`, { 'A2A-Version': '1.0' });
    expect(body['signatures']).toHaveLength(1);
    expect(await exact(open.url, body)).toBe(true);
    await expect(bySdk(open.url, body)).resolves.toBeUndefined();
  });

  test('a modified card does not verify', async () => {
    const { body } = await get(open.url + PATH, { 'A2A-Version': '1.0' });
    const changed = { ...body, name: 'Planter' };
    expect(await exact(open.url, changed)).toBe(false);
    await expect(bySdk(open.url, changed)).rejects.toThrow('No valid signatures');
  });

  test('the keys are public keys', async () => {
    const { keys } = await published(open.url);
    expect(keys).toHaveLength(1);
    expect(keys[0]).toMatchObject({ kty: 'EC', crv: 'P-256', alg: 'ES256', use: 'sig' });
    expect(keys[0]).not.toHaveProperty('d');
  });
});

describe('read by the clients of each version', () => {
  const params = {
    message: {
      messageId: 'm',
      role: 'user' as const,
      kind: 'message' as const,
      parts: [{ kind: 'text' as const, text: 'x' }],
    },
  };

  test.each(['/a2a/planner', ''])('SDK 1.3.0 at "%s"', async (base) => {
    open.posts.length = 0;
    const client = await new ClientFactory().createFromUrl(`${open.url}${base}/`, '.well-known/agent-card.json');
    await client.getTask({ id: 't' } as never).catch(() => {});
    expect(open.posts).toEqual([`POST ${base || '/a2a'} 1.0`]);
  });

  test.each(['/a2a/planner', ''])('SDK 0.3.14 at "%s"', async (base) => {
    open.posts.length = 0;
    const client = await new ClientFactory03().createFromUrl(`${open.url}${base}/`, '.well-known/agent-card.json');
    await client.sendMessage(params).catch(() => {});
    expect(open.posts).toEqual([`POST ${base || '/a2a'} -`]);
  });

  test('SDK 1.3.0 with security', async () => {
    const client = await new ClientFactory().createFromUrl(
      `${guarded.url}/a2a/planner/`,
      '.well-known/agent-card.json',
    );
    const { agentCard } = client as unknown as { agentCard: AgentCard };
    expect(agentCard.securitySchemes['bearer']?.scheme).toMatchObject({ value: { scheme: 'Bearer' } });
    expect(agentCard.securityRequirements).toEqual([{ schemes: { bearer: { list: [] } } }]);
  });

  test('SDK 0.3.14 with security', async () => {
    const client = await new ClientFactory03().createFromUrl(
      `${guarded.url}/a2a/planner/`,
      '.well-known/agent-card.json',
    );
    const card = (client as unknown as { agentCard: JsonObject }).agentCard;
    expect(card['securitySchemes']).toMatchObject({ bearer: { type: 'http', scheme: 'Bearer' } });
  });

  test.each(['/a2a/planner', ''])('SDK 0.2.5 at "%s"', async (base) => {
    open.posts.length = 0;
    const client = new Client02(`${open.url}${base}`);
    expect((await client.getAgentCard()).name).toBe(base ? 'Planner' : 'Parley');
    await client.sendMessage(params as never).catch(() => {});
    expect(open.posts).toEqual([`POST ${base || '/a2a'}/rpc -`]);
  });
});

describe('behind a proxy', () => {
  const proxied = { 'x-forwarded-proto': 'https', 'x-forwarded-host': 'gateway.example' };
  const urlsIn = (text: string): string[] =>
    [...new Set([...text.matchAll(/(https?:\/\/[^/"]+)\/(?:a2a|\.well-known)/g)].map(([, origin]) => origin!))]
      // The URIs of the gateway's extensions.
      .filter((origin) => !origin.endsWith('parley.dev'))
      .sort();
  const read = async (given: Parameters<typeof stand>[0], path: string): Promise<{ own: string; urls: string[] }> => {
    const { url, close } = await stand(given);
    try {
      const response = await fetch(url + path, { headers: proxied });
      expect(response.status).toBe(200);
      return { own: url, urls: urlsIn(await response.text()) };
    } finally {
      await close();
    }
  };

  test.each([
    PATH,
    '/.well-known/agent-card.json',
    '/a2a/planner/.well-known/agent.json',
    '/a2a/agents',
    '/.well-known/api-catalog',
  ])('%s has the URL from the headers of a trusted proxy', async (path) => {
    expect((await read({ behind: 'free' }, path)).urls).toEqual(['https://gateway.example']);
  });

  test('has its own URL if the proxy is not trusted or a URL is configured', async () => {
    for (const given of [{}, { behind: 'fixed' as const }]) {
      const { own, urls } = await read(given, PATH);
      expect(urls).toEqual([own]);
    }
  });
});
