/** Requests to the token endpoint of an authorization server, with the gateway as the client. */
import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { importPKCS8, SignJWT } from 'jose';
import type { JsonObject } from '../../protocol/jsonrpc/raw.js';
import { hideCredentials } from '../mask-secrets.js';
import type { OAuthClientSettings } from '../upstream-credentials.js';
import {
  AuthorizationServerDiscovery,
  type AuthorizationServerMetadata,
  MetadataError,
} from './authorization-server-metadata.js';
import { jsonObjectIn, type OAuthHttp } from './oauth-http.js';

export interface IssuedToken {
  readonly accessToken: string;
  readonly refreshToken: string | undefined;
  readonly scope: string | undefined;
  /** Lifetime in milliseconds; undefined if the issuer did not say. */
  readonly lifetime: number | undefined;
}

/** The token endpoint gave no token. The message contains no secret. */
export class TokenRefused extends Error {
  override readonly name = 'TokenRefused';

  constructor(
    message: string,
    /** The error code of RFC 6749 §5.2, if the issuer gave one. */
    readonly code: string | undefined,
    /** Whether a later attempt with the same settings may succeed. */
    readonly temporary: boolean,
  ) {
    super(message);
  }
}

/** Characters of a token that can be sent in `Authorization: Bearer` (RFC 6750 §2.1; S4). */
const BEARER = /^[\x21-\x7e]{1,16384}$/;
const LONGEST_LIFE = 366 * 24 * 3_600_000;
const ASSERTION_SECONDS = 60;
const ASSERTION_TYPE = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer';

export class TokenEndpoint {
  private readonly discovery: AuthorizationServerDiscovery | undefined;

  constructor(
    private readonly http: OAuthHttp,
    private readonly settings: OAuthClientSettings,
  ) {
    const { issuer, tokenUrl } = settings;
    this.discovery =
      tokenUrl === undefined && issuer !== undefined ? new AuthorizationServerDiscovery(http, issuer) : undefined;
  }

  /** Throws `TokenRefused`. */
  async request(parameters: Readonly<Record<string, string | undefined>>): Promise<IssuedToken> {
    const { tokenEndpoint: url, authMethods } = await this.metadata();
    const form = new URLSearchParams();
    for (const [name, value] of Object.entries(parameters)) if (value !== undefined) form.set(name, value);
    const headers = ['content-type', 'application/x-www-form-urlencoded', 'accept', 'application/json'];
    await this.authenticate(form, headers, url, authMethods);
    const { status, body } = await this.answered(() =>
      this.http.send({ method: 'POST', url, headers, body: form.toString() }),
    );
    return readToken(status, body);
  }

  private async metadata(): Promise<AuthorizationServerMetadata> {
    const { tokenUrl } = this.settings;
    if (tokenUrl !== undefined) return { tokenEndpoint: tokenUrl, authMethods: ['client_secret_basic'] };
    return this.answered(() => this.discovery!.get());
  }

  /** Turns a failed connection into an error that says which party did not answer, without its address. */
  private async answered<T>(run: () => Promise<T>): Promise<T> {
    try {
      return await run();
    } catch (error) {
      if (error instanceof MetadataError) throw new TokenRefused(error.message, undefined, true);
      const { code } = error as NodeJS.ErrnoException;
      throw new TokenRefused(`the issuer cannot be reached (${code ?? 'no answer'})`, undefined, true);
    }
  }

  private async authenticate(
    form: URLSearchParams,
    headers: string[],
    url: string,
    supported: readonly string[],
  ): Promise<void> {
    const { clientId = '', clientSecret, privateKey, clientAuthentication: chosen = 'auto' } = this.settings;
    if (privateKey !== undefined) {
      form.set('client_id', clientId);
      form.set('client_assertion_type', ASSERTION_TYPE);
      form.set('client_assertion', await this.assertion(privateKey, url));
      return;
    }
    const inBody =
      chosen === 'post' ||
      (chosen === 'auto' && !supported.includes('client_secret_basic') && supported.includes('client_secret_post'));
    if (inBody) {
      form.set('client_id', clientId);
      form.set('client_secret', clientSecret ?? '');
      return;
    }
    // RFC 6749 §2.3.1: both parts are form-encoded before they are joined.
    const pair = [clientId, clientSecret ?? ''].map((part) => new URLSearchParams({ '': part }).toString().slice(1));
    headers.push('authorization', `Basic ${Buffer.from(pair.join(':')).toString('base64')}`);
  }

  private async assertion(privateKey: string, audience: string): Promise<string> {
    const { clientId = '', keyId, algorithm = 'RS256', issuer } = this.settings;
    try {
      const pem = privateKey.includes('-----BEGIN') ? privateKey : await readFile(privateKey, 'utf8');
      const key = await importPKCS8(pem, algorithm);
      return await new SignJWT()
        .setProtectedHeader({ alg: algorithm, ...(keyId !== undefined && { kid: keyId }) })
        .setIssuer(clientId)
        .setSubject(clientId)
        .setAudience(issuer ?? audience)
        .setJti(randomUUID())
        .setIssuedAt()
        .setExpirationTime(`${ASSERTION_SECONDS}s`)
        .sign(key);
    } catch {
      throw new TokenRefused(`privateKey is not a PKCS #8 key for ${algorithm}`, undefined, false);
    }
  }
}

function readToken(status: number, body: string): IssuedToken {
  const answer = jsonObjectIn(body);
  if (status !== 200 || !answer) throw refused(status, answer);
  const { access_token: accessToken, token_type: type, refresh_token: refresh, scope, expires_in: seconds } = answer;
  if (typeof accessToken !== 'string' || !BEARER.test(accessToken))
    throw new TokenRefused('the issuer answered without an access token', undefined, true);
  // `N_A` is the type of exchanged tokens that are not access tokens (RFC 8693 §2.2.1).
  if (typeof type === 'string' && !/^(?:bearer|n_a)$/i.test(type))
    throw new TokenRefused(`the issuer answered with a token of type ${clean(type, 40)}`, undefined, false);
  const lifetime = Number(seconds) * 1000;
  return {
    accessToken,
    refreshToken: typeof refresh === 'string' ? refresh : undefined,
    scope: typeof scope === 'string' ? scope : undefined,
    lifetime: Number.isFinite(lifetime) && lifetime > 0 ? Math.min(lifetime, LONGEST_LIFE) : undefined,
  };
}

function refused(status: number, answer: JsonObject | undefined): TokenRefused {
  const { error, error_description: described } = answer ?? {};
  const code = typeof error === 'string' && /^[\x21-\x7e]{1,100}$/.test(error) ? error : undefined;
  const said = typeof described === 'string' ? `: ${clean(described, 200)}` : '';
  const what = code === undefined ? `HTTP ${status}` : `${code}${said}`;
  // 429 and 5xx are temporary. Other refusals stay the same until an operator changes the settings.
  const temporary = status === 429 || status >= 500 || code === 'temporarily_unavailable' || code === 'server_error';
  return new TokenRefused(`the issuer answered ${what}`, code, temporary);
}

const clean = (text: string, most: number): string =>
  hideCredentials(text.replace(/[^\x20-\x7e]/g, ' ')).slice(0, most);
