import { errors } from 'oidc-provider';
import { OWN_CLIENT } from './paths.js';

/** The part of a client's metadata that the rules read. */
export interface ClientMetadata {
  client_id?: unknown;
  redirect_uris?: unknown;
  application_type?: unknown;
  client_name?: unknown;
  scope?: unknown;
}

/** Schemes whose content the browser would run or open, instead of returning to the client (S9). */
const FORBIDDEN = new Set(
  [
    'about',
    'blob',
    'data',
    'file',
    'filesystem',
    'ftp',
    'javascript',
    'mailto',
    'vbscript',
    'view-source',
    'ws',
    'wss',
  ].map((scheme) => `${scheme}:`),
);
const LOOPBACK = new Set(['localhost', '127.0.0.1', '[::1]']);
const MOST_REDIRECTS = 20;
const LONGEST_REDIRECT = 2_048;
const LONGEST_NAME = 200;

export const isLoopbackUrl = (url: URL): boolean => LOOPBACK.has(url.hostname);

/**
 * Checks the redirect URIs of every client, registered or from a metadata document: https, http on this machine, or the
 * own scheme of a native application. A client that runs on the user's machine counts as native, whatever it declares:
 * its port may change (RFC 8252 §7.3), and the user is always asked for consent.
 */
export function checkClient(client: ClientMetadata): void {
  // The user decides about scopes. A list that a client declares in advance would only limit later requests.
  delete client.scope;
  const { redirect_uris: uris, client_name: name } = client;
  if (typeof name === 'string' && name.length > LONGEST_NAME)
    throw new errors.InvalidClientMetadata(`client_name may have at most ${LONGEST_NAME} characters`);
  if (!Array.isArray(uris)) return;
  if (uris.length > MOST_REDIRECTS)
    throw new errors.InvalidRedirectUri(`a client may have at most ${MOST_REDIRECTS} redirect_uris`);
  let local = false;
  for (const uri of uris) {
    if (typeof uri !== 'string' || uri.length > LONGEST_REDIRECT || !URL.canParse(uri))
      throw new errors.InvalidRedirectUri('redirect_uris must be URLs of at most 2048 characters');
    const url = new URL(uri);
    if (url.username !== '' || url.password !== '')
      throw new errors.InvalidRedirectUri('redirect_uris must not contain a user name');
    if (FORBIDDEN.has(url.protocol))
      throw new errors.InvalidRedirectUri(`redirect_uris must not use the scheme ${url.protocol.slice(0, -1)}`);
    if (url.protocol === 'http:' && !isLoopbackUrl(url))
      throw new errors.InvalidRedirectUri('redirect_uris must use https, or http on localhost');
    local ||= url.protocol !== 'https:' || isLoopbackUrl(url);
  }
  // The gateway's own client is not native, because users of native clients are always asked for consent.
  if (client.client_id === OWN_CLIENT.id) return;
  if (local && uris.every((uri) => !(new URL(uri).protocol === 'https:' && isLoopbackUrl(new URL(uri)))))
    client.application_type = 'native';
}
