import type { LoginServer } from '../../identity/upstream-login/login-settings.js';
import type { AgentCard } from '../../protocol/a2a/model.js';
import { isObject, type JsonObject, type JsonValue } from '../../protocol/jsonrpc/raw.js';

const WELL_KNOWN = /\/\.well-known\/(?:openid-configuration|oauth-authorization-server)\/?$/;

/**
 * The authorization server at which users sign in. The first scheme of the card with a login of users names the server.
 */
export function loginServerOf({ securitySchemes }: AgentCard): LoginServer | undefined {
  for (const scheme of Object.values(isObject(securitySchemes) ? securitySchemes : {})) {
    if (!isObject(scheme)) continue;
    const { openIdConnectSecurityScheme: openId, oauth2SecurityScheme: oauth2 } = scheme;
    if (isObject(openId)) {
      const issuer = issuerOf(openId['openIdConnectUrl']);
      if (issuer !== undefined) return { issuer, scopes: ['openid'], pkce: false };
    }
    const flows = isObject(oauth2) ? oauth2['flows'] : undefined;
    const flow = isObject(flows) ? flows['authorizationCode'] : undefined;
    if (isObject(oauth2) && isObject(flow)) return serverOf(oauth2, flow);
  }
  return undefined;
}

function serverOf(oauth2: JsonObject, flow: JsonObject): LoginServer {
  const issuer = issuerOf(oauth2['oauth2MetadataUrl']);
  const { authorizationUrl, tokenUrl, scopes, pkceRequired } = flow;
  return {
    ...(issuer !== undefined && { issuer }),
    ...(typeof authorizationUrl === 'string' && { authorizationUrl }),
    ...(typeof tokenUrl === 'string' && { tokenUrl }),
    scopes: Object.keys(isObject(scopes) ? scopes : {}).slice(0, 50),
    pkce: pkceRequired === true,
  };
}

/** The issuer of a metadata URL. RFC 8414 puts the path of the issuer behind the well-known part. */
function issuerOf(url: JsonValue | undefined): string | undefined {
  if (typeof url !== 'string' || !URL.canParse(url)) return undefined;
  const { origin, pathname } = new URL(url);
  if (WELL_KNOWN.test(pathname)) return `${origin}${pathname.replace(WELL_KNOWN, '')}`;
  const inserted = /^\/\.well-known\/(?:openid-configuration|oauth-authorization-server)(\/.+)$/.exec(pathname)?.[1];
  return inserted === undefined ? undefined : `${origin}${inserted}`;
}
