import { httpUrl } from './address-fields.js';
import { BUILTIN_AUTH } from './builtin-auth-schema.js';
import { duration, flag, group, integer, list, oneOf, secret, text } from './field.js';

/** The form of a caller's name. It contains no `#` and no `~`, which separate the parts of a principal's key. */
export const CALLER_NAME = /^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$/;
export const CALLER_NAME_FIX =
  'write up to 64 letters, digits, dots, dashes, underscores or @, starting with a letter or digit';

/** Only asymmetric algorithms: with HS* or `none`, everyone who knows the public key could sign (S13). */
const ALGORITHMS = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA'] as const;

const callerToken = group('A caller and its token.', {
  name: text({
    required: true,
    description: "The caller's name, which owns its sessions and tasks and appears in the log.",
    pattern: CALLER_NAME,
    what: 'is not a name for a caller',
    fix: CALLER_NAME_FIX,
  }),
  token: secret({
    required: true,
    description: 'The token that the caller sends as `Authorization: Bearer`; at least 16 characters.',
  }),
  admin: flag({ default: false, description: 'Whether the caller may use the administrative routes.' }),
});

const claim = (description: string) =>
  text({ description, pattern: /\S/, what: 'is empty', fix: 'name a claim, such as groups or realm_access.roles' });

/** RFC 6749 §3.3 */
const scope = text({
  description: 'One scope.',
  pattern: /^[\x21\x23-\x5b\x5d-\x7e]+$/,
  what: 'is not a scope',
  fix: 'write one word, such as tools:write',
});

const issuer = group('One issuer of JWT access tokens: an OAuth authorization server or an OpenID provider.', {
  issuer: httpUrl({
    required: true,
    description: 'The issuer, exactly as in `iss`; its metadata (RFC 8414 or OpenID Connect discovery) names its keys.',
  }),
  jwks: httpUrl({ description: 'The URL of its keys, if its metadata does not name it.' }),
  audience: list(text({ description: 'One audience.' }), {
    description:
      'Accepted values of `aud` besides the URLs of the endpoints, for issuers that know no `resource` parameter, such ' +
      'as `api://parley`.',
  }),
  algorithms: list(oneOf(ALGORITHMS, { description: 'One algorithm.' }), {
    default: ['RS256', 'PS256', 'ES256', 'EdDSA'],
    description: 'Accepted signature algorithms.',
  }),
  claims: group('The claims that describe the caller. A name such as `realm_access.roles` is a path.', {
    subject: text({
      default: 'sub',
      description: 'The claim that identifies the caller; the issuer must never give its value to another caller.',
    }),
    roles: claim('The claim with the roles of the caller in this gateway; `admin` is an administrator.'),
    groups: claim('The claim with the groups of the caller, for `auth.roles`.'),
    tenant: claim(
      'The claim with the tenant of the caller; tenants share no state, and a token without it is refused.',
    ),
    scopes: claim('The claim with the scopes; default: `scope` and `scp`.'),
  }),
  requiredScopes: list(scope, { description: 'Scopes that a token of this issuer must have for every request.' }),
});

const roleRule = group('Gives a role to callers.', {
  role: text({
    required: true,
    description: 'The role; `admin` may use the administrative routes.',
    pattern: /^[\w.:-]{1,64}$/,
    what: 'is not a name for a role',
    fix: 'write up to 64 letters, digits, dots, colons, dashes or underscores',
  }),
  callers: list(text({ description: 'One caller.' }), {
    description: 'Callers as the log names them: `ada`, `https://idp.example#ada`, `certificate#ada`.',
  }),
  groups: list(text({ description: 'One group.' }), {
    description: 'Groups, from any issuer (`ops`) or from one (`https://idp.example#ops`).',
  }),
});

const pattern = (description: string) =>
  text({ description, pattern: /\S/, what: 'is empty', fix: 'write a name or a pattern, such as weather__*' });

const scopeRule = group('A scope of access tokens, and what needs it.', {
  scope: text({
    required: true,
    description: 'The scope.',
    pattern: /^[\x21\x23-\x5b\x5d-\x7e]+$/,
    what: 'is not a scope',
    fix: 'write one word, such as tools:write',
  }),
  servers: list(pattern('One server or agent.'), {
    description: 'Servers and agents whose calls need the scope; `*` matches any characters.',
  }),
  tools: list(pattern('One tool.'), {
    description: "Tools whose calls need the scope, by the names in the gateway's lists; `*` matches any characters.",
  }),
  includes: list(scope, { description: 'Other scopes that this scope includes.' }),
});

export const AUTH = group(
  'The callers. Without `auth` every program on this machine may call, and nobody else. Several ways can be combined.',
  {
    tokens: list(callerToken, { description: 'Callers with a bearer token.' }),
    keys: flag({
      default: false,
      description: 'Whether callers may use API keys, which `parley keys create` makes and `parley keys revoke` ends.',
    }),
    jwt: list(issuer, { description: 'Issuers whose access tokens the gateway accepts.' }),
    certificates: group('Callers with a client certificate that `tls.clientCa` signed.', {
      subject: oneOf(['commonName', 'subject', 'dns', 'uri', 'email'], {
        description:
          'The part of the certificate that names the caller: the common name, the whole subject, or the first ' +
          'alternative name of a kind; without this key certificates identify no caller.',
      }),
    }),
    builtin: BUILTIN_AUTH,
    roles: list(roleRule, { description: 'Roles of callers and groups, besides those that tokens and keys have.' }),
    scopes: list(scopeRule, {
      description:
        'Scopes that access tokens need for some servers and tools; a call without them is answered with 403 and the ' +
        'scopes to ask for.',
    }),
    publicDiscovery: flag({
      default: false,
      description:
        'Whether callers without a credential may use `initialize`, `ping`, `server/discover` and the lists of MCP, for ' +
        'scanners of registries; they never call, read or get anything.',
    }),
    failures: group('Limits on failed authentications; beyond them the gateway answers 429 for a while.', {
      perAddress: integer({
        default: 30,
        min: 1,
        max: 1_000_000,
        description: 'Maximum number of failures of one address (IPv6: one /64 network) in `window`.',
      }),
      perAccount: integer({
        default: 30,
        min: 1,
        max: 1_000_000,
        description:
          'Maximum number of failures for one account in `window`, from all addresses; addresses without a failure are ' +
          'still served.',
      }),
      window: duration({ default: '1m', description: 'The time in which failures are counted.' }),
    }),
  },
);
