/**
 * Two users at one server behind OAuth: both sign in on the pages of the gateway, at a genuine authorization server,
 * and every call carries the token of its own user.
 */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type RunningGateway, startGateway } from '../support/gateway.js';
import { LoginBrowser } from '../support/login-browser.mjs';
import { type ModernReply, modernRequest } from './modern-request.js';
import { type ProtectedServer, signInAs, startProtectedServer } from './protected-server.js';

const TOKENS = { ada: 'ada-8vX2mQ7pL4zN9rT6wK3s', ben: 'ben-5hJ1cF8yD2gB7nM4xR6q' } as const;
type User = keyof typeof TOKENS;

let server: ProtectedServer;
let gateway: RunningGateway;

beforeAll(async () => {
  server = await startProtectedServer();
  gateway = await startGateway(
    {
      auth: { tokens: Object.entries(TOKENS).map(([name, token]) => ({ name, token })) },
      servers: { notes: { url: server.url, auth: { oauth: { registration: 'auto' } } } },
      egress: { allowPrivate: true },
      // The operator has configured the server as one that gives every caller the same answer.
      plugins: [{ use: 'result-cache', tools: ['whoami'], cache: { shared: true } }],
    },
    { settled: false },
  );
});

afterAll(async () => {
  await gateway.close();
  await server.close();
});

const request = (user: User, method: string, params: object, capabilities: object = {}): Promise<ModernReply> =>
  modernRequest(`${gateway.url}/mcp/notes`, TOKENS[user], method, params, capabilities);

const URL_MODE = { elicitation: { url: {} } };
const linkIn = (text: string): string => /http:\S+\/connect\/\S+/.exec(text)?.[0] ?? '';
const codeIn = (text: string): string => /[A-Z0-9]{4}-[A-Z0-9]{4}/.exec(text)?.[0] ?? '';

describe('before the sign-in', () => {
  it('shows the server as one that needs a login, not as down', async () => {
    const health = await (
      await fetch(`${gateway.url}/health`, { headers: { authorization: `Bearer ${TOKENS.ada}` } })
    ).json();
    expect(health).toMatchObject({ status: 'ok', servers: { notes: 'login_required' } });
  });

  it('lists one tool, by which a user signs in', async () => {
    const { result } = await request('ada', 'tools/list', {});
    expect(result?.tools?.map(({ name }) => name)).toEqual(['sign_in']);
  });

  it('gives a link in the text, for tools, prompts and resources alike', async () => {
    const tool = await request('ben', 'tools/call', { name: 'whoami', arguments: {} });
    expect(tool.result?.isError).toBe(true);
    expect(linkIn(tool.result?.content?.[0]?.text ?? '')).toContain('/connect/notes?link=');
    for (const [method, params] of [
      ['prompts/get', { name: 'hello' }],
      ['resources/read', { uri: 'mine://data' }],
    ] as const) {
      const { error } = await request('ben', method, params);
      expect(error?.data?.reason).toBe('login_required');
      expect(linkIn(error?.message ?? '')).toContain('/connect/notes?link=');
    }
    expect(server.calls).toEqual([]);
  });

  it('asks a client with URL elicitation', async () => {
    for (const [method, params] of [
      ['tools/call', { name: 'whoami', arguments: {} }],
      ['prompts/get', { name: 'hello' }],
      ['resources/read', { uri: 'mine://data' }],
    ] as const) {
      const { result } = await request('ada', method, params, URL_MODE);
      expect(result?.['resultType']).toBe('input_required');
      expect(Object.values(result?.inputRequests ?? {})[0]?.params.url).toContain('/connect/notes?link=');
    }
  });
});

