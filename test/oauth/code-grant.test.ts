import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { decodeJwt } from 'jose';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.js';
import { begin, REDIRECT_URI, redeem, refresh, register, tokens } from './code-grant.js';
import { allow, PageReader } from './page-reader.js';
import { addUser, listen, listTools, type OAuthGateway, OPERATOR, PASSWORD, startOAuthGateway } from './stand.js';

const ADA = { name: 'ada', password: PASSWORD };

let gateway: OAuthGateway;
beforeAll(async () => {
  gateway = await startOAuthGateway();
  await addUser(gateway);
}, 120_000);
afterAll(() => gateway?.close());

const newReader = (): PageReader => new PageReader(gateway.url);
const json = async (path: string): Promise<Record<string, unknown>> =>
  (await fetch(gateway.url + path)).json() as Promise<Record<string, unknown>>;

async function code(change: Record<string, string | undefined> = {}) {
  const flow = await begin(gateway, change);
  const back = await allow(newReader(), flow.url.href, ADA);
  return { flow, back, code: back.searchParams.get('code') ?? '' };
}

describe('metadata', () => {
  test('AUR-01 S0-46 S1-09: RFC 8414 and OpenID documents name the issuer, PKCE S256, registration, and iss', async () => {
    for (const path of ['/.well-known/oauth-authorization-server', '/.well-known/openid-configuration']) {
      expect(await json(path)).toMatchObject({
        issuer: gateway.url,
        authorization_endpoint: `${gateway.url}/oauth/authorize`,
        token_endpoint: `${gateway.url}/oauth/token`,
        registration_endpoint: `${gateway.url}/oauth/register`,
        revocation_endpoint: `${gateway.url}/oauth/revoke`,
        jwks_uri: `${gateway.url}/oauth/jwks`,
        response_types_supported: ['code'],
        code_challenge_methods_supported: ['S256'],
        authorization_response_iss_parameter_supported: true,
        client_id_metadata_document_supported: true,
      });
    }
  });

  test('names only what the gateway serves', async () => {
    const document = await json('/.well-known/oauth-authorization-server');
    const { paths } = (await json('/openapi.json')) as { paths: object };
    const endpoints = Object.entries(document).filter(([name]) => /_endpoint$|^jwks_uri$/.test(name));
    expect(endpoints.length).toBeGreaterThanOrEqual(5);
    for (const [name, url] of endpoints)
      expect([name, Object.keys(paths)]).toEqual([name, expect.arrayContaining([new URL(String(url)).pathname])]);
    expect(document).not.toHaveProperty('dpop_signing_alg_values_supported');
    expect(document['response_modes_supported']).toEqual(['fragment', 'query']);
  });

  test('a response mode whose page could not run is refused, and the client is told', async () => {
    const { back } = await code({ response_mode: 'form_post' });
    expect(back.origin).toBe(new URL(REDIRECT_URI).origin);
    expect(back.searchParams.get('error')).toBe('unsupported_response_mode');
    const { back: other } = await code({ response_mode: 'fragment' });
    expect(new URLSearchParams(other.hash.slice(1)).get('code')).toMatch(/^[\w-]{20,}$/);
  });

  test('S14: a call without a token gets the address where a token is issued', async () => {
    const reply = await fetch(gateway.mcp, { method: 'POST', body: '{}' });
    expect(reply.status).toBe(401);
    const header = reply.headers.get('www-authenticate') ?? '';
    expect(header).toContain(`resource_metadata="${gateway.url}/.well-known/oauth-protected-resource/mcp"`);
    expect(header).toContain('scope="mcp"');
    expect(await json('/.well-known/oauth-protected-resource/mcp')).toMatchObject({
      resource: gateway.mcp,
      authorization_servers: [gateway.url],
    });
  });

  test('a request for a code without parameters changes no other request', async () => {
    expect((await fetch(`${gateway.url}/oauth/authorize`, { redirect: 'manual' })).status).toBe(400);
    const headers = { authorization: `Bearer ${OPERATOR}` };
    expect((await fetch(`${gateway.url}/api/v1/sessions`, { headers })).status).toBe(200);
  });

  test('no private key is published', async () => {
    expect(JSON.stringify(await json('/oauth/jwks'))).not.toMatch(/"d":/);
  });
});

