import { describe, expect, it } from 'vitest';
import { ADMIN_ROLE, LOCAL, principalOf } from '../core/caller.js';
import { type AuthenticationRequest, type Authenticator, anyOf, Challenge, OPEN } from './authenticator.js';
import { TokenAuthenticator } from './token-authenticator.js';

const request = (headers: Record<string, string> = {}): AuthenticationRequest => ({
  method: 'POST',
  url: '/mcp',
  peer: '127.0.0.1',
  certificate: undefined,
  header: (name) => headers[name],
});

const tokens = new TokenAuthenticator([
  { name: 'ada', token: 'token-of-ada', admin: false },
  { name: 'root', token: 'token-of-root', admin: true },
]);

describe('principals', () => {
  it('have the subject as key if the gateway is the issuer, otherwise issuer and subject', () => {
    expect(principalOf({ subject: 'ada' }).key).toBe('ada');
    expect(principalOf({ issuer: 'https://idp.example', subject: 'ada' }).key).toBe('https://idp.example#ada');
  });

  it('of different issuers never have the same key', () => {
    const one = principalOf({ issuer: 'https://idp.example#a', subject: 'b' });
    const other = principalOf({ issuer: 'https://idp.example', subject: 'a#b' });
    expect(one.key).not.toBe(other.key);
  });
});

describe('tokens', () => {
  it('identify callers with their configured roles', () => {
    expect(tokens.authenticate(request({ authorization: 'Bearer token-of-ada' }))).toMatchObject({
      key: 'ada',
      roles: [],
    });
    expect(tokens.authenticate(request({ authorization: 'bearer token-of-root' }))).toMatchObject({
      key: 'root',
      roles: [ADMIN_ROLE],
    });
  });

  it.each([undefined, 'token-of-ada', 'Basic token-of-ada', 'Bearer nobody', 'Bearer token-of-ada x'])(
    '%s gets a challenge',
    (authorization) => {
      const given = tokens.authenticate(request(authorization === undefined ? {} : { authorization }));
      expect(given).toBeInstanceOf(Challenge);
      expect((given as Challenge).headers).toEqual({ 'WWW-Authenticate': 'Bearer realm="parley"' });
    },
  );
});

describe('several authenticators', () => {
  const signed: Authenticator = {
    enabled: true,
    authenticate: async ({ header }) =>
      header('x-signature') === 'good'
        ? principalOf({ issuer: 'signatures', subject: 'eve' })
        : new Challenge('Sign the request', { 'WWW-Authenticate': 'Signature' }),
  };

  it('without authenticators every caller is the local operator', () => {
    expect(anyOf([])).toBe(OPEN);
    expect(OPEN.authenticate(request())).toBe(LOCAL);
    expect(anyOf([tokens])).toBe(tokens);
  });

  it('the first authenticator that knows the caller decides, and the result is a promise only if one is needed', async () => {
    const both = anyOf([tokens, signed]);
    expect(both.authenticate(request({ authorization: 'Bearer token-of-ada' }))).toMatchObject({ key: 'ada' });
    expect(await both.authenticate(request({ 'x-signature': 'good' }))).toMatchObject({ key: 'signatures#eve' });
  });

  it('an unknown caller gets the challenges of all authenticators', async () => {
    expect(await anyOf([tokens, signed]).authenticate(request())).toMatchObject({
      message: 'Unauthorized: Invalid or missing API key',
      headers: { 'WWW-Authenticate': 'Bearer realm="parley", Signature' },
    });
  });
});
