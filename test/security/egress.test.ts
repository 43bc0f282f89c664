/**
 * S11: the gateway connects to no listener on this machine, whoever supplies the URL: 28 notations, rebinding,
 * redirects.
 */
import type { LookupAddress } from 'node:dns';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, FlattenedSign, generateKeyPair } from 'jose';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { issuerKeys } from '../../src/identity/caller-token-issuer.js';
import { TokenEndpoint } from '../../src/identity/upstream/token-endpoint.js';
import type { OAuthClientSettings } from '../../src/identity/upstream-credentials.js';
import { discover } from '../../src/identity/upstream-login/discovery.js';
import { type LoginSecret, renew } from '../../src/identity/upstream-login/login-tokens.js';
import { dial, grpcTarget } from '../../src/outbound/a2a/grpc-target.js';
import { Egress, type LookupAll } from '../../src/outbound/egress.js';
import { fetchJson, type HttpClient } from '../../src/outbound/http/index.js';
import { OAuthRequests } from '../../src/outbound/http/oauth-requests.js';
import { SafeHttp } from '../../src/outbound/safe-http.js';
import { post } from '../../src/outbound/webhooks/post.js';
import { canonicalForms } from '../../src/protocol/a2a/canonical-card.js';
import { CALLER, card, exchange, json, Stage, saying, TASK } from '../support/remote-agents.js';

/** Every notation of this machine: short, decimal, octal, hexadecimal, IPv6 with embedded IPv4, other digits, names. */
const SPELLINGS = [
  ...['127.0.0.1', '127.1', '127.0.1', '2130706433', '0x7f000001', '0x7f.0.0.1', '0177.0.0.1', '017700000001'],
  ...['0.0.0.0', '0', '127.255.255.254', '[::1]', '[::]', '[0:0:0:0:0:0:0:1]', '[::ffff:127.0.0.1]'],
  ...['[::ffff:7f00:1]', '[0:0:0:0:0:ffff:7f00:0001]', '[::ffff:0:7f00:1]', '[::7f00:1]', '[::127.0.0.1]'],
  ...['[64:ff9b::7f00:1]', '[2002:7f00:1::]', '①②⑦.⓪.⓪.①', '１２７.０.０.１', '127。0。0。1'],
  ...['localhost', 'localhost.', 'LOCALHOST'],
];

let canary: Server;
let port: number;
let hits = 0;

const stage = new Stage();
afterEach(() => stage.close());
beforeAll(async () => {
  canary = createServer((_, response) => response.end('{}'));
  canary.on('connection', () => hits++);
  await new Promise<void>((resolve) => canary.listen(0, '::', resolve));
  ({ port } = canary.address() as AddressInfo);
});
afterAll(async () => {
  canary.closeAllConnections();
  await new Promise((resolve) => canary.close(resolve));
});

interface Outbound {
  readonly egress: Egress;
  readonly client: HttpClient;
  readonly safe: SafeHttp;
  readonly lookup: LookupAll | undefined;
  readonly allowPrivate: boolean;
}

function around(lookup?: LookupAll, allowPrivate = false): Outbound {
  const egress = new Egress({ allowPrivate, ports: [port] }, lookup);
  const safe = new SafeHttp({ egress, connectTimeout: 2_000 });
  stage.later(() => safe.close());
  return { egress, client: safe.client, safe, lookup, allowPrivate };
}

/** Lets the gateway use a URL of this supplier. The result does not matter: the canary decides. */
type Supplier = (url: string, on: Outbound) => Promise<unknown>;

const settled = (work: () => unknown): Promise<unknown> => (async () => work())().catch((error: unknown) => error);

const webhook: Supplier = (url, { client }) =>
  settled(() => post(client, url, ['content-type', 'application/json'], Buffer.from('{}'), 2_000).answer);

/** The registration of a webhook is refused before anything is dialled. */
const registered: Supplier = (url, { egress, client }) =>
  settled(() => {
    egress.checkUrl(url);
    return post(client, url, [], Buffer.from('{}'), 2_000).answer;
  });

