/**
 * Sign-in at another OpenID provider: authorization code with PKCE, `state`, `nonce`, and the issuer checks of RFC 9207
 * and of the ID token (S15).
 */
import { createHash, randomBytes } from 'node:crypto';
import { createLocalJWKSet, type JSONWebKeySet, type JWTPayload, jwtVerify } from 'jose';
import type { Seal } from '../../core/seal.js';
import type { OAuthRecords, OAuthUsers } from '../../state/index.js';
import { INTERACTION_LIFE } from './paths.js';
import { recordId } from './record-id.js';

export interface OpenIdLoginSettings {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string | undefined;
  /** The provider's name on the login page. */
  readonly name: string;
  readonly scopes: readonly string[];
  /** The claim with the values that `roles` maps. */
  readonly rolesClaim: string;
  readonly roles: readonly { readonly value: string; readonly role: string }[];
  readonly tenantClaim: string | undefined;
  /** Only users with one of these values in this claim may sign in. Without values every user may. */
  readonly allowClaim: string;
  readonly allow: readonly string[];
}

export interface HttpAnswer {
  readonly status: number;
  readonly body: Buffer;
}

/** Sends a request to the provider that the operator configured, with limits for time and size. */
export type SendHttp = (request: {
  readonly url: string;
  readonly headers: readonly string[];
  readonly body?: string;
}) => Promise<HttpAnswer>;

export interface OpenIdLoginOptions {
  readonly settings: OpenIdLoginSettings;
  readonly redirectUri: string;
  readonly records: OAuthRecords;
  readonly users: Pick<OAuthUsers, 'signedInElsewhere'>;
  readonly seal: Seal;
  readonly send: SendHttp;
  readonly now: () => number;
}

/** The sign-in failed; the message is for the person at the browser. */
export class LoginRefused extends Error {
  override readonly name = 'LoginRefused';
}

/** A sign-in under way at the other provider. */
export interface LoginState {
  readonly uid: string;
  readonly issuer: string;
  readonly nonce: string;
  readonly verifier: string;
}

interface ProviderMetadata {
  readonly issuer: string;
  readonly authorization_endpoint: string;
  readonly token_endpoint: string;
  readonly jwks_uri: string;
  readonly authorization_response_iss_parameter_supported?: boolean;
  readonly token_endpoint_auth_methods_supported?: readonly string[];
  readonly code_challenge_methods_supported?: readonly string[];
}

const MODEL = 'UpstreamLogin';
/** Only asymmetric algorithms. */
const ALGORITHMS = [
  'RS256',
  'PS256',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
  'RS384',
  'RS512',
  'PS384',
  'PS512',
];
const METADATA_AGE = 300_000;
const LONGEST_VALUE = 255;
const random = (): string => randomBytes(32).toString('base64url');

export class OpenIdLogin {
  private known: { readonly metadata: ProviderMetadata; readonly at: number } | undefined;

  constructor(private readonly options: OpenIdLoginOptions) {}

  get name(): string {
    return this.options.settings.name;
  }

  /** Begins a sign-in for an interaction. Returns the URL of the provider's login page. */
  async begin(uid: string): Promise<string> {
    const { settings, records, seal, redirectUri, now } = this.options;
    const metadata = await this.metadata();
    const state = random();
    const login: LoginState = { uid, issuer: metadata.issuer, nonce: random(), verifier: random() };
    const id = recordId(state);
    const sealed = seal.close('oauth', `${MODEL} ${id}`, login, INTERACTION_LIFE);
    const expiresAt = now() + INTERACTION_LIFE;
    // Each interaction keeps only its last sign-in. Anybody can begin a sign-in, so the number of stored ones must be
    // bounded.
    const interaction = recordId(uid);
    await records.removeByUid(MODEL, interaction);
    await records.put({
      model: MODEL,
      id,
      sealed,
      grantId: undefined,
      uid: interaction,
      account: undefined,
      expiresAt,
    });
    const url = new URL(metadata.authorization_endpoint);
    const challenge = createHash('sha256').update(login.verifier).digest('base64url');
    for (const [name, value] of Object.entries({
      response_type: 'code',
      client_id: settings.clientId,
      redirect_uri: redirectUri,
      scope: settings.scopes.join(' '),
      state,
      nonce: login.nonce,
      code_challenge: challenge,
      code_challenge_method: 'S256',
    }))
      url.searchParams.set(name, value);
    return url.href;
  }

