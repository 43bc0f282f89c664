/** The keys of `auth.oauth` of a server or an agent: users sign in at it, and the gateway is the OAuth client. */
import { httpUrl } from './address-fields.js';
import { group, list, oneOf, secret, text } from './field.js';

const scope = text({
  description: 'One scope.',
  pattern: /^[\x21\x23-\x5b\x5d-\x7e]+$/,
  what: 'is not a scope',
  fix: 'write one scope without spaces and quotes, such as repo:read',
});

export const upstreamLogin = group(
  'Each user signs in at the server (OAuth authorization code with PKCE), and calls carry the token of their user. ' +
    'Any key switches it on; `registration: auto` is enough.',
  {
    registration: oneOf(['auto', 'metadata', 'dynamic', 'static'], {
      description:
        'How the gateway becomes a client of the authorization server: by its Client ID Metadata Document (needs an ' +
        'https `publicUrl`), by dynamic registration, or as the registered client `clientId`; `auto` takes `clientId` ' +
        'if it is set, otherwise the first way that the authorization server offers.',
    }),
    scopes: list(scope, {
      description: 'Scopes to ask for, instead of those that the server names.',
    }),
    clientId: text({
      description: 'The registered client, or with `registration: metadata` the URL of a document that you publish.',
      pattern: /^[\x20-\x7e]+$/,
      what: 'is not a client id',
      fix: 'copy the client id from the authorization server',
    }),
    clientSecret: secret({ description: 'The secret of `clientId`, if it has one.' }),
    issuer: httpUrl({
      description:
        'The authorization server, instead of the one that the server names; it may be on a private network.',
    }),
    clientName: text({ description: 'The name of the gateway at the authorization server; default: Parley.' }),
    quirks: list(
      oneOf(
        [
          'no-resource',
          'assume-pkce',
          'any-issuer',
          'any-resource',
          'secret-in-body',
          'secret-in-header',
          'no-offline-access',
        ],
        { description: 'One deviation.' },
      ),
      { description: 'Deviations of the authorization server; `parley auth doctor` says which ones to set.' },
    ),
  },
);
