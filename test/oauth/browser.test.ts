import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { type Browser, startBrowser } from '../support/browser.js';
import { begin, register } from './code-grant.js';
import { addUser, type OAuthGateway, PASSWORD, startOAuthGateway } from './stand.js';

let gateway: OAuthGateway;
let client: Server;
let redirect: string;
let clientId: string;
const browsers: Browser[] = [];

beforeAll(async () => {
  gateway = await startOAuthGateway();
  await addUser(gateway);
  // The client's own listener, to which the browser returns.
  client = createServer((_, res) => res.writeHead(200, { 'content-type': 'text/plain' }).end('done'));
  await new Promise<void>((resolve) => client.listen(0, '127.0.0.1', resolve));
  redirect = `http://127.0.0.1:${(client.address() as AddressInfo).port}/callback`;
  const registered = await register(gateway, { client_name: 'Notes for teams', redirect_uris: [redirect] });
  clientId = ((await registered.json()) as { client_id: string }).client_id;
}, 600_000);
afterEach(async () => {
  for (const browser of browsers.splice(0)) await browser.close();
});
afterAll(async () => {
  await gateway?.close();
  await new Promise((resolve) => client?.close(resolve));
});

async function open(options: Parameters<typeof startBrowser>[0] = {}): Promise<{ browser: Browser; page: Page }> {
  const browser = await startBrowser(options);
  browsers.push(browser);
  return { browser, page: await browser.page() };
}

const authorizeUrl = async (): Promise<string> => (await begin(gateway, { redirect_uri: redirect }, clientId)).url.href;

/** Saves screenshots for a person if PARLEY_PICTURES names a folder. */
async function picture(page: Page, name: string): Promise<void> {
  const folder = process.env['PARLEY_PICTURES'];
  if (folder !== undefined) await page.screenshot({ path: `${folder}/${name}.png`, fullPage: true });
}

/** An expression as text, because the types of a page are not those of Node. */
const focused = (page: Page): Promise<string> =>
  page.evaluate('document.activeElement.id || document.activeElement.textContent.trim()');

describe('the pages in a real browser', () => {
  test('a person signs in and allows the client with the keyboard only; no other host is asked for anything', async () => {
    const { browser, page } = await open();
    const messages: string[] = [];
    page.on('console', (message) => messages.push(message.text()));
    await page.goto(await authorizeUrl());
    await picture(page, 'login');
    expect(await focused(page)).toBe('name');
    await page.keyboard.type('ada');
    await page.keyboard.press('Tab');
    expect(await focused(page)).toBe('password');
    await page.keyboard.type('a wrong password');
    await page.keyboard.press('Enter');
    await page.waitForSelector('[role=alert]');
    await picture(page, 'login-wrong');
    expect(await page.textContent('[role=alert]')).toContain('wrong');
    // The name is kept, and the focus is in the field with the error.
    expect(await page.inputValue('#name')).toBe('ada');
    expect(await focused(page)).toBe('password');
    await page.keyboard.type(PASSWORD);
    await page.keyboard.press('Enter');
    await page.waitForSelector('text=Allow');
    await picture(page, 'consent');
    const text = (await page.textContent('main')) ?? '';
    expect(text).toContain('Notes for teams');
    expect(text).toContain(new URL(redirect).host);
    expect(text).toContain('runs on your computer');
    // Nothing has the focus, so that a second Enter on the previous page cannot allow anything.
    expect(await focused(page)).not.toBe('Allow');
    await page.keyboard.press('Tab');
    expect(await focused(page)).toBe('Allow');
    await page.keyboard.press('Tab');
    expect(await focused(page)).toBe('Refuse');
    await page.keyboard.press('Tab');
    expect(await focused(page)).toBe('Use another account');
    await page.keyboard.press('Shift+Tab');
    await page.keyboard.press('Shift+Tab');
    await page.keyboard.press('Enter');
    await page.waitForURL(`${redirect}**`);
    const back = new URL(page.url());
    expect(back.searchParams.get('code')).not.toBeNull();
    expect(back.searchParams.get('iss')).toBe(gateway.url);
    const hosts = new Set(browser.requests.map((url) => new URL(url).host));
    expect([...hosts].sort()).toEqual([new URL(gateway.url).host, new URL(redirect).host].sort());
    expect(messages.filter((message) => /Content Security Policy/.test(message))).toEqual([]);
  });

  test('the pages work on a phone, in the dark, and without scripts', async () => {
    const { page } = await open({ viewport: { width: 320, height: 568 }, javaScript: false });
    await page.emulateMedia({ colorScheme: 'dark' });
    await page.goto(await authorizeUrl());
    await picture(page, 'login-phone');
    const width = async (): Promise<number> => (await page.locator('main').boundingBox())?.width ?? 0;
    expect(await width()).toBeLessThanOrEqual(320);
    await page.fill('#name', 'ada');
    await page.fill('#password', PASSWORD);
    await page.click('button[type=submit]');
    await page.waitForSelector('text=Allow');
    await picture(page, 'consent-phone');
    expect(await width()).toBeLessThanOrEqual(320);
    const allow = await page.locator('button[value=allow]').boundingBox();
    expect(allow?.height).toBeGreaterThanOrEqual(44);
    await page.click('button[value=refuse]');
    await page.waitForURL(`${redirect}**`);
    expect(new URL(page.url()).searchParams.get('error')).toBe('access_denied');
  });

  test('two concurrent sign-ins in one browser both succeed', async () => {
    const { browser, page } = await open();
    const other = await browser.page();
    await page.goto(await authorizeUrl());
    await other.goto(await authorizeUrl());
    for (const each of [page, other]) {
      await each.fill('#name', 'ada');
      await each.fill('#password', PASSWORD);
      await each.click('button[type=submit]');
      await each.click('button[value=allow]');
      await each.waitForURL(`${redirect}**`);
      expect(new URL(each.url()).searchParams.get('code')).not.toBeNull();
    }
  });

  test('another user can sign in after the first one in the same browser', async () => {
    await addUser(gateway, 'grace');
    const { page } = await open();
    await page.goto(await authorizeUrl());
    await page.fill('#name', 'ada');
    await page.fill('#password', PASSWORD);
    await page.click('button[type=submit]');
    await page.click('text=Use another account');
    await page.fill('#name', 'grace');
    await page.fill('#password', PASSWORD);
    await page.click('button[type=submit]');
    await page.waitForSelector('text=Allow');
    expect(await page.textContent('main')).toContain('grace');
  });

  test('a sign-in that is over gets an explanation', async () => {
    const { page } = await open();
    const reply = await page.goto(`${gateway.url}/oauth/interaction/aaaaaaaaaaaaaaaaaaaaa`);
    expect(reply?.status()).toBe(400);
    await picture(page, 'over');
    expect(await page.textContent('main')).toContain('start the sign-in again');
  });
});
