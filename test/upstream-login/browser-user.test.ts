/**
 * S5: with the built-in authorization server, the connect page knows the user of the browser by its session there. Only
 * the user who asked for the link gets to the authorization server of the upstream.
 */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { begin, REDIRECT_URI, redeem } from '../oauth/code-grant.js';
import { allow, PageReader } from '../oauth/page-reader.js';
import { addUser, type OAuthGateway, OPERATOR, PASSWORD, startOAuthGateway } from '../oauth/stand.js';
import { type Browser, startBrowser } from '../support/browser.js';
import { LoginBrowser, type Page } from '../support/login-browser.mjs';
import { modernRequest } from './modern-request.js';
import { type ProtectedServer, signInAs, startProtectedServer } from './protected-server.js';

const USERS = ['ada', 'ben'] as const;
type User = (typeof USERS)[number];

let server: ProtectedServer;
let gateway: OAuthGateway;
const tokens = {} as Record<User, string>;
const browsers: Browser[] = [];

beforeAll(async () => {
  server = await startProtectedServer();
  gateway = await startOAuthGateway({
    settled: false,
    config: {
      servers: { notes: { url: server.url, auth: { oauth: { registration: 'auto' } } } },
      egress: { allowPrivate: true },
    },
  });
  for (const name of USERS) {
    await addUser(gateway, name);
    const flow = await begin(gateway, { redirect_uri: REDIRECT_URI });
    const back = await allow(new PageReader(gateway.url), flow.url.href, { name, password: PASSWORD });
    tokens[name] = (await redeem(gateway, flow, back.searchParams.get('code') ?? '')).access_token;
  }
}, 120_000);
afterEach(async () => {
  for (const browser of browsers.splice(0)) await browser.close();
});
afterAll(async () => {
  await gateway?.close();
  await server?.close();
});

/** The link and the text around it that a client of this caller shows. */
async function linkFor(token: string): Promise<{ link: string; text: string }> {
  const { result } = await modernRequest(`${gateway.url}/mcp/notes`, token, 'tools/call', {
    name: 'sign_in',
    arguments: {},
  });
  const text = result?.content?.[0]?.text ?? '';
  return { text, link: /http:\S+\/connect\/\S+/.exec(text)?.[0] ?? '' };
}

/** Signs in at the gateway if its login page is shown. */
async function asUser(browser: LoginBrowser, page: Page, name: User): Promise<Page> {
  return page.url.includes('/oauth/interaction/') ? browser.submit(page, { name, password: PASSWORD }) : page;
}

describe('S5: the connect page identifies the browser', () => {
  it('leads a browser without a session to the sign-in of the gateway, then to the page, without a code', async () => {
    const { link, text } = await linkFor(tokens.ada);
    expect(text).not.toMatch(/[A-Z0-9]{4}-[A-Z0-9]{4}/);
    const browser = new LoginBrowser();
    const login = await browser.open(link);
    expect(login.url).toContain('/oauth/interaction/');
    expect(login.text).toContain('This gateway has to know who you are');
    const consent = await asUser(browser, login, 'ada');
    expect(consent.url).toContain('/connect/notes?link=');
    expect(consent.url).not.toContain('code=');
    expect(consent.text).toContain('You will sign in at');
    expect(consent.text).not.toContain('name="code"');
    // The session is kept: the next link needs no password.
    const again = await browser.open((await linkFor(tokens.ada)).link);
    expect(again.text).toContain('You will sign in at');
  });

  it('refuses another user with a reason, before and after the form, and offers to sign in as the right one', async () => {
    const { link } = await linkFor(tokens.ada);
    const ben = new LoginBrowser();
    const refused = await asUser(ben, await ben.open(link), 'ben');
    expect(refused.status).toBe(403);
    expect(refused.text).toContain('belongs to the gateway user &#34;ada&#34;');
    expect(refused.text).not.toContain('You will sign in at');
    expect(refused.text).not.toContain('<form');

    // Ada's form in Ben's browser.
    const ada = new LoginBrowser();
    const consent = await asUser(ada, await ada.open(link), 'ada');
    const forged = await ben.submit(consent);
    expect(forged.status).toBe(400);
    expect(forged.text).not.toContain('http-equiv="refresh"');

    // Now Ada uses Ben's browser.
    const next = /href="([^"]*\/oauth\/authorize[^"]*)"/.exec(refused.text)?.[1]?.replace(/&#38;/g, '&') ?? '';
    const page = await asUser(ben, await ben.open(next), 'ada');
    expect(page.status).toBe(200);
    expect(page.text).toContain('You will sign in at');
  });

  it('a made-up code gives no token, and a return with a forged state is refused', async () => {
    const browser = new LoginBrowser();
    for (const state of ['', 'AAAA', 'https://evil.example/']) {
      const page = await browser.open(`${gateway.url}/connect/return?code=x&state=${encodeURIComponent(state)}`);
      expect(page.status).toBe(400);
      expect(page.url.startsWith(gateway.url)).toBe(true);
    }
    const redeemed = await fetch(`${gateway.url}/oauth/token`, {
      method: 'POST',
      body: new URLSearchParams({
        grant_type: 'authorization_code',
        client_id: 'parley',
        code: 'x',
        code_verifier: 'x'.repeat(43),
        redirect_uri: `${gateway.url}/connect/return`,
      }),
    });
    expect(redeemed.status).toBe(400);
  });

  it('a caller without a login at the gateway still proves itself by the code', async () => {
    const { link, text } = await linkFor(OPERATOR);
    const code = /[A-Z0-9]{4}-[A-Z0-9]{4}/.exec(text)?.[0] ?? '';
    const browser = new LoginBrowser();
    const page = await browser.open(link);
    expect(page.text).toContain('name="code"');
    const done = await browser.signIn(link, { code, atIssuer: signInAs(browser, 'operator-account') });
    expect(done.text).toContain('Signed in to notes');
  });

  it('in a real browser: login page, consent page, refusal of another user', async () => {
    const { link } = await linkFor(tokens.ada);
    for (const [name, expected] of [
      ['ben', 'belongs to the gateway user'],
      ['ada', 'You will sign in at'],
    ] as const) {
      const browser = await startBrowser({ javaScript: false });
      browsers.push(browser);
      const page = await browser.page();
      await page.goto(`${link}`);
      await page.fill('#name', name);
      await page.fill('#password', PASSWORD);
      await page.keyboard.press('Enter');
      await page.waitForURL('**/connect/notes?link=*');
      expect(await page.textContent('main')).toContain(expected);
      expect(browser.requests.every((url) => url.startsWith(gateway.url) || url.startsWith('data:'))).toBe(true);
    }
  });

  it('both users sign in, and each call carries the token of its own user', async () => {
    for (const name of USERS) {
      const browser = new LoginBrowser();
      const { link } = await linkFor(tokens[name]);
      await asUser(browser, await browser.open(link), name);
      const done = await browser.signIn(link, { atIssuer: signInAs(browser, `${name}-account`) });
      expect(done.text).toContain('Signed in to notes');
    }
    for (const name of USERS) {
      const { result } = await modernRequest(`${gateway.url}/mcp/notes`, tokens[name], 'tools/call', {
        name: 'whoami',
        arguments: { marker: name },
      });
      expect(result?.content?.[0]?.text).toBe(`${name}-account ${name}`);
    }
  });
});