describe('codes and tokens', () => {
  test('RFC 8707: a token is valid for the requested resource, and for no other', async () => {
    const { flow, back, code: given } = await code({ resource: `${gateway.url}/mcp/units` });
    expect(back.searchParams.get('iss')).toBe(gateway.url);
    expect(back.searchParams.get('state')).toBe('state-of-the-client');
    const { access_token: token } = await redeem(gateway, flow, given);
    expect(decodeJwt(token)).toMatchObject({
      iss: gateway.url,
      aud: `${gateway.url}/mcp/units`,
      sub: 'ada',
      scope: 'mcp',
    });
    expect((await listTools(`${gateway.url}/mcp/units`, token)).status).toBe(200);
    expect((await listTools(gateway.mcp, token)).status).toBe(401);
  });

  test('a client that names no resource and no scope gets a token for the whole gateway', async () => {
    const { flow, code: given } = await code({ resource: undefined });
    const { access_token: token } = await redeem(gateway, flow, given);
    expect((await listTools(gateway.mcp, token)).status).toBe(200);
  });

  test.each(['https://elsewhere.example/mcp', 'http://127.0.0.1:1/mcp'])(
    'the resource %s is refused',
    async (resource) => {
      const { url } = await begin(gateway, { resource });
      const page = await newReader().get(url.href);
      expect(new URL(page.url).searchParams.get('error')).toBe('invalid_target');
    },
  );

  test('S5: a code is valid once; its second use revokes the tokens of the first one', async () => {
    const { flow, code: given } = await code();
    const first = await redeem(gateway, flow, given);
    expect(first.status).toBe(200);
    expect((await listTools(gateway.mcp, first.access_token)).status).toBe(200);
    expect(await redeem(gateway, flow, given)).toMatchObject({ status: 400, error: 'invalid_grant' });
    await eventually(
      () => listTools(gateway.mcp, first.access_token),
      ({ status }) => status === 401,
      1_000,
    );
    expect(await refresh(gateway, flow.client, first.refresh_token)).toMatchObject({ error: 'invalid_grant' });
  });

  test('S17: revoking a token ends the streams that listen with it', async () => {
    await addUser(gateway, 'dora');
    const flow = await begin(gateway);
    const back = await allow(newReader(), flow.url.href, { name: 'dora', password: PASSWORD });
    const { access_token: token } = await redeem(gateway, flow, back.searchParams.get('code') ?? '');
    const stream = await listen(gateway.mcp, token);
    expect([stream.status, stream.headers.get('content-type')]).toEqual([200, 'text/event-stream']);
    const form = new URLSearchParams({ token, client_id: flow.client });
    expect((await fetch(`${gateway.url}/oauth/revoke`, { method: 'POST', body: form })).status).toBe(200);
    await expect(stream.text()).rejects.toThrow();
  });

  test('S5: of many requests with one code at the same time at most one gets tokens', async () => {
    const { flow, code: given } = await code();
    const all = await Promise.all(Array.from({ length: 8 }, () => redeem(gateway, flow, given)));
    expect(all.filter(({ status }) => status === 200).length).toBeLessThanOrEqual(1);
    expect(all.every(({ status, error }) => status === 200 || error === 'invalid_grant')).toBe(true);
  });

  test('the second use of a refresh token revokes the grant', async () => {
    const { flow, code: given } = await code();
    const first = await redeem(gateway, flow, given);
    const second = await refresh(gateway, flow.client, first.refresh_token);
    expect(second.status).toBe(200);
    expect(await refresh(gateway, flow.client, first.refresh_token)).toMatchObject({ error: 'invalid_grant' });
    expect(await refresh(gateway, flow.client, second.refresh_token)).toMatchObject({ error: 'invalid_grant' });
    await eventually(
      () => listTools(gateway.mcp, second.access_token),
      ({ status }) => status === 401,
      1_000,
    );
  });

  test('S15 S0-47: PKCE is required, with S256, and the verifier must fit', async () => {
    const bare = await begin(gateway, { code_challenge: undefined, code_challenge_method: undefined });
    const plain = await begin(gateway, { code_challenge_method: 'plain' });
    for (const { url } of [bare, plain]) {
      const page = await newReader().get(url.href);
      expect(new URL(page.url).searchParams.get('error')).toBe('invalid_request');
    }
    const { flow, code: given } = await code();
    expect(await redeem(gateway, { ...flow, verifier: 'x'.repeat(43) }, given)).toMatchObject({
      error: 'invalid_grant',
    });
  });

  test('a code of one client is refused for another client', async () => {
    const { flow, code: given } = await code();
    const other = (await (await register(gateway)).json()) as { client_id: string };
    expect(await redeem(gateway, { ...flow, client: other.client_id }, given)).toMatchObject({
      error: 'invalid_grant',
    });
  });
});