describe('S5: the page belongs to the user who asked', () => {
  it('requires the code that the client shows, and begins no sign-in without it', async () => {
    const { result } = await request('ada', 'tools/call', { name: 'whoami', arguments: {} }, URL_MODE);
    const { url, message } = Object.values(result!.inputRequests!)[0]!.params;
    expect(url).not.toContain(codeIn(message));
    const browser = new LoginBrowser();
    const consent = await browser.open(url);
    expect(consent.text).toContain('ada');
    expect(consent.text).toContain(new URL(server.issuer).host);
    expect(consent.headers.get('content-security-policy')).toContain("frame-ancestors 'none'");
    const wrong = await browser.submit(consent, { code: 'AAAA-BBBB' });
    expect(wrong.status).toBe(400);
    expect(wrong.text).not.toContain('http-equiv="refresh"');
  });

  it("refuses the form from another page, and the attacker's form in the browser of a victim", async () => {
    const { result } = await request('ada', 'tools/call', { name: 'whoami', arguments: {} }, URL_MODE);
    const { url, message } = Object.values(result!.inputRequests!)[0]!.params;
    const attacker = new LoginBrowser();
    const consent = await attacker.open(url);
    // The victim's browser has no cookie of the page, and another one after it saw the page itself.
    for (const victim of [new LoginBrowser(), await visited(url)]) {
      const page = await victim.submit(consent, { code: codeIn(message) });
      expect(page.status).toBe(400);
      expect(page.text).not.toContain('http-equiv="refresh"');
    }
  });

  it('keeps the link of one form from requests without a link', async () => {
    const { result } = await request('ada', 'tools/call', { name: 'whoami', arguments: {} }, URL_MODE);
    const consent = await new LoginBrowser().open(Object.values(result!.inputRequests!)[0]!.params.url);
    await new LoginBrowser().submit(consent, { code: 'AAAA-BBBB' });
    const page = await new LoginBrowser().open(`${gateway.url}/connect/notes`);
    expect(page.status).toBe(400);
    expect(page.text).not.toContain('ada');
  });

  async function visited(url: string): Promise<LoginBrowser> {
    const browser = new LoginBrowser();
    await browser.open(url);
    return browser;
  }

  it('refuses a forged link and a forged state', async () => {
    const browser = new LoginBrowser();
    expect((await browser.open(`${gateway.url}/connect/notes?link=AAAA`)).status).toBe(400);
    expect((await browser.open(`${gateway.url}/connect/callback?state=x&code=y`)).status).toBe(400);
    expect((await browser.open(`${gateway.url}/connect/other?link=AAAA`)).status).toBe(400);
  });

  it('accepts the answer once, and only in the browser that began the sign-in', async () => {
    const { result } = await request('ada', 'tools/call', { name: 'whoami', arguments: {} }, URL_MODE);
    const { url, message } = Object.values(result!.inputRequests!)[0]!.params;
    const browser = new LoginBrowser();
    const leaving = await browser.submit(await browser.open(url), { code: codeIn(message) });
    const next = /content="0;url=([^"]*)"/.exec(leaving.text)![1]!.replace(/&#38;/g, '&');
    const state = new URL(next).searchParams.get('state')!;
    const other = await new LoginBrowser().open(`${gateway.url}/connect/callback?state=${state}&code=stolen`);
    expect(other.status).toBe(400);
    expect(other.text).toContain('another browser');
    const again = await browser.open(`${gateway.url}/connect/callback?state=${state}&code=stolen`);
    expect(again.text).toContain('not known');
  });
});

