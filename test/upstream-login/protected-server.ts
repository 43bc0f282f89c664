/**
 * An MCP server behind OAuth, with a genuine authorization server (oidc-provider): accepts only tokens of that issuer
 * for its own URL, answers in every era, and records whose token each call carried.
 */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import Provider from 'oidc-provider';
import type { LoginBrowser, Page } from '../support/login-browser.mjs';

export interface ProtectedServer {
  readonly url: string;
  readonly issuer: string;
  /** The account and the marker of every call of the tool, as received. */
  readonly calls: { readonly account: string; readonly marker: string }[];
  /** Requests on a session of another account. */
  readonly violations: string[];
  /** Requests that were refused for their token. */
  readonly refused: number;
  /** Every token of this account ends. */
  revoke(account: string): void;
  close(): Promise<void>;
}

const SCOPE = 'tools:call';

export async function startProtectedServer(options: { tokenSeconds?: number } = {}): Promise<ProtectedServer> {
  const { tokenSeconds = 3600 } = options;
  const rs = createServer();
  const as = createServer();
  const url = `http://127.0.0.1:${await listen(rs)}/mcp`;
  const issuer = `http://127.0.0.1:${await listen(as)}`;
  const provider = new Provider(issuer, {
    features: {
      registration: { enabled: true },
      devInteractions: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => url,
        useGrantedResource: () => true,
        getResourceServerInfo: (_, resource) => {
          if (resource !== url) throw new Error('unknown resource');
          return { scope: SCOPE, audience: url, accessTokenFormat: 'opaque', accessTokenTTL: tokenSeconds };
        },
      },
    },
    pkce: { required: () => true },
    scopes: ['openid', 'offline_access'],
    issueRefreshToken: async (_, client) => client.grantTypeAllowed('refresh_token'),
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
    cookies: { keys: ['a key for tests only'] },
  });
  as.on('request', provider.callback());

  const calls: ProtectedServer['calls'] = [];
  const violations: string[] = [];
  const revoked = new Set<string>();
  const seen = new Map<string, Set<string>>();
  const sessions = new Map<string, string>();
  let refused = 0;

  const challenge = (res: ServerResponse): void => {
    refused++;
    const metadata = new URL('/.well-known/oauth-protected-resource/mcp', url);
    res.writeHead(401, { 'WWW-Authenticate': `Bearer resource_metadata="${metadata}", scope="${SCOPE}"` }).end();
  };

  rs.on('request', async (req: IncomingMessage, res: ServerResponse) => {
    if (req.url?.startsWith('/.well-known/oauth-protected-resource')) {
      json(res, { resource: url, authorization_servers: [issuer], scopes_supported: [SCOPE] });
      return;
    }
    const token = /^Bearer (\S+)$/.exec(req.headers.authorization ?? '')?.[1];
    const found = token === undefined ? undefined : await provider.AccessToken.find(token);
    if (!token || !found || found.aud !== url || revoked.has(token)) {
      req.resume();
      challenge(res);
      return;
    }
    const account = found.accountId;
    seen.set(account, (seen.get(account) ?? new Set()).add(token));
    if (req.method !== 'POST') {
      res.writeHead(405).end();
      return;
    }
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk as Buffer);
    const message = JSON.parse(Buffer.concat(chunks).toString()) as {
      id?: number;
      method: string;
      params?: { arguments?: { marker?: string } };
    };
    const session = req.headers['mcp-session-id'];
    if (typeof session === 'string' && sessions.get(session) !== account) violations.push(`${account} on ${session}`);
    if (message.id === undefined) {
      res.writeHead(202).end();
      return;
    }
    const marker = message.params?.arguments?.marker ?? '';
    if (message.method === 'tools/call') calls.push({ account, marker });
    const result = resultOf(message.method, account, marker);
    if (message.method === 'initialize') {
      const id = randomUUID();
      sessions.set(id, account);
      res.setHeader('Mcp-Session-Id', id);
    }
    const body = result ? { result } : { error: { code: -32601, message: 'Method not found' } };
    json(res, { jsonrpc: '2.0', id: message.id, ...body });
  });

  return {
    url,
    issuer,
    calls,
    violations,
    get refused() {
      return refused;
    },
    revoke: (account) => {
      for (const token of seen.get(account) ?? []) revoked.add(token);
    },
    close: async () => {
      for (const server of [rs, as]) {
        server.closeAllConnections();
        server.close();
      }
    },
  };
}

function resultOf(method: string, account: string, marker: string): object | undefined {
  const cache = { ttlMs: 60_000, cacheScope: 'private', resultType: 'complete' };
  switch (method) {
    case 'server/discover':
      return { ...cache, supportedVersions: ['2026-07-28'], capabilities: { tools: {}, prompts: {}, resources: {} } };
    case 'initialize':
      return {
        protocolVersion: '2025-11-25',
        capabilities: { tools: {}, prompts: {}, resources: {} },
        serverInfo: { name: 'protected', version: '1' },
      };
    case 'tools/list':
      return {
        ...cache,
        tools: [
          { name: 'whoami', inputSchema: { type: 'object' }, annotations: { readOnlyHint: true } },
          { name: `only_${account}`, inputSchema: { type: 'object' } },
        ],
      };
    case 'prompts/list':
      return { ...cache, prompts: [{ name: 'hello' }] };
    case 'resources/list':
      return { ...cache, resources: [{ name: 'mine', uri: 'mine://data' }] };
    case 'resources/templates/list':
      return { ...cache, resourceTemplates: [] };
    case 'prompts/get':
      return { resultType: 'complete', messages: [{ role: 'user', content: { type: 'text', text: account } }] };
    case 'resources/read':
      return { ...cache, contents: [{ uri: 'mine://data', text: account }] };
    case 'tools/call':
      return { resultType: 'complete', content: [{ type: 'text', text: `${account} ${marker}` }] };
    default:
      return undefined;
  }
}

function json(res: ServerResponse, body: object): void {
  res.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(body));
}

async function listen(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

/** Signs in at the authorization server's own pages and agrees to everything. */
export const signInAs =
  (browser: LoginBrowser, account: string) =>
  async (first: Page): Promise<Page> => {
    let page = first;
    for (let step = 0; step < 4 && page.text.includes('<form'); step++) {
      page = await browser.submit(page, page.text.includes('name="login"') ? { login: account, password: 'x' } : {});
    }
    return page;
  };
