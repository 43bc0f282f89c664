import { isLoopback } from './address-fields.js';
import type { WrittenConfig } from './schema.js';
import type { Reading } from './validate.js';

const DAY = 24 * 3_600_000;

/** Rules about `auth.builtin` that concern several keys. */
export function builtinAuthRules(config: Omit<WrittenConfig, 'timeouts'>, { problems, origins }: Reading): void {
  const { auth, listen, publicUrl, tls } = config;
  const { enabled, passwords, accessTokenLife, login } = auth.builtin;
  const at = (key: string) => origins.get(key) ?? origins.get('auth.builtin') ?? origins.get('auth');
  if (!enabled) {
    if (login.issuer !== undefined)
      problems.warn(
        'conflict',
        'auth.builtin.login',
        'has no effect while auth.builtin.enabled is false',
        'set auth.builtin.enabled: true, or remove it',
        at('auth.builtin.login'),
      );
    return;
  }
  const key = 'auth.builtin.enabled';
  if (publicUrl === undefined && (!isLoopback(listen.host) || listen.port === 0)) {
    problems.error(
      'required',
      'publicUrl',
      'is missing; the authorization server needs a fixed URL, which is the issuer of its tokens',
      'set publicUrl: https://…',
      at(key),
    );
  }
  if (publicUrl !== undefined && URL.canParse(publicUrl)) {
    const { protocol, hostname, search, hash } = new URL(publicUrl);
    if (protocol === 'http:' && !isLoopback(hostname.replace(/^\[|\]$/g, '')))
      problems.error(
        'clear',
        'publicUrl',
        'is an http:// URL, so passwords and codes would travel unencrypted',
        'use an https:// URL',
        origins.get('publicUrl'),
      );
    if (search !== '' || hash !== '')
      problems.error('type', 'publicUrl', 'has a query or a fragment', 'remove it', origins.get('publicUrl'));
  } else if (tls.cert === undefined && !isLoopback(listen.host)) {
    problems.error('clear', key, 'needs https', 'set publicUrl: https://… or tls', at(key));
  }
  if (accessTokenLife > DAY)
    problems.error('range', 'auth.builtin.accessTokenLife', 'is longer than a day', 'write at most 24h', at(key));
  if (!passwords && login.issuer === undefined)
    problems.error(
      'empty',
      'auth.builtin.passwords',
      'is false and there is no auth.builtin.login, so nobody could sign in',
      'set passwords: true, or add login: { issuer: …, clientId: … }',
      at('auth.builtin.passwords'),
    );
  if (login.issuer !== undefined && login.clientId === undefined)
    problems.error('required', 'auth.builtin.login.clientId', 'is missing', 'add it', at('auth.builtin.login'));
  if (login.issuer !== undefined && !login.scopes.includes('openid'))
    problems.error('type', 'auth.builtin.login.scopes', 'lacks "openid"', 'add openid', at('auth.builtin.login'));
  if (login.issuer === undefined && origins.has('auth.builtin.login'))
    problems.error(
      'required',
      'auth.builtin.login.issuer',
      'is missing',
      'add it, or remove login',
      at('auth.builtin.login'),
    );
}