describe('two users', () => {
  it('sign in, by the link in the text and by the question, and their calls run once', async () => {
    const first = await request('ada', 'tools/call', { name: 'whoami', arguments: { marker: 'first' } }, URL_MODE);
    const [key, { params }] = Object.entries(first.result!.inputRequests!)[0]!;
    const ada = new LoginBrowser();
    const done = await ada.signIn(params.url, { code: codeIn(params.message), atIssuer: signInAs(ada, 'ada-account') });
    expect(done.text).toContain('Signed in to notes');
    const continued = await request(
      'ada',
      'tools/call',
      {
        name: 'whoami',
        arguments: { marker: 'first' },
        requestState: first.result!.requestState,
        inputResponses: { [key]: { action: 'accept' } },
      },
      URL_MODE,
    );
    expect(continued.result?.content?.[0]?.text).toBe('ada-account first');
    expect(server.calls).toEqual([{ account: 'ada-account', marker: 'first' }]);

    const text = (await request('ben', 'tools/call', { name: 'sign_in', arguments: {} })).result!.content![0]!.text;
    const ben = new LoginBrowser();
    const ready = await ben.signIn(linkIn(text), { code: codeIn(text), atIssuer: signInAs(ben, 'ben-account') });
    expect(ready.text).toContain('Signed in to notes');
  });

  it('S27: see the lists of their own accounts', async () => {
    for (const user of ['ada', 'ben'] as const) {
      const { result } = await request(user, 'tools/list', {});
      expect(result?.tools?.map(({ name }) => name)).toEqual(['whoami', `only_${user}-account`]);
    }
  });

  it('S12: get no result of the other user from a shared cache', async () => {
    const ask = async (user: User) => {
      const { result } = await request(user, 'tools/call', { name: 'whoami', arguments: { marker: 'same' } });
      return { text: result?.content?.[0]?.text, cached: JSON.stringify(result).includes('cachedForSeconds') };
    };
    expect(await ask('ada')).toEqual({ text: 'ada-account same', cached: false });
    expect(await ask('ben')).toEqual({ text: 'ben-account same', cached: false });
    expect(await ask('ada')).toEqual({ text: 'ada-account same', cached: true });
  });

  it('S12: 200 concurrent calls carry the token of their own user, with sessions and without', async () => {
    const legacy = Object.fromEntries(
      await Promise.all(
        (['ada', 'ben'] as const).map(async (user) => {
          const client = new Client({ name: user, version: '1' }, { supportedProtocolVersions: ['2025-11-25'] });
          const headers = { authorization: `Bearer ${TOKENS[user]}` };
          const transport = new StreamableHTTPClientTransport(new URL(`${gateway.url}/mcp/notes`), {
            requestInit: { headers },
          });
          await client.connect(transport);
          return [user, client];
        }),
      ),
    ) as Record<User, Client>;
    const before = server.calls.length;
    const answers = await Promise.all(
      Array.from({ length: 200 }, async (_, index) => {
        const user: User = index % 2 === 0 ? 'ada' : 'ben';
        const marker = `${user}-${index}`;
        const args = { name: 'whoami', arguments: { marker } };
        const text =
          index % 4 < 2
            ? (await request(user, 'tools/call', args)).result?.content?.[0]?.text
            : ((await legacy[user].callTool(args)).content as { text: string }[])[0]?.text;
        return { expected: `${user}-account ${marker}`, text };
      }),
    );
    for (const { expected, text } of answers) expect(text).toBe(expected);
    const received = server.calls.slice(before);
    expect(received).toHaveLength(200);
    for (const { account, marker } of received) expect(marker.startsWith(account.replace('-account', ''))).toBe(true);
    expect(server.violations).toEqual([]);
    await Promise.all(Object.values(legacy).map((client) => client.close()));
  }, 60_000);

  it('renews a token that the server refuses, and repeats the call once', async () => {
    server.revoke('ada-account');
    const before = server.calls.length;
    const { result } = await request('ada', 'tools/call', { name: 'whoami', arguments: { marker: 'renewed' } });
    expect(result?.content?.[0]?.text).toBe('ada-account renewed');
    expect(server.calls.length - before).toBe(1);
  });

  it('keeps tokens, codes and links out of the log', () => {
    const log = gateway.log();
    expect(log).toContain('upstream.login');
    expect(log).not.toMatch(/link=|code_verifier|access_token|refresh_token/);
    for (const token of Object.values(TOKENS)) expect(log).not.toContain(token);
  });
});
