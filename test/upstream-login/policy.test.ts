/** Rules about single tools, at a server at which each user has its own account: only the user can read its lists. */
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
      policy: { rules: [{ name: 'ada reads', when: 'caller.subject == "ada" && tool == "whoami"', effect: 'allow' }] },
    },
    { settled: false },
  );
});

afterAll(async () => {
  await gateway?.close();
  await server?.close();
});

const request = (user: User, method: string, params: object, path = '/mcp'): Promise<ModernReply> =>
  modernRequest(`${gateway.url}${path}`, TOKENS[user], method, params);
const toolsOf = async (user: User): Promise<string[] | undefined> =>
  (await request(user, 'tools/list', {})).result?.tools?.map(({ name }) => name);
const call = async (user: User, name: string): Promise<string> => {
  const { result, error } = await request(user, 'tools/call', { name, arguments: {} });
  return result?.content?.[0]?.text ?? error?.message ?? '';
};
const linkIn = (text: string): string => /http:\S+\/connect\/\S+/.exec(text)?.[0] ?? '';
const codeIn = (text: string): string => /[A-Z0-9]{4}-[A-Z0-9]{4}/.exec(text)?.[0] ?? '';

describe('S3: a rule about one tool of a server at which users sign in', () => {
  it('leaves a user that may use the tool a way to sign in', async () => {
    expect(await toolsOf('ada')).toEqual(['notes__sign_in']);
    expect(linkIn(await call('ada', 'notes__whoami'))).toContain('/connect/notes?link=');
    expect(linkIn(await call('ada', 'notes__sign_in'))).toContain('/connect/notes?link=');
    expect(await call('ada', 'notes__only_ada-account')).toContain('Unknown tool');
  });

  it('hides the server and its sign-in from a user that may use nothing of the server', async () => {
    expect(await toolsOf('ben')).toEqual([]);
    for (const name of ['whoami', 'sign_in'])
      expect((await call('ben', `notes__${name}`)).replaceAll('notes', 'absent')).toBe(
        await call('ben', `absent__${name}`),
      );
    const [hidden, absent] = [
      await request('ben', 'tools/list', {}, '/mcp/notes'),
      await request('ben', 'tools/list', {}, '/mcp/absent'),
    ];
    expect(JSON.stringify(hidden).replaceAll('notes', 'absent')).toBe(JSON.stringify(absent));
  });

  it('shows and calls that tool after the sign-in, and no other', async () => {
    const text = await call('ada', 'notes__sign_in');
    const browser = new LoginBrowser();
    const page = await browser.signIn(linkIn(text), {
      code: codeIn(text),
      atIssuer: signInAs(browser, 'ada-account'),
    });
    expect(page.text).toContain('Signed in to notes');
    // A client repeats the call that gave it the link.
    expect(await call('ada', 'notes__sign_in')).toContain('You are signed in');
    expect(await toolsOf('ada')).toEqual(['notes__whoami']);
    expect(await call('ada', 'notes__whoami')).toContain('ada-account');
    expect(await call('ada', 'notes__only_ada-account')).toContain('Unknown tool');
    expect(server.calls.map(({ account }) => account)).toEqual(['ada-account']);
    expect(await toolsOf('ben')).toEqual([]);
  });
});
