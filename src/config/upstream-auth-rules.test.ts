import { expect, test } from 'vitest';
import { configFrom } from './load.js';
import { isForwardable } from './upstream-auth-rules.js';

const url = 'https://up.example.com/mcp';
const client = { issuer: 'https://issuer.example.com', clientId: 'gateway', clientSecret: 'top-secret-value' };

test.each([
  ['clientId is missing', { auth: { clientCredentials: { issuer: client.issuer, clientSecret: 'x' } } }],
  ['issuer is missing', { auth: { clientCredentials: { clientId: 'a', clientSecret: 'x' } } }],
  ['clientSecret is missing', { auth: { tokenExchange: { clientId: 'a', issuer: client.issuer } } }],
  ['conflicts with apiKey', { auth: { apiKey: 'k', clientCredentials: client } }],
  ['needs apiKey', { auth: { header: 'X-Key' } }],
  ['is also the header of the credential', { auth: { apiKey: 'k' }, headers: { authorization: 'Bearer x' } }],
  ['is also the header of the credential', { auth: { clientCredentials: client }, headers: { Authorization: 'x' } }],
  ['"Authorization" is never sent on', { forwardHeaders: { Authorization: 'X-Token' } }],
  ['"Cookie" is never sent on', { forwardHeaders: { Cookie: 'Cookie' } }],
  ['"cookie" is never sent on', { forwardHeaders: { 'x-session': 'cookie' } }],
  ['is also set by headers or auth', { forwardHeaders: { 'x-a': 'X-B' }, headers: { 'x-b': '1' } }],
  ['is also the target of another header', { forwardHeaders: { 'x-a': 'x-c', 'x-b': 'X-C' } }],
  ['cannot be sent in a header', { auth: { apiKey: 'k\r\nX-Evil: 1' } }],
  ['is not the name of a header', { auth: { apiKey: 'k', header: 'X Key' } }],
  [
    'cannot be read',
    { auth: { tokenExchange: { ...client, clientSecret: undefined, privateKey: '/nowhere/key.pem' } } },
  ],
])('a server is refused: %s', (message, settings) => {
  const written = JSON.parse(JSON.stringify({ servers: { a: { url, ...settings } } })) as object;
  expect(() => configFrom(written)).toThrow(message);
});

test('S12: no header with a credential or of the connection can be sent on', () => {
  for (const name of [
    'Authorization',
    'cookie',
    'Proxy-Authorization',
    'Host',
    'MCP-Session-Id',
    'X-Forwarded-For',
    'TE',
  ])
    expect(isForwardable(name), name).toBe(false);
  for (const name of ['x-tenant', 'X-Customer', 'accept-language', 'traceparent'])
    expect(isForwardable(name), name).toBe(true);
});

test('settings that work together', () => {
  const { config } = configFrom({
    servers: {
      a: { url, auth: { tokenExchange: client, clientCredentials: client }, forwardHeaders: { 'x-t': 'x-c' } },
    },
  });
  expect(config.servers['a']).toMatchObject({ forwardHeaders: { 'x-t': 'x-c' }, auth: { tokenExchange: client } });
});