  /**
   * Returns the sign-in with this `state` and removes it, so that a second request with the same `state` gets nothing
   * (S5).
   */
  async take(state: string): Promise<LoginState | undefined> {
    const { records, seal } = this.options;
    const id = recordId(state);
    const found = await records.get(MODEL, id);
    if (!found || !(await records.consume(MODEL, id, INTERACTION_LIFE))) return undefined;
    try {
      return seal.open('oauth', `${MODEL} ${id}`, found.sealed) as LoginState;
    } catch {
      return undefined;
    }
  }

  /** The provider has answered. Stores the user with its roles and returns its id. */
  async complete(login: LoginState, answer: Pick<URLSearchParams, 'get'>): Promise<string> {
    const metadata = await this.metadata();
    // RFC 9207: the answer of another issuer is not used, and its code is sent nowhere.
    const iss = answer.get('iss');
    const named = metadata.authorization_response_iss_parameter_supported === true;
    if (login.issuer !== metadata.issuer || (iss === null ? named : iss !== login.issuer))
      throw new LoginRefused(`The answer does not come from ${this.name}. Nothing was sent to anybody.`);
    const error = answer.get('error');
    if (error !== null)
      throw new LoginRefused(
        error === 'access_denied' ? `You refused at ${this.name}.` : `${this.name} reports ${codeOf(error)}.`,
      );
    const code = answer.get('code');
    if (code === null) throw new LoginRefused(`The answer of ${this.name} has no code.`);
    return this.store(await this.claims(metadata, code, login));
  }

  private async claims(metadata: ProviderMetadata, code: string, login: LoginState): Promise<JWTPayload> {
    const { settings, redirectUri, send } = this.options;
    const { clientId, clientSecret } = settings;
    const form = new URLSearchParams({
      grant_type: 'authorization_code',
      code,
      redirect_uri: redirectUri,
      code_verifier: login.verifier,
    });
    const headers = ['Content-Type', 'application/x-www-form-urlencoded', 'Accept', 'application/json'];
    const methods = metadata.token_endpoint_auth_methods_supported;
    if (clientSecret !== undefined && (methods === undefined || methods.includes('client_secret_basic'))) {
      const pair = `${encodeURIComponent(clientId)}:${encodeURIComponent(clientSecret)}`;
      headers.push('Authorization', `Basic ${Buffer.from(pair).toString('base64')}`);
    } else {
      form.set('client_id', clientId);
      if (clientSecret !== undefined) form.set('client_secret', clientSecret);
    }
    const { status, body } = await this.sent({ url: metadata.token_endpoint, headers, body: form.toString() }, send);
    const reply = jsonOf(body) as { id_token?: unknown; error?: unknown } | undefined;
    if (status !== 200 || typeof reply?.id_token !== 'string') {
      const said = typeof reply?.error === 'string' ? `: ${codeOf(reply.error)}` : '';
      throw new LoginRefused(`${this.name} gave no ID token (HTTP ${status}${said}).`);
    }
    const keys = jsonOf((await this.sent({ url: metadata.jwks_uri, headers: JSON_ONLY }, send)).body);
    try {
      const { payload } = await jwtVerify(reply.id_token, createLocalJWKSet(keys as JSONWebKeySet), {
        issuer: metadata.issuer,
        audience: clientId,
        algorithms: ALGORITHMS,
        clockTolerance: 60,
        requiredClaims: ['sub', 'exp', 'iat', 'nonce'],
      });
      if (payload['nonce'] !== login.nonce) throw new Error('the ID token has another nonce');
      return payload;
    } catch {
      throw new LoginRefused(`The ID token of ${this.name} is not valid.`);
    }
  }

