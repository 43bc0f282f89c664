import { isLoopback } from './address-fields.js';
import { show } from './problem.js';
import type { WrittenConfig } from './schema.js';
import type { Reading } from './validate.js';

type Auth = WrittenConfig['auth'];

/** Whether the configuration has a way to tell callers apart. */
export const identifiesCallers = ({ tokens, keys, jwt, certificates, builtin }: Auth): boolean =>
  tokens.length > 0 || builtin.enabled || keys || jwt.length > 0 || certificates.subject !== undefined;

/** Rules about `auth` that concern several keys. */
export function authRules(config: Omit<WrittenConfig, 'timeouts'>, { problems, origins }: Reading): void {
  const { auth, tls, publicUrl, listen } = config;
  const at = (key: string) => origins.get(key) ?? origins.get('auth');
  if (auth.certificates.subject !== undefined && tls.clientCa === undefined) {
    problems.error(
      'required',
      'auth.certificates.subject',
      'needs tls.clientCa, which signs the certificates of callers',
      'add tls: { cert: …, key: …, clientCa: … }',
      at('auth.certificates.subject'),
    );
  }
  const issuers = new Map<string, number>();
  for (const [index, { issuer, audience }] of (auth.jwt as readonly Partial<Auth['jwt'][number]>[]).entries()) {
    const key = `auth.jwt[${index}]`;
    if (issuer === undefined) continue;
    const before = issuers.get(issuer);
    if (before !== undefined) {
      const fix = `join it with auth.jwt[${before}]`;
      problems.error('duplicate', `${key}.issuer`, `${show(issuer)} is configured twice`, fix, at(`${key}.issuer`));
    } else issuers.set(issuer, index);
    if (publicUrl === undefined && !isLoopback(listen.host) && (audience ?? []).length === 0) {
      problems.error(
        'required',
        'publicUrl',
        'is missing; without it the gateway does not know for which URL access tokens must be',
        `set publicUrl: https://…, or ${key}.audience`,
        at(`${key}.issuer`),
      );
    }
    if (issuer.startsWith('http:') && !isLoopback(new URL(issuer).hostname.replace(/^\[|\]$/g, ''))) {
      problems.warn(
        'clear',
        `${key}.issuer`,
        `the keys of ${show(issuer)} travel unencrypted, so anyone on the way can replace them`,
        'use an https:// issuer',
        at(`${key}.issuer`),
      );
    }
  }
  if (auth.publicDiscovery && !identifiesCallers(auth)) {
    const fix = 'add a way to authenticate, such as auth.tokens, or remove it';
    const message = 'has no effect without callers that authenticate';
    problems.warn('conflict', 'auth.publicDiscovery', message, fix, at('auth.publicDiscovery'));
  }
}
