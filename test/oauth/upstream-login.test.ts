import { decodeJwt } from 'jose';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { begin, redeem } from './code-grant.js';
import { CLIENT, type OpenIdProvider, startOpenIdProvider } from './openid-provider.js';
import { type Page, PageReader } from './page-reader.js';
import { listTools, type OAuthGateway, parley, startOAuthGateway } from './stand.js';

let provider: OpenIdProvider;
let gateway: OAuthGateway;
beforeAll(async () => {
  provider = await startOpenIdProvider();
  gateway = await startOAuthGateway({
    builtin: {
      passwords: false,
      login: {
        issuer: provider.issuer,
        clientId: CLIENT.id,
        clientSecret: CLIENT.secret,
        name: 'Example Co',
        roles: [{ value: 'operators', role: 'admin' }],
        tenantClaim: 'org',
        allow: ['staff', 'operators'],
      },
    },
  });
}, 120_000);
afterAll(async () => {
  await gateway?.close();
  await provider?.close();
});
beforeEach(() => {
  Object.assign(provider, { iss: undefined, nonce: undefined });
  provider.claims = { sub: '0042', email: 'ada@example.com', groups: ['staff', 'operators'], org: 'acme' };
});

/** Goes to the other provider and stops at the URL with which it sends the browser back. */
async function elsewhere(reader: PageReader, url: string): Promise<string> {
  const page = await reader.get(url);
  const form = page.forms.find(({ action }) => action.endsWith('/elsewhere'))!;
  expect(form.buttons[0]?.text).toBe('Continue with Example Co');
  const there = await reader.submit(form);
  return (await fetch(there.url, { redirect: 'manual' })).headers.get('location')!;
}

const newReader = (): PageReader => new PageReader(gateway.url);

test('a user of another provider signs in; issuer, subject, roles and tenant come from the ID token', async () => {
  const flow = await begin(gateway);
  const reader = newReader();
  const consent: Page = await reader.get(await elsewhere(reader, flow.url.href));
  expect(consent.text).toContain('ada@example.com');
  const form = consent.forms.find(({ action }) => action.endsWith('/consent'))!;
  const back = new URL((await reader.submit(form, { decision: 'allow' })).url);
  const { access_token: token } = await redeem(gateway, flow, back.searchParams.get('code') ?? '');
  expect(decodeJwt(token)).toMatchObject({ sub: `${provider.issuer}#0042`, roles: ['admin'], tenant: 'acme' });
  expect((await listTools(gateway.mcp, token)).status).toBe(200);
  const { stdout } = await parley(['users', 'list', '--config', gateway.file, '--json']);
  expect(JSON.parse(stdout)).toMatchObject({ users: [{ id: `${provider.issuer}#0042`, name: 'ada@example.com' }] });
});

test.each(['https://other.example', null])(
  'S15: an answer with iss %s is refused, and its code is sent nowhere',
  async (iss) => {
    provider.iss = iss;
    const before = provider.redeemed.length;
    const reader = newReader();
    const page = await reader.get(await elsewhere(reader, (await begin(gateway)).url.href));
    expect(page.status).toBe(403);
    expect(page.text).toContain('does not come from Example Co');
    expect(provider.redeemed.length).toBe(before);
  },
);

test('S5: a state is valid once, and only in the browser that began the sign-in', async () => {
  const reader = newReader();
  const back = await elsewhere(reader, (await begin(gateway)).url.href);
  const before = provider.redeemed.length;
  expect((await newReader().get(back)).status).toBe(400);
  expect(provider.redeemed.length).toBe(before);
  // The request of the other browser has used the state.
  expect((await reader.get(back)).status).toBe(400);
  const again = await elsewhere(reader, (await begin(gateway)).url.href);
  expect((await reader.get(again)).status).toBe(200);
  expect((await reader.get(again)).status).toBe(400);
  expect((await reader.get(`${gateway.url}/oauth/callback?code=x&state=made-up`)).status).toBe(400);
});

test('an ID token with another nonce is refused', async () => {
  provider.nonce = 'of another sign-in';
  const reader = newReader();
  const page = await reader.get(await elsewhere(reader, (await begin(gateway)).url.href));
  expect(page.text).toContain('ID token of Example Co is not valid');
});

test.each([{ groups: ['visitors'] }, { groups: 'staff', org: undefined }])(
  'a user with %j is refused',
  async (claims) => {
    provider.claims = { ...provider.claims, ...claims };
    const reader = newReader();
    const page = await reader.get(await elsewhere(reader, (await begin(gateway)).url.href));
    expect(page.status).toBe(403);
    expect(page.text).toContain('Ask its administrator');
  },
);

test('passwords are switched off: the page has no form for one, and a forged form is refused', async () => {
  const reader = newReader();
  const page = await reader.get((await begin(gateway)).url.href);
  expect(page.forms.some(({ action }) => action.endsWith('/login'))).toBe(false);
  const own = { ...page.forms[0]!, action: page.forms[0]!.action.replace('/elsewhere', '/login') };
  expect((await reader.submit(own, { name: 'ada', password: 'whatever it is' })).status).toBe(400);
});
