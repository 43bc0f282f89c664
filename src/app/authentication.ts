import type { Config } from '../config/schema.js';
import { type Authenticator, anyOf } from '../identity/authenticator.js';
import { TokenAuthenticator } from '../identity/token-authenticator.js';

/** The configured authenticators, in the order in which they are tried. */
export function authenticatorOf({ auth }: Config): Authenticator {
  return anyOf([...(auth.tokens.length > 0 ? [new TokenAuthenticator(auth.tokens)] : [])]);
}
