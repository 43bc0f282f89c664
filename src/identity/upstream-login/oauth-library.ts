/** The OAuth functions of the official SDK, loaded when the first upstream needs them. */
let loading: Promise<OAuthLibrary> | undefined;

export type OAuthLibrary = typeof import('@modelcontextprotocol/client');
export type AuthorizationServerMetadata = import('@modelcontextprotocol/client').AuthorizationServerMetadata;
export type ResourceMetadata = import('@modelcontextprotocol/client').OAuthProtectedResourceMetadata;
export type ClientInformation = import('@modelcontextprotocol/client').OAuthClientInformationMixed;

export function oauthLibrary(): Promise<OAuthLibrary> {
  loading ??= import('@modelcontextprotocol/client');
  return loading;
}

/** The part of `fetch` that the functions use. Requests go through the gateway's own HTTP clients. */
export type Fetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>;
