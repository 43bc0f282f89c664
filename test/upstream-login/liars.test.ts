/** Servers and authorization servers that send wrong data: no forged address is used, and no secret reaches them. */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { promisify } from 'node:util';
import { afterEach, describe, expect, it } from 'vitest';
import { BIN, type RunningGateway, startGateway } from '../support/gateway.js';
import { LoginBrowser, type Page } from '../support/login-browser.mjs';

type Json = Record<string, unknown>;

interface Liar {
  /** The MCP server. */
  readonly url: string;
  readonly issuer: string;
  /** The paths that were requested at the authorization server. */
  readonly paths: string[];
  /** The bodies of token requests. */
  readonly tokenRequests: string[];
}

const cleanups: (() => Promise<unknown> | unknown)[] = [];
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean();
});

async function listening(handle: (req: IncomingMessage, res: ServerResponse) => void): Promise<string> {
  const server: Server = createServer(handle).listen(0, '127.0.0.1');
  await once(server, 'listening');
  cleanups.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const json = (res: ServerResponse, status: number, body: object): void => {
  res.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body));
};

/**
 * `metadata` changes the metadata of the authorization server, `resource` that of the server, `answer` the redirect.
 */
async function startLiar(
  lie: { metadata?: (issuer: string) => Json; resource?: Json; answer?: (back: URL, issuer: string) => void } = {},
): Promise<Liar> {
  const paths: string[] = [];
  const tokenRequests: string[] = [];
  const issuer: string = await listening((req, res) => {
    const url = new URL(req.url ?? '/', issuer);
    paths.push(url.pathname);
    if (url.pathname === '/.well-known/oauth-authorization-server')
      json(res, 200, {
        issuer,
        authorization_endpoint: `${issuer}/authorize`,
        token_endpoint: `${issuer}/token`,
        registration_endpoint: `${issuer}/register`,
        response_types_supported: ['code'],
        code_challenge_methods_supported: ['S256'],
        authorization_response_iss_parameter_supported: true,
        ...lie.metadata?.(issuer),
      });
    else if (url.pathname === '/register')
      json(res, 201, { client_id: 'registered', redirect_uris: ['http://127.0.0.1/'] });
    else if (url.pathname === '/authorize') {
      const back = new URL(url.searchParams.get('redirect_uri')!);
      back.searchParams.set('state', url.searchParams.get('state')!);
      back.searchParams.set('code', 'the-code');
      back.searchParams.set('iss', issuer);
      lie.answer?.(back, issuer);
      res.writeHead(302, { Location: back.href }).end();
    } else if (url.pathname === '/token') {
      let body = '';
      req.on('data', (chunk: Buffer) => (body += chunk.toString()));
      req.on('end', () => {
        tokenRequests.push(body);
        json(res, 200, { access_token: 'a-token', token_type: 'Bearer', expires_in: 3600 });
      });
    } else json(res, 404, {});
  });
  const origin: string = await listening((req, res) => {
    if (req.url?.startsWith('/.well-known/oauth-protected-resource'))
      json(res, 200, { resource: `${origin}/mcp`, authorization_servers: [issuer], ...lie.resource });
    else res.writeHead(401, { 'WWW-Authenticate': 'Bearer' }).end();
  });
  return { url: `${origin}/mcp`, issuer, paths, tokenRequests };
}

async function gatewayFor(
  liars: Liar | readonly Liar[],
  more: object = {},
  oauth: object = { registration: 'auto' },
): Promise<RunningGateway> {
  const all = [liars].flat() as readonly Liar[];
  const servers = Object.fromEntries(all.map(({ url }, index) => [`liar${index}`, { url, auth: { oauth } }]));
  const gateway = await startGateway({ servers, egress: { allowPrivate: true }, ...more }, { settled: false });
  cleanups.push(() => gateway.close());
  return gateway;
}

/** Asks for a link as a client without elicitation. */
async function linkOf(gateway: RunningGateway, index = 0): Promise<string> {
  const prefix = 'io.modelcontextprotocol';
  const reply = await fetch(`${gateway.url}/mcp/liar${index}`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/call',
      'mcp-name': 'sign_in',
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: {
        name: 'sign_in',
        arguments: {},
        _meta: { [`${prefix}/protocolVersion`]: '2026-07-28', [`${prefix}/clientCapabilities`]: {} },
      },
    }),
  });
  return /http:[^\s"]+\/connect\/[^\s"\\]+/.exec(await reply.text())![0];
}

const signIn = async (gateway: RunningGateway, index = 0): Promise<Page> =>
  new LoginBrowser().signIn(await linkOf(gateway, index));

