/** A genuine A2A agent behind a check of tokens, and the authorization server that its card names. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { closeHttp, listen } from '../fixtures/a2a/agent.js';
import { COLUMNS, startAgent } from '../fixtures/a2a/agents.js';

export interface ProtectedAgent {
  readonly url: string;
  /** The tokens of the requests that reached the agent, oldest first. */
  readonly tokens: string[];
  /** The number of messages that the agent got. */
  messages(): number;
  /** Ends this token. */
  revoke(token: string): void;
  close(): Promise<void>;
}

export type Scheme = 'openIdConnect' | 'authorizationCode';

/** `plain`: the agent cannot stream. */
export async function startProtectedAgent(scheme: Scheme, plain = false): Promise<ProtectedAgent> {
  const agent = await startAgent(COLUMNS.find(({ name }) => name === (plain ? 'one-plain' : 'one-rpc'))!);
  const valid = new Set<string>();
  const tokens: string[] = [];
  let codes = 0;

  const issuer = await listen((req, res) => {
    const url = new URL(req.url ?? '/', issuer.url);
    if (url.pathname === '/.well-known/openid-configuration' && scheme === 'openIdConnect')
      json(res, 200, {
        issuer: issuer.url,
        authorization_endpoint: `${issuer.url}/authorize`,
        token_endpoint: `${issuer.url}/token`,
        registration_endpoint: `${issuer.url}/register`,
        jwks_uri: `${issuer.url}/jwks`,
        subject_types_supported: ['public'],
        id_token_signing_alg_values_supported: ['ES256'],
        response_types_supported: ['code'],
        code_challenge_methods_supported: ['S256'],
      });
    else if (url.pathname === '/register') json(res, 201, { client_id: 'registered', redirect_uris: [] });
    else if (url.pathname === '/authorize') {
      const back = new URL(url.searchParams.get('redirect_uri')!);
      back.searchParams.set('state', url.searchParams.get('state')!);
      back.searchParams.set('code', `code-${++codes}`);
      res.writeHead(302, { Location: back.href }).end();
    } else if (url.pathname === '/token')
      void bodyOf(req).then((body) => {
        const token = `token-of-${new URLSearchParams(body).get('code')}`;
        valid.add(token);
        json(res, 200, { access_token: token, token_type: 'Bearer', expires_in: 3600 });
      });
    else json(res, 404, {});
  });

  const security =
    scheme === 'openIdConnect'
      ? { openIdConnectSecurityScheme: { openIdConnectUrl: `${issuer.url}/.well-known/openid-configuration` } }
      : {
          oauth2SecurityScheme: {
            flows: {
              authorizationCode: {
                authorizationUrl: `${issuer.url}/authorize`,
                tokenUrl: `${issuer.url}/token`,
                scopes: { 'agent:use': 'Use the agent' },
                pkceRequired: true,
              },
            },
          },
        };

  const front = await listen((req, res) => void serve(req, res));
  async function serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
    if (req.url?.startsWith('/.well-known/agent-card.json')) {
      const card = (await (await fetch(`${agent.url}${req.url}`)).json()) as {
        supportedInterfaces: { url: string }[];
      };
      const supportedInterfaces = card.supportedInterfaces.map((each) => ({ ...each, url: `${front.url}/rpc` }));
      json(res, 200, { ...card, supportedInterfaces, securitySchemes: { login: security } });
      return;
    }
    const body = await bodyOf(req);
    const token = /^Bearer (.*)$/.exec(req.headers.authorization ?? '')?.[1];
    if (token === undefined || !valid.has(token)) {
      res.writeHead(401, { 'WWW-Authenticate': 'Bearer' }).end();
      return;
    }
    tokens.push(token);
    const headers = Object.fromEntries(
      Object.entries(req.headers).filter(([name]) => /^(content-type|accept|a2a-)/.test(name)),
    ) as Record<string, string>;
    const reply = await fetch(`${agent.url}/rpc`, { method: 'POST', headers, body });
    res.writeHead(reply.status, { 'content-type': reply.headers.get('content-type') ?? 'application/json' });
    for await (const chunk of reply.body ?? []) res.write(chunk);
    res.end();
  }

  return {
    url: front.url,
    tokens,
    messages: () => agent.heard.length,
    revoke: (token) => valid.delete(token),
    close: async () => {
      await Promise.all([closeHttp(front.server), closeHttp(issuer.server), agent.close()]);
    },
  };
}

async function bodyOf(req: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of req) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

const json = (res: ServerResponse, status: number, body: object): void => {
  res.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body));
};
