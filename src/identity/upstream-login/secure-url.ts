import { LoginError } from './login-error.js';

const LOOPBACK = /^(?:localhost|(?:[a-z0-9-]+\.)*localhost|127(?:\.\d{1,3}){3}|\[::1\])$/;

/** S9: https, or http on this machine; nothing else, and no user name or password. */
export function isSecureUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, hostname, username, password } = new URL(text);
  if (username !== '' || password !== '') return false;
  return protocol === 'https:' || (protocol === 'http:' && LOOPBACK.test(hostname));
}

/** A URL from the metadata of another party. Throws if the URL is not safe to use. */
export function securedUrl(text: string, what: string): URL {
  if (isSecureUrl(text)) return new URL(text);
  throw new LoginError(
    'server-metadata',
    `${what} is not an https URL`,
    'ask the operator of the authorization server to publish https URLs',
  );
}

/** The host of a URL, for people. */
export const hostOf = (url: string): string => (URL.canParse(url) ? new URL(url).host : 'unknown');
