/** The built-in authorization server: sign-ins, consents and tokens over oidc-provider. Loaded only if configured. */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { createLocalJWKSet, type JSONWebKeySet, type JWTPayload, jwtVerify } from 'jose';
import type { Provider } from 'oidc-provider';
import type { Seal } from '../../core/seal.js';
import type { OAuthRecords, OAuthUser } from '../../state/index.js';
import { isLoopbackUrl } from './client-rules.js';
import { OWN_CLIENT, PATHS } from './paths.js';
import { buildProvider, type ProviderSettings } from './provider.js';
import { revokeGrant } from './record-adapter.js';
import type { RevocationList } from './revocation-list.js';
import type { Revocations } from './revoke-tokens.js';
import { ALGORITHM, type CurrentKeys, type SigningKeys } from './signing-keys.js';

export interface OAuthServerOptions {
  readonly settings: ProviderSettings;
  readonly keys: SigningKeys;
  readonly records: OAuthRecords;
  readonly revocations: Revocations;
  readonly list: RevocationList;
  readonly seal: Seal;
  user(id: string): Promise<OAuthUser | undefined>;
  isOurs(resource: string): boolean;
  /** Fetches the metadata document of a client through the safe connector. */
  fetchClient(url: string): Promise<Response>;
  errorPage(error: { readonly error: string; readonly description: string | undefined }): string;
  failed(error: unknown): void;
  /** Called when a code or a refresh token was used twice, which ended its grant. */
  reused(by: { readonly account: string | undefined; readonly client: string | undefined }): void;
  readonly now: () => number;
}

/** The question that a person has to answer before a client gets its code. */
export interface PendingInteraction {
  readonly uid: string;
  readonly kind: 'login' | 'consent';
  readonly client: AskingClient;
  /** The signed-in user. */
  readonly account: string | undefined;
  readonly scopes: readonly string[];
  readonly resources: readonly string[];
}

/** The client as the pages show it. Its name is its own claim; only the hosts are facts. */
export interface AskingClient {
  readonly id: string;
  readonly name: string | undefined;
  readonly redirectUri: string;
  /** The host to which the code goes, or the scheme of a native application. */
  readonly redirectHost: string;
  /**
   * Whether the code goes to a program on the user's machine, where any other program could take the place of this
   * program.
   */
  readonly local: boolean;
  /** Whether the client is the gateway itself, for its own pages. */
  readonly own: boolean;
  /** The host that publishes the client's metadata document, if it has one. */
  readonly documentHost: string | undefined;
}

type Interaction = InstanceType<Provider['Interaction']>;
type Result = NonNullable<Interaction['result']>;

const DAY = 24 * 3_600_000;
/** A grant has at most this many used refresh tokens of a day, or what so many clients use that refresh in time. */
const MOST_USED = 2_000;
const CLIENTS_OF_GRANT = 20;

export class OAuthServer {
  private built: { readonly keys: CurrentKeys; readonly provider: Provider } | undefined;

  constructor(private readonly options: OAuthServerOptions) {}

  get issuer(): string {
    return this.options.settings.issuer;
  }

  get scopes(): readonly string[] {
    return this.options.settings.scopes;
  }

  /** The provider with the current signing key; a rotation builds a new one. */
  private async current(): Promise<{ readonly keys: CurrentKeys; readonly provider: Provider }> {
    const keys = await this.options.keys.current();
    if (this.built?.keys !== keys) {
      const { settings, records, revocations, seal, user, isOurs, fetchClient, errorPage, failed, reused, now } =
        this.options;
      const mostUsed = Math.max(MOST_USED, Math.ceil((CLIENTS_OF_GRANT * DAY) / settings.accessTokenLife));
      const storage = { records, revocations, seal, now, mostUsed };
      const provider = buildProvider({
        settings,
        keys,
        storage,
        user,
        isOurs,
        fetch: fetchClient,
        errorPage,
        failed,
        reused,
      });
      this.built = { keys, provider };
    }
    return this.built;
  }

  /** Handles requests to the endpoints of the protocol. */
  async handler(): Promise<ReturnType<Provider['callback']>> {
    return (await this.current()).provider.callback();
  }

  /** The public keys, also of keys that no longer sign. */
  async publicKeys(): Promise<JSONWebKeySet> {
    return (await this.options.keys.current()).public;
  }

  /** The proof that a browser began this interaction. Only that browser gets it, as a cookie (S5). */
  async proof(purpose: 'flow' | 'form', uid: string): Promise<string> {
    const { secret } = await this.options.keys.current();
    return createHmac('sha256', secret).update(`${purpose} ${uid}`).digest('base64url');
  }

  async proves(purpose: 'flow' | 'form', uid: string, given: string | undefined): Promise<boolean> {
    if (given === undefined) return false;
    const expected = Buffer.from(await this.proof(purpose, uid));
    const actual = Buffer.from(given);
    return actual.length === expected.length && timingSafeEqual(actual, expected);
  }

  /** The user of a browser's session, by the value of the session's cookie; undefined if nobody is signed in. */
  async signedIn(session: string): Promise<OAuthUser | undefined> {
    const { provider } = await this.current();
    const account = (await provider.Session.find(session))?.accountId;
    return account === undefined ? undefined : this.options.user(account);
  }

  /**
   * The URL at which a user signs in for a page of the gateway. The browser then returns to the page with `state`.
   * Nobody knows the verifier, so nobody can use the code. With `again`, the user signs in even if somebody is signed
   * in already.
   */
  signInUrl(state: string, again: boolean): string {
    const query = new URLSearchParams({
      client_id: OWN_CLIENT.id,
      response_type: 'code',
      redirect_uri: this.issuer + OWN_CLIENT.returnPath,
      scope: 'openid',
      state,
      code_challenge: randomBytes(32).toString('base64url'),
      code_challenge_method: 'S256',
      ...(again && { prompt: 'login' }),
    });
    return `${this.issuer}${PATHS.authorize}?${query}`;
  }

