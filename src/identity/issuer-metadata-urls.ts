/**
 * The URLs of an issuer's metadata, in the order of MCP. RFC 8414 §3.1 puts the path of the issuer behind the
 * well-known path; OpenID Connect also appends the well-known path to the issuer.
 */
export function metadataUrls(issuer: string): string[] {
  const { origin, pathname } = new URL(issuer);
  const path = pathname.replace(/\/+$/, '');
  return [
    ...new Set([
      `${origin}/.well-known/oauth-authorization-server${path}`,
      `${origin}/.well-known/openid-configuration${path}`,
      `${origin}${path}/.well-known/openid-configuration`,
    ]),
  ];
}