describe('S5: the browser that began a sign-in ends it', () => {
  test('a resume URL of another browser gives 400 and no code', async () => {
    const { url } = await begin(gateway);
    const attacker = newReader();
    const login = await attacker.get(url.href);
    const form = login.forms.find(({ action }) => action.endsWith('/login'))!;
    const consent = await attacker.submit(form, ADA);
    const uid = /interaction\/([\w-]+)/.exec(consent.forms[0]!.action)![1]!;
    for (const path of [`/oauth/authorize/${uid}`, `/oauth/interaction/${uid}`]) {
      const page = await newReader().get(gateway.url + path);
      expect(page.status).toBe(400);
      expect(page.url).toBe(gateway.url + path);
      expect(page.text).not.toContain('code=');
    }
    // Knowing the id does not help: the cookie is a keyed digest.
    const guessing = newReader();
    guessing.cookies.set(`parley_flow.${uid}`, uid).set('parley_resume', uid).set('parley_interaction', uid);
    expect((await guessing.get(`${gateway.url}/oauth/authorize/${uid}`)).status).toBe(400);
  });

  test('a form without the token of its page is refused', async () => {
    const { url } = await begin(gateway);
    const reader = newReader();
    const login = await reader.get(url.href);
    const form = login.forms.find(({ action }) => action.endsWith('/login'))!;
    const page = await reader.submit({ ...form, fields: {} }, { ...ADA, token: 'x'.repeat(43) });
    expect(page.status).toBe(400);
  });

  test('consent is asked for every client, and refusal tells the client', async () => {
    const reader = newReader();
    const first = await begin(gateway);
    await allow(reader, first.url.href, ADA);
    const second = await begin(gateway);
    const page = await reader.get(second.url.href);
    const consent = page.forms.find(({ action }) => action.endsWith('/consent'))!;
    expect(page.text).toContain('client.example');
    const back = new URL((await reader.submit(consent, { decision: 'refuse' })).url);
    expect(back.searchParams.get('error')).toBe('access_denied');
    expect(back.searchParams.get('iss')).toBe(gateway.url);
  });

  test.each([`${REDIRECT_URI}/more`, `${REDIRECT_URI}?x=1`, 'https://client.example.evil/callback'])(
    'the redirect URI %s is not the registered one: 400, and no redirect',
    async (redirect) => {
      const { url } = await begin(gateway, { redirect_uri: redirect });
      const page = await newReader().get(url.href);
      expect(page.status).toBe(400);
      expect(page.url).toBe(url.href);
    },
  );

  test('pages load nothing, run nothing, and cannot be framed', async () => {
    const { url } = await begin(gateway);
    const page = await newReader().get(url.href);
    const policy = page.headers.get('content-security-policy') ?? '';
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).not.toContain('unsafe');
    expect(page.headers.get('cache-control')).toBe('no-store');
    expect(page.text).not.toMatch(/<script|style="|onclick|https?:\/\/(?!client\.example)/);
  });
});