describe('S9: only https URLs of authorization servers are used, http on this machine', () => {
  it('refuses other endpoints, shows them nowhere and records the refusal', async () => {
    const endpoints = [
      'javascript:alert(1)//',
      'file:///etc/passwd',
      '$(touch /tmp/x)',
      '--flag',
      'http://203.0.113.7/authorize',
      'https://user:password@example.com/authorize',
      'data:text/html,x',
    ];
    const lies = [
      ...endpoints.map((url) => ({ metadata: () => ({ authorization_endpoint: url }) })),
      { metadata: () => ({ token_endpoint: 'http://203.0.113.7/token' }) },
      { resource: { authorization_servers: ['http://203.0.113.7/'] } },
      { resource: { authorization_servers: ['file:///etc/passwd'] } },
    ];
    const liars = await Promise.all(lies.map(startLiar));
    const gateway = await gatewayFor(liars);
    for (const [index, liar] of liars.entries()) {
      const page = await signIn(gateway, index);
      expect(page.status, JSON.stringify(lies[index])).toBe(502);
      expect(page.text).toContain('What to do');
      expect(page.text).not.toContain('http-equiv="refresh"');
      expect(page.text).not.toContain(endpoints[index] ?? '203.0.113.7');
      expect(liar.tokenRequests).toEqual([]);
      await expect.poll(() => gateway.log()).toContain(`server:liar${index}`);
    }
    expect(gateway.log()).toContain('upstream.login_failed');
  });

  it('S11: does not contact a private authorization server that the server names, unless the operator allows it', async () => {
    const liar = await startLiar();
    const page = await signIn(await gatewayFor(liar, { egress: {} }));
    expect(page.status).toBe(502);
    expect(liar.paths).toEqual([]);
    // The operator may allow a private authorization server.
    const named = await signIn(await gatewayFor(liar, { egress: {} }, { issuer: liar.issuer }));
    expect(named.text).toContain('Signed in to liar0');
  });
});

describe('S15: answers of another issuer', () => {
  it('sends the code nowhere', async () => {
    const answers: ((back: URL, issuer: string) => void)[] = [
      (back) => back.searchParams.set('iss', 'https://attacker.example'),
      (back, issuer) => back.searchParams.set('iss', `${issuer}/`),
      // The server promised to name its issuer.
      (back) => back.searchParams.delete('iss'),
    ];
    const liars = await Promise.all(answers.map((answer) => startLiar({ answer })));
    const gateway = await gatewayFor(liars);
    for (const [index, liar] of liars.entries()) {
      const page = await signIn(gateway, index);
      expect(page.status).toBe(400);
      expect(page.text).toContain('does not come from the authorization server');
      expect(liar.tokenRequests).toEqual([]);
    }
  });

  it('shows no text of an error answer with a wrong issuer', async () => {
    const liar = await startLiar({
      answer: (back) => {
        back.searchParams.delete('code');
        back.searchParams.set('iss', 'https://attacker.example');
        back.searchParams.set('error', 'access_denied');
        back.searchParams.set('error_description', 'call this number');
      },
    });
    const page = await signIn(await gatewayFor(liar));
    expect(page.text).not.toMatch(/access_denied|call this number/);
  });

  it('refuses an authorization server without PKCE', async () => {
    const liars = await Promise.all(
      [undefined, ['plain']].map((methods) =>
        startLiar({ metadata: () => ({ code_challenge_methods_supported: methods }) }),
      ),
    );
    const gateway = await gatewayFor(liars);
    for (const [index, { paths }] of liars.entries()) {
      expect((await signIn(gateway, index)).text).toContain('PKCE');
      expect(paths).not.toContain('/register');
    }
  });

  it('signs in at servers that send correct data', async () => {
    const liar = await startLiar();
    const page = await signIn(await gatewayFor(liar));
    expect(page.text).toContain('Signed in to liar0');
    expect(liar.tokenRequests).toHaveLength(1);
    expect(new URLSearchParams(liar.tokenRequests[0]).get('code_verifier')).toMatch(/^[\w.~-]{43,128}$/);
  });
});

describe('parley auth', () => {
  const run = promisify(execFile);
  const parley = async (...args: string[]): Promise<{ code: number; out: string }> => {
    try {
      return { code: 0, out: (await run(process.execPath, [BIN, ...args])).stdout };
    } catch (error) {
      const { code, stdout } = error as { code: number; stdout: string };
      return { code, out: stdout };
    }
  };

  it('doctor names the step that is wrong and the setting to change', async () => {
    const liar = await startLiar({
      metadata: () => ({ code_challenge_methods_supported: undefined, registration_endpoint: undefined }),
      resource: { resource: 'https://elsewhere.example/mcp' },
    });
    const gateway = await gatewayFor(liar);
    const { code, out } = await parley('auth', 'doctor', 'liar0', '--json', '--config', gateway.file);
    const found = JSON.parse(out) as { ok: boolean; quirks: string[]; hops: { hop: string; state: string }[] };
    expect(code).toBe(1);
    expect(found.ok).toBe(false);
    expect(found.quirks.sort()).toEqual(['any-resource', 'assume-pkce']);
    const wrong = found.hops.filter(({ state }) => state === 'problem').map(({ hop }) => hop);
    expect(wrong).toEqual(['resource of the metadata', 'PKCE', 'registration of the gateway']);
  });

  it('doctor finds nothing wrong at a good server; list and logout know its users', async () => {
    const liar = await startLiar();
    const gateway = await gatewayFor(liar);
    expect((await parley('auth', 'doctor', 'liar0', '--config', gateway.file)).code).toBe(0);
    await signIn(gateway);
    const listed = await parley('auth', 'list', '--json', '--config', gateway.file);
    expect(JSON.parse(listed.out)).toMatchObject({
      accounts: [{ user: 'local', upstream: 'server:liar0', issuer: liar.issuer, state: 'active' }],
    });
    expect(listed.out).not.toContain('a-token');
    const out = await parley('auth', 'logout', 'liar0', '--json', '--config', gateway.file);
    expect(JSON.parse(out.out)).toEqual({ server: 'liar0', users: ['local'] });
    await expect.poll(() => linkOf(gateway).then(Boolean, () => false), { timeout: 5_000 }).toBe(true);
  });
});
