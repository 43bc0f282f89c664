/** Helpers of the tests of callers: an issuer of access tokens, and requests of MCP in two revisions. */
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT } from 'jose';

export interface Issuer {
  readonly url: string;
  /** The requested paths. */
  readonly asked: string[];
  token(claims: JWTPayload, header?: Record<string, unknown>): Promise<string>;
  close(): Promise<void>;
}

/** An issuer with RFC 8414 metadata and one key. */
export async function startIssuer(): Promise<Issuer> {
  const { privateKey, publicKey } = await generateKeyPair('RS256', { extractable: true });
  const jwk = { ...(await exportJWK(publicKey)), kid: 'one', alg: 'RS256', use: 'sig' };
  const asked: string[] = [];
  let url = '';
  const documents = (): Record<string, object> => ({
    '/.well-known/oauth-authorization-server': {
      issuer: url,
      authorization_endpoint: `${url}/authorize`,
      token_endpoint: `${url}/token`,
      registration_endpoint: `${url}/register`,
      response_types_supported: ['code'],
      grant_types_supported: ['authorization_code'],
      code_challenge_methods_supported: ['S256'],
      jwks_uri: `${url}/jwks`,
    },
    '/jwks': { keys: [jwk] },
  });
  const server = createServer((request: IncomingMessage, response) => {
    asked.push(request.url ?? '');
    const document = documents()[request.url ?? ''];
    response.writeHead(document ? 200 : 404, { 'content-type': 'application/json' });
    response.end(JSON.stringify(document ?? {}));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    asked,
    token: (claims, header = {}) =>
      new SignJWT({ iss: url, exp: Math.floor(Date.now() / 1_000) + 600, ...claims })
        .setProtectedHeader({ alg: 'RS256', kid: 'one', ...header })
        .sign(privateKey),
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
