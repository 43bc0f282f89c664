/**
 * How the gateway authenticates at servers and agents: `servers.<name>.auth`, `agents.<name>.auth`, `forwardHeaders`.
 */
import { httpUrl, pemText } from './address-fields.js';
import { group, list, map, oneOf, secret, text } from './field.js';
import { upstreamLogin } from './upstream-login-schema.js';

/** RFC 9110 token: the characters of a header's name. */
export const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/** Characters that a header value may have (S4). */
const HEADER_VALUE = {
  pattern: /^[\t\x20-\x7e\x80-\xff]*$/,
  what: 'cannot be sent in a header',
  fix: 'remove line breaks and characters outside Latin-1',
} as const;

const headerName = (description: string) =>
  text({
    description,
    pattern: HEADER_NAME,
    what: 'is not the name of a header',
    fix: 'write letters, digits and dashes, such as X-API-Key',
  });

export const headers = map(secret({ description: 'The value of one header.', ...HEADER_VALUE }), {
  description: 'Headers sent with every request to `url`.',
  keys: 'header',
});

export const forwardHeaders = map(headerName('The name under which the header is sent on.'), {
  description:
    "Headers of the caller's request that are sent on, by their names in the request, with the names to send; other " +
    'headers are not sent on. Headers with credentials of the caller, such as `Authorization` and `Cookie`, are never ' +
    'sent on.',
  keys: 'header',
});

export const callerHeaders = list(headerName('The name of one header of the request to the server.'), {
  description:
    'Headers that callers may set in requests to this server, such as `Authorization`: the value of ' +
    '`x-mcp-<server>-<header>` in the request of the caller replaces the header that the gateway would send.',
});

/** A client of an authorization server. */
const oauthClient = (what: string) => ({
  issuer: httpUrl({
    description: 'The authorization server, whose metadata names its token endpoint; or give `tokenUrl`.',
  }),
  tokenUrl: httpUrl({ description: 'The token endpoint, instead of `issuer`.' }),
  clientId: text({ description: `The client id of the gateway ${what}.` }),
  clientSecret: secret({ description: 'The client secret of the gateway.' }),
  privateKey: pemText({
    description: 'A private key (PEM, PKCS #8) with which the gateway signs `private_key_jwt`, instead of a secret.',
  }),
  keyId: text({ description: 'The `kid` of `privateKey` at the authorization server.' }),
  algorithm: oneOf(['RS256', 'PS256', 'ES256', 'ES384', 'EdDSA'], {
    preset: '`RS256`',
    description: 'The algorithm of signatures with `privateKey`.',
  }),
  clientAuthentication: oneOf(['auto', 'basic', 'post'], {
    preset: '`auto`',
    description:
      'How `clientSecret` is sent: `basic` as HTTP Basic, `post` in the body, `auto` as the metadata of the issuer says.',
  }),
  scope: text({ description: 'The scopes to ask for, separated by spaces.' }),
  resource: text({ description: 'The `resource` to ask for (RFC 8707); default: `url`; `none` asks for none.' }),
  audience: text({ description: 'The `audience` to ask for, at issuers that need it.' }),
});

const grants = {
  oauth: upstreamLogin,
  clientCredentials: group(
    'OAuth client credentials: one token of the gateway for all callers. Beside a method with a token for each caller, ' +
      'the gateway uses it for its own requests, such as lists of tools.',
    oauthClient('at the authorization server'),
  ),
  tokenExchange: group(
    "OAuth token exchange (RFC 8693): the gateway exchanges the caller's token for a token of the upstream. The caller's " +
      'token goes to this authorization server only. Callers with an API key or a static token have none to exchange.',
    {
      ...oauthClient('at the authorization server'),
      subjectTokenType: text({
        preset: '`urn:ietf:params:oauth:token-type:access_token`',
        description: "The type of the caller's token.",
      }),
      requestedTokenType: text({ description: 'The type of token to ask for; default: the issuer decides.' }),
    },
  ),
};

const apiKey = secret({ description: 'An API key or a fixed token, the same for all callers.', ...HEADER_VALUE });

export const serverAuth = group('How the gateway authenticates at `url`, beside `headers` and `tls`.', {
  apiKey,
  header: headerName('The header for `apiKey`; default: `Authorization`.'),
  prefix: text({
    description: 'The text before `apiKey` in its header; default: `Bearer ` in `Authorization`, nothing elsewhere.',
    ...HEADER_VALUE,
  }),
  ...grants,
});

export const agentAuth = group(
  'How the gateway authenticates at the agent, beside `headers` and `tls`. The security schemes of its card decide where ' +
    'a credential is sent; a card that requires a scheme without settings here is an error.',
  {
    apiKey,
    header: headerName('The header for `apiKey`; default: the place that the card names.'),
    prefix: text({ description: 'The text before `apiKey` in `header`.', ...HEADER_VALUE }),
    username: text({ description: 'The user name for HTTP Basic authentication.', pattern: /^[^:]*$/ }),
    password: secret({ description: 'The password for HTTP Basic authentication.' }),
    ...grants,
  },
);
