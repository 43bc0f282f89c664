/** The paths of the authorization server, below its issuer. */
export const PATHS = {
  authorize: '/oauth/authorize',
  token: '/oauth/token',
  register: '/oauth/register',
  revoke: '/oauth/revoke',
  keys: '/oauth/jwks',
  interaction: '/oauth/interaction',
  callback: '/oauth/callback',
  style: '/oauth/style.css',
} as const;

/**
 * The client by which the gateway signs users in for its own pages. The answer with its code leads the browser back to
 * the page, and nobody uses the code.
 */
export const OWN_CLIENT = { id: 'parley', returnPath: '/connect/return' } as const;

/**
 * The name of the cookie of a browser's session. S5: only this host itself, and no subdomain, can set a cookie with the
 * prefix `__Host-`, and only over https.
 */
export const sessionCookie = (secure: boolean): string => (secure ? '__Host-parley_session' : 'parley_session');

/** The names of two cookies inside of oidc-provider. The HTTP layer translates them. */
export const FLOW_COOKIES = { interaction: 'parley_interaction', resume: 'parley_resume' } as const;

/** The time to sign in and to agree, in milliseconds; S5 allows ten minutes. */
export const INTERACTION_LIFE = 600_000;
