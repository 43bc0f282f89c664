/** Rules about `auth.oauth` and other keys. */
import { isLoopback } from './address-fields.js';
import { type Origin, type Problems, show } from './problem.js';
import type { WrittenConfig } from './schema.js';

/**
 * The gateway's own paths below /connect. A server at which users sign in cannot have one of these names. A test
 * compares the names with the routes.
 */
export const RESERVED_LOGINS: ReadonlySet<string> = new Set(['agents', 'callback', 'client-metadata.json', 'return']);

type Login = WrittenConfig['servers'][string]['auth']['oauth'];

export interface LoginRule {
  /** `servers.<name>` or `agents.<name>`. */
  readonly key: string;
  readonly entry: { readonly url?: string; readonly auth: { readonly oauth: Login } };
  readonly config: Pick<WrittenConfig, 'listen' | 'publicUrl'>;
  readonly problems: Problems;
  at(key: string): Origin | undefined;
  isWritten(key: string): boolean;
}

export function checkLogin({ key: parent, entry, config, problems, at, isWritten }: LoginRule): void {
  const key = `${parent}.auth.oauth`;
  if (!isWritten(key)) return;
  const { oauth } = entry.auth;
  const error = (part: string, message: string, fix: string): void =>
    problems.error('required', `${key}.${part}`, message, fix, at(`${key}.${part}`));
  if (entry.url === undefined) {
    problems.warn('conflict', key, 'has no effect without a url', 'remove it', at(key));
    return;
  }
  const [kind, ...name] = parent.split('.');
  if (kind === 'servers' && RESERVED_LOGINS.has(name.join('.').toLowerCase()))
    problems.error(
      'name',
      parent,
      `${show(name.join('.'))} is taken: /connect/${name.join('.')} is an endpoint of the gateway, and users sign in at a server below /connect`,
      `rename it, for example to ${name.join('.')}-server`,
      at(parent),
    );
  if (Object.keys(oauth).every((name) => oauth[name as keyof Login] === undefined || isEmptyList(oauth, name)))
    error('registration', 'is missing, as are all other keys of this section', 'write registration: auto');
  if (oauth.registration === 'static' && oauth.clientId === undefined)
    error('clientId', 'is missing; registration: static needs it', 'add the client id that you registered');
  if (oauth.clientSecret !== undefined && oauth.clientId === undefined)
    error('clientId', 'is missing; clientSecret belongs to a client', 'add the client id that you registered');
  if (oauth.registration === 'metadata' && oauth.clientId === undefined && !config.publicUrl?.startsWith('https:'))
    error(
      'registration',
      'metadata needs an https publicUrl',
      'set publicUrl, or clientId to a document that you publish',
    );
  if (config.publicUrl === undefined && !isLoopback(config.listen.host))
    problems.error(
      'required',
      'publicUrl',
      `is missing; the links by which users sign in at "${parent.split('.').at(-1)}" need it`,
      'set publicUrl to the URL at which browsers reach the gateway',
      at(key),
    );
}

const isEmptyList = (oauth: Login, name: string): boolean => {
  const value = oauth[name as keyof Login];
  return Array.isArray(value) && value.length === 0;
};