describe('registration', () => {
  test.each(['javascript:alert(1)', 'data:text/html,x', 'file:///etc/passwd', 'http://client.example/x'])(
    'S9: the redirect URI %s is refused',
    async (uri) => {
      const reply = await register(gateway, { redirect_uris: [uri] });
      expect(reply.status).toBe(400);
      expect(await reply.json()).toHaveProperty('error');
    },
  );

  test('a name is shown as text', async () => {
    const name = '<img src=x onerror=alert(1)>\u202egnp';
    const { client_id: id } = (await (await register(gateway, { client_name: name })).json()) as { client_id: string };
    const page = await newReader().get((await begin(gateway, {}, id)).url.href);
    expect(page.text).toContain('&lt;img src=x onerror=alert(1)&gt;\ufffdgnp');
  });

  test('a body over the limit is refused', async () => {
    const reply = await register(gateway, { client_name: 'x'.repeat(100_000) });
    expect(reply.status).toBe(413);
    expect(await reply.json()).toEqual({
      error: 'invalid_request',
      error_description: 'The body exceeds 57344 bytes',
    });
  });
});

describe('S16: client metadata documents', () => {
  test('a client_id at a private address: no connection is made', async () => {
    let connections = 0;
    const canary = createServer((socket) => {
      connections++;
      socket.destroy();
    });
    await new Promise<void>((resolve) => canary.listen(0, '127.0.0.1', resolve));
    const { port } = canary.address() as AddressInfo;
    for (const id of [
      `https://127.0.0.1:${port}/client.json`,
      `https://localhost:${port}/client.json`,
      `https://[::ffff:127.0.0.1]:${port}/client.json`,
      `https://2130706433:${port}/client.json`,
      'https://169.254.169.254/client.json',
      `http://127.0.0.1:${port}/client.json`,
    ]) {
      const page = await newReader().get((await begin(gateway, {}, id)).url.href);
      expect(page.status).toBe(400);
      expect(page.text).toContain('invalid_client');
    }
    expect(connections).toBe(0);
    await new Promise((resolve) => canary.close(resolve));
  });
});

describe('logins', () => {
  const attempt = async (name: string, password: string): Promise<number> => {
    const reader = newReader();
    const page = await reader.get((await begin(gateway)).url.href);
    return (await reader.submit(page.forms[0]!, { name, password })).status;
  };

  test('a wrong password and an unknown user look the same, and many attempts are refused for a while', async () => {
    await addUser(gateway, 'bob');
    const reader = newReader();
    const page = await reader.get((await begin(gateway)).url.href);
    const wrong = await reader.submit(page.forms[0]!, { name: 'bob', password: 'wrong' });
    const unknown = await reader.submit(page.forms[0]!, { name: 'nobody', password: 'wrong' });
    expect(wrong.status).toBe(401);
    expect(unknown.text.replaceAll('nobody', 'bob')).toBe(wrong.text);
    const statuses: number[] = [];
    for (let i = 0; i < 10; i++) statuses.push(await attempt('bob', 'wrong'));
    expect(statuses.slice(0, 9).every((status) => status === 401)).toBe(true);
    expect(statuses[9]).toBe(429);
    // Another user of the same address is not affected.
    expect(await attempt('ada', 'wrong')).toBe(401);
  }, 60_000);

  test('a browser in which the user has signed in before is not locked out by others', async () => {
    await addUser(gateway, 'carol');
    const known = newReader();
    await allow(known, (await begin(gateway)).url.href, { name: 'carol', password: PASSWORD });
    for (let i = 0; i < 11; i++) await attempt('carol', 'wrong');
    expect(await attempt('carol', PASSWORD)).toBe(429);
    for (const name of [...known.cookies.keys()]) if (!name.endsWith('device')) known.cookies.delete(name);
    const back = await allow(known, (await begin(gateway)).url.href, { name: 'carol', password: PASSWORD });
    expect(back.searchParams.get('code')).not.toBeNull();
  }, 60_000);
});

test('an unknown grant type is refused as RFC 6749 says', async () => {
  expect(await tokens(gateway, { grant_type: 'password', username: 'ada', password: PASSWORD })).toMatchObject({
    status: 400,
  });
});
