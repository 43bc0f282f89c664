/** The authorization code flow by hand, for tests that break its rules. */
import { createHash, randomBytes } from 'node:crypto';
import type { OAuthGateway } from './stand.js';

export const REDIRECT_URI = 'https://client.example/callback';

export interface CodeGrant {
  readonly client: string;
  readonly verifier: string;
  readonly url: URL;
}

export async function register(gateway: Pick<OAuthGateway, 'url'>, metadata: object = {}): Promise<Response> {
  return fetch(`${gateway.url}/oauth/register`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ client_name: 'By hand', redirect_uris: [REDIRECT_URI], ...metadata }),
  });
}

export async function begin(
  gateway: Pick<OAuthGateway, 'url'>,
  change: Record<string, string | undefined> = {},
  known?: string,
): Promise<CodeGrant> {
  const client = known ?? ((await (await register(gateway)).json()) as { client_id: string }).client_id;
  const verifier = randomBytes(32).toString('base64url');
  const url = new URL(`${gateway.url}/oauth/authorize`);
  const parameters: Record<string, string | undefined> = {
    response_type: 'code',
    client_id: client,
    redirect_uri: REDIRECT_URI,
    state: 'state-of-the-client',
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
    resource: `${gateway.url}/mcp`,
    ...change,
  };
  for (const [name, value] of Object.entries(parameters)) if (value !== undefined) url.searchParams.set(name, value);
  return { client, verifier, url };
}

export interface Tokens {
  readonly status: number;
  readonly access_token: string;
  readonly refresh_token: string;
  readonly error?: string;
}

export async function tokens(gateway: Pick<OAuthGateway, 'url'>, form: Record<string, string>): Promise<Tokens> {
  const reply = await fetch(`${gateway.url}/oauth/token`, { method: 'POST', body: new URLSearchParams(form) });
  return { status: reply.status, ...((await reply.json()) as Omit<Tokens, 'status'>) };
}

export const redeem = (
  gateway: Pick<OAuthGateway, 'url'>,
  { client, verifier }: CodeGrant,
  code: string,
): Promise<Tokens> =>
  tokens(gateway, {
    grant_type: 'authorization_code',
    code,
    client_id: client,
    code_verifier: verifier,
    redirect_uri: REDIRECT_URI,
  });

export const refresh = (gateway: Pick<OAuthGateway, 'url'>, client: string, token: string): Promise<Tokens> =>
  tokens(gateway, { grant_type: 'refresh_token', refresh_token: token, client_id: client });
