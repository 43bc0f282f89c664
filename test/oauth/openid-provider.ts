/** A small OpenID provider that signs every user in, and breaks the rules if a test asks for it. */
import { createHash, randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';

export const CLIENT = { id: 'parley', secret: 'a secret: with signs' } as const;

export interface OpenIdProvider {
  readonly issuer: string;
  /** The claims in the ID tokens of the next users. */
  claims: Record<string, unknown>;
  /** Replaces `iss` in the answer; null leaves it out. */
  iss: string | null | undefined;
  /** Replaces the nonce in the ID token. */
  nonce: string | undefined;
  /** Requests to the token endpoint. */
  readonly redeemed: string[];
  close(): Promise<void>;
}

export async function startOpenIdProvider(): Promise<OpenIdProvider> {
  const { publicKey, privateKey } = await generateKeyPair('ES256');
  const jwk = { ...(await exportJWK(publicKey)), kid: 'one', alg: 'ES256', use: 'sig' };
  const codes = new Map<string, { challenge: string; nonce: string; redirect: string }>();
  const server = createServer((req, res) => {
    void (async () => {
      const url = new URL(req.url ?? '/', provider.issuer);
      const json = (status: number, value: object): unknown =>
        res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
      if (url.pathname === '/.well-known/openid-configuration') {
        json(200, {
          issuer: provider.issuer,
          authorization_endpoint: `${provider.issuer}/authorize`,
          token_endpoint: `${provider.issuer}/token`,
          jwks_uri: `${provider.issuer}/jwks`,
          authorization_response_iss_parameter_supported: true,
          code_challenge_methods_supported: ['S256'],
        });
      } else if (url.pathname === '/jwks') json(200, { keys: [jwk] });
      else if (url.pathname === '/authorize') {
        const get = (name: string): string => url.searchParams.get(name) ?? '';
        const code = randomBytes(16).toString('hex');
        codes.set(code, { challenge: get('code_challenge'), nonce: get('nonce'), redirect: get('redirect_uri') });
        const back = new URL(get('redirect_uri'));
        back.searchParams.set('code', code);
        back.searchParams.set('state', get('state'));
        if (provider.iss !== null) back.searchParams.set('iss', provider.iss ?? provider.issuer);
        res.writeHead(302, { location: back.href }).end();
      } else {
        let body = '';
        for await (const chunk of req) body += String(chunk);
        provider.redeemed.push(body);
        const form = new URLSearchParams(body);
        const found = codes.get(form.get('code') ?? '');
        codes.delete(form.get('code') ?? '');
        const proof = createHash('sha256')
          .update(form.get('code_verifier') ?? '')
          .digest('base64url');
        const pair = `${CLIENT.id}:${encodeURIComponent(CLIENT.secret)}`;
        const basic = `Basic ${Buffer.from(pair).toString('base64')}`;
        if (
          found?.challenge !== proof ||
          found.redirect !== form.get('redirect_uri') ||
          req.headers.authorization !== basic
        )
          return json(400, { error: 'invalid_grant' });
        const token = await new SignJWT({ nonce: provider.nonce ?? found.nonce, ...provider.claims })
          .setProtectedHeader({ alg: 'ES256', kid: 'one' })
          .setIssuer(provider.issuer)
          .setAudience(CLIENT.id)
          .setIssuedAt()
          .setExpirationTime('5m')
          .sign(privateKey);
        json(200, { access_token: 'x', token_type: 'Bearer', id_token: token });
      }
    })();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const provider: OpenIdProvider = {
    issuer: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    claims: {},
    iss: undefined,
    nonce: undefined,
    redeemed: [],
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return provider;
}
