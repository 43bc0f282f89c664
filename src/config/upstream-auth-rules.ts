/** Rules over several keys of `auth` and `forwardHeaders` of one server or agent. */
import { readFileSync } from 'node:fs';
import { isLoopback, isPem, PEM_FIX } from './address-fields.js';
import { type Origin, type ProblemCode, type Problems, show } from './problem.js';
import { HEADER_NAME } from './upstream-auth-schema.js';
import { join } from './validate.js';

interface OAuthClient {
  readonly issuer?: string;
  readonly tokenUrl?: string;
  readonly clientId?: string;
  readonly clientSecret?: string;
  readonly privateKey?: string;
}

interface Upstream {
  readonly headers: Readonly<Record<string, string>>;
  readonly forwardHeaders: Readonly<Record<string, string>>;
  readonly callerHeaders?: readonly string[];
  readonly auth: {
    readonly apiKey?: string;
    readonly header?: string;
    readonly prefix?: string;
    readonly username?: string;
    readonly password?: string;
    readonly clientCredentials: OAuthClient;
    readonly tokenExchange: OAuthClient;
  };
}

/**
 * Headers that are never sent on: they carry a credential of the caller (S12), belong to one connection, or are written
 * by the gateway itself.
 */
const NEVER_FORWARDED = new Set([
  ...['authorization', 'proxy-authorization', 'cookie', 'set-cookie', 'www-authenticate', 'proxy-authenticate'],
  ...['host', 'connection', 'keep-alive', 'te', 'trailer', 'transfer-encoding', 'upgrade', 'expect'],
  ...['content-length', 'content-type', 'content-encoding', 'accept', 'accept-encoding', 'origin', 'forwarded'],
  ...['last-event-id', 'x-parley-parameters'],
]);
const NEVER_PREFIXES = ['mcp-', 'a2a-', 'x-a2a-', 'x-forwarded-', 'proxy-', 'sec-', 'grpc-', ':'];

export const isForwardable = (name: string): boolean => {
  const lower = name.toLowerCase();
  return !NEVER_FORWARDED.has(lower) && !NEVER_PREFIXES.some((prefix) => lower.startsWith(prefix));
};

export interface UpstreamAuthReading {
  readonly problems: Problems;
  /** The position of a key, or of the nearest parent key in the file. */
  at(key: string): Origin | undefined;
  written(key: string): boolean;
}

export function checkUpstreamAuth(upstream: Upstream, key: string, reading: UpstreamAuthReading): void {
  const { problems, at, written } = reading;
  const { auth } = upstream;
  const within = join(key, 'auth');
  const error = (path: string, message: string, fix: string, code: ProblemCode = 'conflict'): void =>
    problems.error(code, path, message, fix, at(path));
  for (const grant of ['clientCredentials', 'tokenExchange'] as const) {
    const path = join(within, grant);
    if (written(path)) checkClient(auth[grant], path, reading);
  }
  const client = join(within, 'clientCredentials');
  if (auth.apiKey !== undefined && written(client))
    error(client, 'conflicts with apiKey', 'remove one of them, because both are for all callers');
  for (const part of ['header', 'prefix'] as const) {
    if (auth[part] === undefined || auth.apiKey !== undefined) continue;
    error(join(within, part), 'needs apiKey', 'add apiKey, or remove it', 'required');
  }
  if ((auth.username === undefined) !== (auth.password === undefined))
    error(within, 'username and password belong together', 'give both, or none', 'required');
  const used = usedHeader(upstream, written, within);
  const fixed = used && Object.keys(upstream.headers).find((name) => name.toLowerCase() === used.toLowerCase());
  if (fixed !== undefined)
    error(join(join(key, 'headers'), fixed), 'is also the header of the credential of auth', 'remove one of them');
  checkForwarded(upstream, key, used, reading);
  for (const [index, name] of (upstream.callerHeaders ?? []).entries()) {
    if (isForwardable(name) || name.toLowerCase() === 'authorization') continue;
    const path = join(join(key, 'callerHeaders'), String(index));
    error(path, `${show(name)} cannot be set by callers`, 'remove it', 'type');
  }
}

/** The header that the credential of `auth` is sent in, if the configuration names the header. */
function usedHeader({ auth }: Upstream, written: UpstreamAuthReading['written'], within: string): string | undefined {
  const token = ['clientCredentials', 'tokenExchange'].some((grant) => written(join(within, grant)));
  if (token || auth.username !== undefined) return 'Authorization';
  return auth.apiKey === undefined ? undefined : (auth.header ?? 'Authorization');
}

function checkClient(client: OAuthClient, path: string, { problems, at, written }: UpstreamAuthReading): void {
  const missing = (what: string, fix: string): void =>
    problems.error('required', path, `${what} is missing`, fix, at(path));
  if (client.clientId === undefined && !written(join(path, 'clientId')))
    missing('clientId', 'add the client id of the gateway at the authorization server');
  if (client.issuer === undefined && client.tokenUrl === undefined)
    missing('issuer', 'add issuer: https://…, or tokenUrl: https://…');
  if (client.clientSecret === undefined && client.privateKey === undefined)
    missing('clientSecret', 'add clientSecret, or privateKey');
  for (const part of ['issuer', 'tokenUrl'] as const) {
    const url = client[part];
    if (url === undefined || !url.startsWith('http:') || isLoopback(new URL(url).hostname.replace(/^\[|\]$/g, '')))
      continue;
    const where = join(path, part);
    problems.warn('clear', where, 'secrets and tokens travel unencrypted', 'write an https:// URL', at(where));
  }
  const { privateKey } = client;
  if (privateKey === undefined || isPem(privateKey)) return;
  const where = join(path, 'privateKey');
  try {
    if (!isPem(readFileSync(privateKey, 'latin1')))
      problems.error('file', where, `${show(privateKey)} contains no PEM text`, PEM_FIX, at(where));
  } catch (reason) {
    const code = (reason as NodeJS.ErrnoException).code ?? 'unknown';
    problems.error('file', where, `${show(privateKey)} cannot be read (${code})`, PEM_FIX, at(where));
  }
}

function checkForwarded(
  { forwardHeaders, headers }: Upstream,
  key: string,
  used: string | undefined,
  { problems, at }: UpstreamAuthReading,
): void {
  const fixed = new Set(
    [...Object.keys(headers), ...(used === undefined ? [] : [used])].map((name) => name.toLowerCase()),
  );
  const targets = new Set<string>();
  for (const [from, to] of Object.entries(forwardHeaders)) {
    const path = join(join(key, 'forwardHeaders'), from);
    const error = (message: string, fix: string, code: ProblemCode = 'conflict'): void =>
      problems.error(code, path, message, fix, at(path));
    if (!HEADER_NAME.test(from)) {
      error(`${show(from)} is not the name of a header`, 'write letters, digits and dashes', 'type');
      continue;
    }
    for (const name of new Set([from, to])) {
      if (isForwardable(name)) continue;
      error(`${show(name)} is never sent on`, 'remove it; give credentials of the upstream in auth or headers', 'type');
    }
    if (fixed.has(to.toLowerCase())) error(`${show(to)} is also set by headers or auth`, 'give it another name');
    if (targets.has(to.toLowerCase()))
      error(`${show(to)} is also the target of another header`, 'give it another name');
    targets.add(to.toLowerCase());
  }
}
