import { httpUrl } from './address-fields.js';
import { duration, flag, group, list, secret, text } from './field.js';

const CLAIM = {
  pattern: /^\S{1,100}$/,
  what: 'is not the name of a claim',
  fix: 'write a name such as groups',
} as const;

const roleOfValue = group('A value of `rolesClaim`, and the role that users with this value get.', {
  value: text({ required: true, description: 'The value, such as the name of a group.' }),
  role: text({
    required: true,
    description: 'The role; `admin` may use the administrative routes.',
    pattern: /^[A-Za-z0-9][\w.:/-]{0,63}$/,
    what: 'is not a name for a role',
    fix: 'write letters and digits',
  }),
});

/** `auth.builtin`: the authorization server of the gateway itself. */
export const BUILTIN_AUTH = group(
  'The built-in OAuth authorization server: users sign in and allow clients to act for them. docs/oauth-server.md ' +
    'describes it.',
  {
    enabled: flag({
      default: false,
      description:
        'Whether the gateway is an authorization server, with `publicUrl` or the `listen` address as its issuer.',
    }),
    passwords: flag({
      default: true,
      description: 'Whether local users (`parley users add`) sign in with a password.',
    }),
    registration: flag({
      default: true,
      description: 'Whether clients may register themselves (RFC 7591); most MCP clients need it.',
    }),
    clientMetadata: flag({
      default: true,
      description: 'Whether a client may be named by the https URL of its metadata document.',
    }),
    accessTokenLife: duration({
      default: '10m',
      description: 'How long an access token is valid; at most one day; a revoked token is refused within a second.',
    }),
    refreshTokenLife: duration({
      default: '14d',
      description: 'How long a client may stay away before its user has to sign in again.',
    }),
    sessionLife: duration({ default: '12h', description: 'How long a browser stays signed in.' }),
    login: group('Sign-in at another OpenID provider.', {
      issuer: httpUrl({ description: "The provider's issuer, exactly as its documents name it." }),
      clientId: text({ description: 'The id of the gateway at the provider.' }),
      clientSecret: secret({ description: 'The client secret of the gateway at the provider, if there is one.' }),
      name: text({ description: 'The name of the provider on the login page.', preset: 'the host of `issuer`' }),
      scopes: list(text({ description: 'One scope.' }), {
        default: ['openid', 'profile', 'email'],
        description: 'The scopes to ask for; `openid` must be one of them.',
      }),
      rolesClaim: text({
        ...CLAIM,
        default: 'groups',
        description: 'The claim of the ID token whose values `roles` maps to roles.',
      }),
      roles: list(roleOfValue, { description: 'The roles of users by the values of `rolesClaim`.' }),
      tenantClaim: text({ ...CLAIM, description: "The claim with the user's tenant; users without it are refused." }),
      allowClaim: text({ ...CLAIM, default: 'groups', description: 'The claim that `allow` compares.' }),
      allow: list(text({ description: 'One value.' }), {
        description:
          'Only users with one of these values in `allowClaim` may sign in; without values every user of the provider may.',
      }),
    }),
  },
);
