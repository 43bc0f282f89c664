import { expect, test } from 'vitest';
import type { AgentCard } from '../../protocol/a2a/model.js';
import { loginServerOf } from './card-login.js';

const cardOf = (securitySchemes: object): AgentCard => ({ name: 'it', securitySchemes }) as unknown as AgentCard;

test('an OpenID scheme names its issuer by the URL of the metadata', () => {
  const openId = (openIdConnectUrl: string) =>
    loginServerOf(cardOf({ login: { openIdConnectSecurityScheme: { openIdConnectUrl } } }));
  expect(openId('https://as.example/tenant/.well-known/openid-configuration')).toEqual({
    issuer: 'https://as.example/tenant',
    scopes: ['openid'],
    pkce: false,
  });
  // RFC 8414 puts the path of the issuer behind the well-known part.
  expect(openId('https://as.example/.well-known/oauth-authorization-server/tenant')?.issuer).toBe(
    'https://as.example/tenant',
  );
  expect(openId('https://as.example/metadata')).toBeUndefined();
  expect(openId('no URL')).toBeUndefined();
});

test('an authorization code flow names its endpoints, its scopes and whether it has PKCE', () => {
  const flow = {
    authorizationUrl: 'https://as.example/authorize',
    tokenUrl: 'https://as.example/token',
    scopes: { read: 'Read', write: 'Write' },
    pkceRequired: true,
  };
  expect(loginServerOf(cardOf({ login: { oauth2SecurityScheme: { flows: { authorizationCode: flow } } } }))).toEqual({
    authorizationUrl: flow.authorizationUrl,
    tokenUrl: flow.tokenUrl,
    scopes: ['read', 'write'],
    pkce: true,
  });
});

test('uses the first scheme with a login of users, and limits the number of scopes', () => {
  const many = Object.fromEntries(Array.from({ length: 200 }, (_, i) => [`s${i}`, '']));
  const card = cardOf({
    key: { apiKeySecurityScheme: { name: 'X-Key', location: 'header' } },
    machine: { oauth2SecurityScheme: { flows: { clientCredentials: { tokenUrl: 'https://as.example/token' } } } },
    broken: 'text',
    login: { oauth2SecurityScheme: { flows: { authorizationCode: { scopes: many } } } },
  });
  expect(loginServerOf(card)?.scopes).toHaveLength(50);
  expect(loginServerOf(cardOf({}))).toBeUndefined();
  expect(loginServerOf({ name: 'it' } as unknown as AgentCard)).toBeUndefined();
});
