/**
 * Compares the security schemes that an agent's card requires with the credentials that are configured for the agent.
 */
import type { ApiKeyPlace, UpstreamAuth } from '../../identity/upstream-credentials.js';
import { asksForLogin } from '../../identity/upstream-login/login-settings.js';
import type { AgentCard } from '../../protocol/a2a/model.js';
import { ProtocolError } from '../../protocol/errors.js';
import { isObject, type JsonObject, type JsonValue } from '../../protocol/jsonrpc/raw.js';
import type { TlsSettings } from '../http/index.js';
import { NEVER_FORWARDED } from './request-headers.js';

export interface ConfiguredSecurity {
  readonly auth: UpstreamAuth | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly tls: TlsSettings;
}

/** The result for one card. */
export interface CardSecurity {
  /**
   * The settings that are missing, for each alternative of the card. Undefined if the settings meet one alternative.
   */
  readonly missing: string | undefined;
  /** The place of the API key in a request, as the card names it. */
  readonly apiKeyPlace: ApiKeyPlace | undefined;
}

const TOKEN_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$/;
const BEARER: ApiKeyPlace = { in: 'header', name: 'Authorization', prefix: 'Bearer ' };

export class SecurityMatch {
  private readonly known = new WeakMap<AgentCard, CardSecurity>();
  private readonly headers: ReadonlySet<string>;

  constructor(
    private readonly agent: string,
    private readonly configured: ConfiguredSecurity,
  ) {
    this.headers = new Set(Object.keys(configured.headers).map((name) => name.toLowerCase()));
  }

  of(card: AgentCard): CardSecurity {
    let found = this.known.get(card);
    if (!found) {
      found = this.match(card);
      this.known.set(card, found);
    }
    return found;
  }

  /**
   * The error for a request that the agent refused. Undefined unless the card requires a scheme that is not configured.
   * The gateway sends a request without checking the schemes first, because many agents do not enforce the schemes of
   * their card.
   */
  explained(card: AgentCard, status: number): ProtocolError | undefined {
    const { missing } = this.of(card);
    if (missing === undefined) return undefined;
    return new ProtocolError(
      'upstream_unauthorized',
      `Agent "${this.agent}" requires credentials that are not configured: ${missing}; set "auth" of the agent in the configuration`,
      { outcome: 'not_executed', data: { agent: this.agent, status } },
    );
  }

  private match(card: AgentCard): CardSecurity {
    const schemes = isObject(card.securitySchemes) ? card.securitySchemes : {};
    // One requirement lists schemes that are all needed. A card may have several requirements, and meeting one of them
    // is enough.
    const alternatives = (card.securityRequirements ?? []).map((each) =>
      isObject(each['schemes']) ? each['schemes'] : {},
    );
    const problems: string[] = [];
    for (const alternative of alternatives) {
      const needed = Object.keys(alternative).flatMap((name) => (isObject(schemes[name]) ? [schemes[name]] : []));
      const lacking = needed.filter((scheme) => !this.has(scheme)).map(described);
      if (lacking.length === 0) return { missing: undefined, apiKeyPlace: this.placeAmong(needed) };
      problems.push(lacking.join(' and '));
    }
    const apiKeyPlace = this.placeAmong(Object.values(schemes).filter((each) => isObject(each)));
    return { missing: problems.length === 0 ? undefined : [...new Set(problems)].join(', or '), apiKeyPlace };
  }

  private has(scheme: JsonObject): boolean {
    const { auth, tls } = this.configured;
    const authorization = this.headers.has('authorization');
    const token =
      auth?.clientCredentials.clientId !== undefined ||
      auth?.tokenExchange.clientId !== undefined ||
      asksForLogin(auth?.oauth) ||
      authorization;
    const fixed = auth?.apiKey !== undefined;
    const { apiKeySecurityScheme: key, httpAuthSecurityScheme: http } = scheme;
    if (isObject(key)) {
      const place = placeOf(key);
      const name = place?.in === 'cookie' ? 'cookie' : place?.in === 'header' ? place.name.toLowerCase() : '';
      return place !== undefined && (fixed || this.headers.has(name));
    }
    if (isObject(http)) {
      const kind = String(http['scheme']).toLowerCase();
      if (kind === 'basic') return auth?.username !== undefined || authorization;
      return kind === 'bearer' ? token || fixed : authorization;
    }
    if (isObject(scheme['oauth2SecurityScheme']) || isObject(scheme['openIdConnectSecurityScheme']))
      return token || fixed;
    if (isObject(scheme['mtlsSecurityScheme'])) return tls.cert !== undefined;
    return false;
  }

  /** The place of the first API key among these schemes. If none of them is an API key, the place of bearer tokens. */
  private placeAmong(schemes: readonly JsonValue[]): ApiKeyPlace | undefined {
    for (const scheme of schemes) {
      if (!isObject(scheme)) continue;
      const { apiKeySecurityScheme: key } = scheme;
      const place = isObject(key) ? placeOf(key) : undefined;
      if (place) return place;
    }
    return BEARER;
  }
}

/** S4: the card must not choose a header of the connection or of the protocol. */
function placeOf({ location, name }: JsonObject): ApiKeyPlace | undefined {
  if (typeof name !== 'string' || !TOKEN_NAME.test(name)) return undefined;
  const lower = name.toLowerCase();
  switch (location) {
    case 'header':
      if (lower !== 'authorization' && NEVER_FORWARDED.has(lower)) return undefined;
      return { in: 'header', name, prefix: '' };
    case 'query':
      return { in: 'query', name, prefix: '' };
    case 'cookie':
      return { in: 'cookie', name, prefix: '' };
    default:
      return undefined;
  }
}

/** Describes a scheme for the operator, with the keys that configure it. Texts of the card are shortened and quoted. */
function described(scheme: JsonObject): string {
  const { apiKeySecurityScheme: key, httpAuthSecurityScheme: http } = scheme;
  const shown = (value: JsonValue | undefined): string => JSON.stringify(String(value).slice(0, 60));
  if (isObject(key)) return `an API key in the ${shown(key['location'])} ${shown(key['name'])} (auth.apiKey)`;
  if (isObject(http))
    return String(http['scheme']).toLowerCase() === 'basic'
      ? 'HTTP Basic authentication (auth.username, auth.password)'
      : `HTTP authentication with ${shown(http['scheme'])} (auth.apiKey, or a header)`;
  if (isObject(scheme['oauth2SecurityScheme']))
    return 'an OAuth token (auth.oauth, auth.clientCredentials or auth.tokenExchange)';
  if (isObject(scheme['openIdConnectSecurityScheme']))
    return 'a token of an OpenID provider (auth.oauth, auth.clientCredentials or auth.tokenExchange)';
  if (isObject(scheme['mtlsSecurityScheme'])) return 'a client certificate (tls.cert, tls.key)';
  return 'a security scheme that this gateway does not know';
}