  private async store(claims: JWTPayload): Promise<string> {
    const { settings, users } = this.options;
    const { sub = '' } = claims;
    if (sub === '' || sub.length > LONGEST_VALUE || /[^\x20-\x7e]/.test(sub))
      throw new LoginRefused(`${this.name} names no usable subject.`);
    const allowed = textsOf(claims[settings.allowClaim]);
    if (settings.allow.length > 0 && !settings.allow.some((value) => allowed.includes(value)))
      throw new LoginRefused('Your account may not use this gateway. Ask its administrator.');
    const given = new Set(textsOf(claims[settings.rolesClaim]));
    const roles = settings.roles.filter(({ value }) => given.has(value)).map(({ role }) => role);
    const tenant = settings.tenantClaim === undefined ? undefined : textsOf(claims[settings.tenantClaim])[0];
    if (settings.tenantClaim !== undefined && tenant === undefined)
      throw new LoginRefused('Your account belongs to no tenant of this gateway. Ask its administrator.');
    const shown = [claims['email'], claims['preferred_username'], claims['name']].flatMap(textsOf)[0] ?? sub;
    const id = `${settings.issuer}#${sub}`;
    await users.signedInElsewhere({
      id,
      issuer: settings.issuer,
      name: shown,
      password: undefined,
      roles: [...new Set(roles)],
      tenant,
    });
    return id;
  }

  private async metadata(): Promise<ProviderMetadata> {
    const now = performance.now();
    if (this.known && now - this.known.at < METADATA_AGE) return this.known.metadata;
    const { issuer } = this.options.settings;
    const url = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
    const { status, body } = await this.sent({ url, headers: JSON_ONLY }, this.options.send);
    const found = jsonOf(body) as Partial<ProviderMetadata> | undefined;
    if (status !== 200 || found?.issuer !== issuer)
      throw new LoginRefused(
        `${this.name} cannot be used now: its OpenID document is missing or names another issuer.`,
      );
    for (const name of ['authorization_endpoint', 'token_endpoint', 'jwks_uri'] as const)
      if (typeof found[name] !== 'string' || !usable(found[name], issuer))
        throw new LoginRefused(`${this.name} cannot be used now: its OpenID document has no usable ${name}.`);
    const methods = found.code_challenge_methods_supported;
    if (Array.isArray(methods) && !methods.includes('S256'))
      throw new LoginRefused(`${this.name} cannot be used: it does not support PKCE with S256.`);
    const metadata = found as ProviderMetadata;
    this.known = { metadata, at: now };
    return metadata;
  }

  private async sent(request: Parameters<SendHttp>[0], send: SendHttp): Promise<HttpAnswer> {
    try {
      return await send(request);
    } catch {
      throw new LoginRefused(`${this.name} does not answer. Try again later.`);
    }
  }
}

/**
 * An error code of RFC 6749. Any other text is written neither to the page nor to the log, because anybody can write
 * text into the URL.
 */
const codeOf = (error: string): string => (/^[a-z_]{1,40}$/.test(error) ? `the error ${error}` : 'an error');

const JSON_ONLY = ['Accept', 'application/json'];

/** https, or http if the operator configured an issuer with http (S9). */
function usable(text: string, issuer: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol } = new URL(text);
  return protocol === 'https:' || (protocol === 'http:' && issuer.startsWith('http:'));
}

function jsonOf(body: Buffer): unknown {
  try {
    const value: unknown = JSON.parse(body.toString('utf8'));
    return typeof value === 'object' && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

/** A text, or a list of texts. */
function textsOf(claim: unknown): string[] {
  const all = Array.isArray(claim) ? claim.slice(0, 1_000) : [claim];
  return all.filter((each): each is string => typeof each === 'string' && each !== '' && each.length <= LONGEST_VALUE);
}