  /** Undefined if the interaction is over or unknown. */
  async interaction(uid: string): Promise<PendingInteraction | undefined> {
    const { provider } = await this.current();
    const found = await provider.Interaction.find(uid);
    if (!found) return undefined;
    const client = await provider.Client.find(String(found.params['client_id']));
    if (!client) return undefined;
    const redirectUri = String(found.params['redirect_uri'] ?? client.redirectUris?.[0] ?? '');
    const details = found.prompt.details as { missingResourceScopes?: Record<string, string[]> };
    const resource = found.params['resource'];
    return {
      uid,
      kind: found.prompt.name === 'login' ? 'login' : 'consent',
      client: askingClient(client.clientId, client.clientName, redirectUri),
      account: found.session?.accountId,
      scopes: [...new Set(Object.values(details.missingResourceScopes ?? {}).flat())],
      resources: resource === undefined ? [this.issuer] : [resource].flat().map(String),
    };
  }

  /** The user has signed in. Returns the URL at which the flow continues. */
  async signIn(uid: string, account: string): Promise<string | undefined> {
    const { provider } = await this.current();
    const found = await provider.Interaction.find(uid);
    if (!found) return undefined;
    const before = found.session;
    if (before && before.accountId !== account) {
      // Another user signs in with this browser: the session of the first one ends.
      await (await provider.Session.findByUid(before.uid))?.destroy();
      delete found.session;
    }
    return finish(found, { ...found.lastSubmission, login: { accountId: account } });
  }

  /** The user allows the client to act for the user. Returns the URL at which the flow continues. */
  async agree(uid: string): Promise<string | undefined> {
    const { provider } = await this.current();
    const found = await provider.Interaction.find(uid);
    const account = found?.session?.accountId;
    if (found?.prompt.name !== 'consent' || account === undefined) return undefined;
    const { missingOIDCScope, missingResourceScopes } = found.prompt.details as {
      missingOIDCScope?: string[];
      missingResourceScopes?: Record<string, string[]>;
    };
    const clientId = String(found.params['client_id']);
    const known = found.grantId === undefined ? undefined : await provider.Grant.find(found.grantId);
    const grant = known ?? new provider.Grant({ accountId: account, clientId });
    if (missingOIDCScope) grant.addOIDCScope(missingOIDCScope.join(' '));
    for (const [resource, scopes] of Object.entries(missingResourceScopes ?? {}))
      grant.addResourceScope(resource, scopes.join(' '));
    const grantId = await grant.save();
    return finish(found, { ...found.lastSubmission, consent: { grantId } });
  }

  /** The user refuses. Returns the URL that tells the client about the refusal. */
  async refuse(uid: string): Promise<string | undefined> {
    const { provider } = await this.current();
    const found = await provider.Interaction.find(uid);
    return found && finish(found, { error: 'access_denied', error_description: 'the user refused' });
  }

  /** Another user wants to sign in with this browser. Returns the URL at which the flow begins again. */
  async switchUser(uid: string): Promise<string | undefined> {
    const { provider } = await this.current();
    const found = await provider.Interaction.find(uid);
    if (!found) return undefined;
    if (found.session) await (await provider.Session.findByUid(found.session.uid))?.destroy();
    await found.destroy();
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(found.params))
      for (const each of [value].flat()) if (each !== undefined && each !== null) query.append(name, String(each));
    return `${this.issuer}${PATHS.authorize}?${query}`;
  }

  /**
   * The claims of an access token of this server; undefined if the token is not valid, or was issued to another client
   * than `clientId`.
   */
  async accessToken(token: string, clientId: string): Promise<JWTPayload | undefined> {
    try {
      const { payload } = await jwtVerify(token, createLocalJWKSet(await this.publicKeys()), {
        issuer: this.issuer,
        algorithms: [ALGORITHM],
        typ: 'at+jwt',
      });
      return payload['client_id'] === clientId ? payload : undefined;
    } catch {
      return undefined;
    }
  }

  /** Revokes an access token (RFC 7009). oidc-provider cannot do this, because it does not store access tokens. */
  async revokeAccessToken({ jti, sub, gid, exp }: JWTPayload): Promise<void> {
    if (jti === undefined || sub === undefined || exp === undefined) return;
    const ended = await this.options.revocations.endToken({ jti, user: sub, expiresAt: exp * 1_000 });
    if (!ended) await revokeGrant(this.options, String(gid));
    await this.options.list.refresh();
  }
}

async function finish(interaction: Interaction, result: Result): Promise<string> {
  interaction.result = result;
  await interaction.save(interaction.exp - Math.floor(Date.now() / 1_000));
  return interaction.returnTo;
}

function askingClient(id: string, name: string | undefined, redirectUri: string): AskingClient {
  const url = URL.canParse(redirectUri) ? new URL(redirectUri) : undefined;
  const web = url?.protocol === 'https:' || url?.protocol === 'http:';
  return {
    id,
    name,
    redirectUri,
    redirectHost: url === undefined ? redirectUri : web ? url.host : url.protocol.slice(0, -1),
    local: url !== undefined && (!web || isLoopbackUrl(url)),
    own: id === OWN_CLIENT.id,
    documentHost: id.startsWith('https://') && URL.canParse(id) ? new URL(id).host : undefined,
  };
}