/** The port of the URL is allowed, so that only its address counts. */
const portsFor = (url: string): number[] => [port, ...(URL.canParse(url) ? [Number(new URL(url).port)] : [])];

const interfaceOfCard: Supplier = async (url, { lookup, allowPrivate }) => {
  const agent = await stage.server(({ path }, response) =>
    path.startsWith('/.well-known')
      ? json(response, card([{ url }]))
      : json(response, { jsonrpc: '2.0', id: 1, result: { task: TASK } }),
  );
  const hosts = URL.canParse(url) ? [new URL(url).hostname] : [];
  const built = stage.agent(agent.url, { hosts }, { allowPrivate, ports: portsFor(url), ...(lookup && { lookup }) });
  return settled(() => built.send(CALLER, saying('a'), exchange()));
};

const keysOfCard: Supplier = async (url, { lookup, allowPrivate }) => {
  const { privateKey, publicKey } = await generateKeyPair('ES256', { extractable: true });
  await exportJWK(publicKey);
  const agent = await stage.server(async (_, response, { url: own }) => {
    const unsigned = card([{ url: own }]);
    const signed = await new FlattenedSign(Buffer.from(canonicalForms(unsigned)[0]!))
      .setProtectedHeader({ alg: 'ES256', kid: 'k', typ: 'JOSE', jku: url })
      .sign(privateKey);
    json(response, { ...unsigned, signatures: [{ protected: signed.protected, signature: signed.signature }] });
  });
  const built = stage.agent(agent.url, {}, { allowPrivate, ports: portsFor(url), ...(lookup && { lookup }) });
  return settled(() => built.facts());
};

const oauthMetadata: Supplier = (url, { safe }) => settled(() => safe.fetch(url));

/** A gRPC channel dials by itself, so an address that it gets counts as a hit. */
const grpcInterface: Supplier = (url, { egress, client }) =>
  settled(async () => {
    await dial(grpcTarget(url.replace(/^https?:\/\//, '').replace(/\/.*$/, '')), egress, client.options);
    hits++;
  });

const SUPPLIERS: Readonly<Record<string, Supplier>> = {
  webhook,
  'registration of a webhook': registered,
  'interface of a card': interfaceOfCard,
  'keys of a card': keysOfCard,
  'OAuth metadata': oauthMetadata,
  'gRPC interface of a card': grpcInterface,
};

describe.each(Object.entries(SUPPLIERS))('S11: the URL of a %s', (name, supply) => {
  it('reaches this machine in none of 28 notations, over http and https', async () => {
    expect(new Set(SPELLINGS).size).toBe(28);
    hits = 0;
    for (const host of SPELLINGS) {
      const on = around();
      await supply(`http://${host}:${port}/x`, on);
      await supply(`https://${host}:${port}/x`, on);
      expect(hits, `${name}: ${host}`).toBe(0);
    }
  });

  it('is used where private addresses are allowed', async () => {
    hits = 0;
    await supply(`http://127.0.0.1:${port}/x`, around(undefined, true));
    expect(hits).toBeGreaterThan(0);
  });

  it('S1-64: reaches nothing by a name that resolves to this machine after the check', async () => {
    hits = 0;
    const answers: LookupAddress[][] = [
      [{ address: '127.0.0.1', family: 4 }],
      [{ address: '::1', family: 6 }],
      [
        { address: '93.184.216.34', family: 4 },
        { address: '127.0.0.1', family: 4 },
      ],
      [{ address: '::ffff:127.0.0.1', family: 6 }],
    ];
    for (const answer of answers) {
      const on = around((_, __, done) => done(null, answer));
      on.egress.checkUrl(`https://rebind.example:${port}/x`);
      await supply(`https://rebind.example:${port}/x`, on);
      await supply(`http://rebind.example:${port}/x`, on);
    }
    expect(hits).toBe(0);
  });
});

/** Further sources of URLs: the gateway follows no redirect of these URLs either. */
const REDIRECTING: Readonly<Record<string, Supplier>> = {
  webhook,
  'registration of a webhook': registered,
  'interface of a card': interfaceOfCard,
  'keys of a card': keysOfCard,
  'card of an agent': (url) => settled(() => stage.agent(url, {}, { allowPrivate: true, ports: [] }).facts()),
  'Client ID Metadata Document': oauthMetadata,
  'resource metadata': (url, { safe }) => {
    const challenge = { status: 401, header: `Bearer resource_metadata="${url}/metadata"` };
    return settled(() => discover({ url: `${url}/mcp`, settings: SETTINGS, challenge, fetch: safe.fetch }));
  },
  'metadata of an authorization server': (url, { safe }) =>
    settled(() =>
      discover({
        ...{ url: `${url}/mcp`, settings: { ...SETTINGS, issuer: url }, challenge: undefined },
        fetch: safe.fetchWith({ configured: { origin: new URL(url).origin, client: safe.client } }),
      }),
    ),
  'token endpoint that metadata names': (url, { safe }) => {
    const at = { server: url, tokenEndpoint: `${url}/token`, issuer: url } as unknown as LoginSecret['at'];
    const secret = { at, client: { client_id: 'a' } } as unknown as LoginSecret;
    return settled(() => renew(secret, 'refresh', safe.fetch, Date.now));
  },
  'registration endpoint': (url, { safe }) =>
    settled(() => safe.fetch(`${url}/register`, { method: 'POST', body: '{}' })),
  'token endpoint of the configuration': (url, { client }) =>
    settled(() =>
      new TokenEndpoint(new OAuthRequests(client), {
        ...{ tokenUrl: `${url}/token`, clientId: 'a', clientSecret: 'b' },
      } as unknown as OAuthClientSettings).request({ grant_type: 'client_credentials' }),
    ),
  'issuer of tokens': (url, { client }) => settled(() => issuerKeys(url, undefined, (at) => fetchJson(client, at))),
  'key set of an issuer': (url, { client }) =>
    settled(() => issuerKeys('https://issuer.example', `${url}/jwks`, (at) => fetchJson(client, at))),
};
const SETTINGS = { scopes: [], quirks: [] };

describe('S11: a redirect to this machine', () => {
  it.each(Object.keys(REDIRECTING))('is not followed for the %s', async (name) => {
    let status = 0;
    let asked = 0;
    const redirecting = createServer((_, response) => {
      asked++;
      response.writeHead(status, { location: `http://127.0.0.1:${port}/x` }).end();
    });
    await new Promise<void>((resolve) => redirecting.listen(0, '127.0.0.1', resolve));
    stage.later(() => {
      redirecting.closeAllConnections();
      redirecting.close();
    });
    const from = (redirecting.address() as AddressInfo).port;
    // This test allows the first request, so that its redirect arrives.
    const egress = new Egress({ allowPrivate: true, ports: [] });
    const safe = new SafeHttp({ egress, connectTimeout: 2_000 });
    stage.later(() => safe.close());
    hits = 0;
    for (status of [301, 302, 303, 307, 308]) {
      asked = 0;
      const on = { egress, client: safe.client, safe, lookup: undefined, allowPrivate: true };
      await REDIRECTING[name]!(`http://127.0.0.1:${from}`, on);
      expect(asked, `requests answered with ${status}`).toBeGreaterThan(0);
      expect(hits, `requests after ${status}`).toBe(0);
    }
  });
});

it('S9: other schemes are refused for every supplier', async () => {
  for (const url of ['javascript:alert(1)', 'file:///etc/passwd', '$(touch /tmp/x)', '--flag', 'data:text/plain,x']) {
    const { egress, safe } = around(undefined, true);
    expect(() => egress.checkUrl(url), url).toThrow();
    expect(() => egress.checkSecureUrl(url), url).toThrow();
    await expect(safe.fetch(url), url).rejects.toThrow();
  }
});
