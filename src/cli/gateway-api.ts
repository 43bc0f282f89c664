/** Requests of the command line to a running gateway. */
import { isLoopback } from '../config/address-fields.js';
import { hasConfiguration, loadConfig } from '../config/load.js';
import type { Config } from '../config/schema.js';
import type { CommandLine, Flag } from './command.js';

/** The URL of a gateway, and the token for it. */
export interface GatewayAddress {
  readonly url: string;
  readonly token: string | undefined;
}

export const URL_FLAG: Flag = {
  name: 'url',
  value: 'URL',
  description: 'The URL of the gateway. Default: the listen address of the configuration.',
};
export const TOKEN_FLAG: Flag = {
  name: 'token-env',
  value: 'NAME',
  description: 'The variable that holds the token. Default: PARLEY_TOKEN, then a token of the configuration.',
};

/** Time limit for an answer of the gateway, in milliseconds. */
const TIMEOUT = 15_000;
const LARGEST_ANSWER = 64 * 2 ** 20;

/** The gateway of a command line: `--url`, or the listen address of the configuration. */
export function gatewayAddress({ io, text }: CommandLine): GatewayAddress {
  const given = text('url');
  const variable = text('token-env') ?? 'PARLEY_TOKEN';
  const fromEnvironment = io.env[variable];
  if (text('token-env') !== undefined && (fromEnvironment ?? '') === '')
    throw new Error(`the environment variable ${variable} is not set; set it to a token of the gateway`);
  const own = (fromEnvironment ?? '') === '' ? undefined : fromEnvironment;
  if (given !== undefined) {
    if (!/^https?:\/\//.test(given) || !URL.canParse(given))
      throw new Error(`--url ${JSON.stringify(given)} is not a URL; write http://HOST:PORT or https://HOST:PORT`);
    // A token of a local configuration goes only to the gateway of that configuration.
    const { protocol, host, pathname } = new URL(given);
    return { url: `${protocol}//${host}${pathname.replace(/\/+$/, '')}`, token: own ?? tokenFor(given, io, text) };
  }
  const file = hasConfiguration({ ...io, file: text('config') }) ? text('config') : io.quickstart;
  const { config } = loadConfig({ ...io, file });
  return { url: listenUrl(config), token: own ?? tokenOf(config) };
}

/** The token of the configuration, if `url` is the gateway that the configuration starts. */
function tokenFor(url: string, io: CommandLine['io'], text: CommandLine['text']): string | undefined {
  if (!hasConfiguration({ ...io, file: text('config') })) return undefined;
  try {
    const { config } = loadConfig({ ...io, file: text('config') });
    return isGatewayOf(config, new URL(url)) ? tokenOf(config) : undefined;
  } catch {
    // If --url is given, the configuration of this folder need not be valid.
    return undefined;
  }
}

/** Whether the configuration starts the gateway at this URL. */
function isGatewayOf({ publicUrl, listen, tls }: Config, { origin, protocol, hostname }: URL): boolean {
  if (publicUrl !== undefined && new URL(publicUrl).origin === origin) return true;
  if (listen.port !== 0) return new URL(listenUrl({ listen, tls })).origin === origin;
  // The system chooses the port, so any port fits. The host must be this machine, because the token must not leave it.
  const chosen = new URL(listenUrl({ listen: { ...listen, port: 1 }, tls }));
  return isLoopback(listen.host) && chosen.protocol === protocol && chosen.hostname === hostname;
}

/** The token of an administrator comes first, because it may see everything. */
function tokenOf({ auth }: Config): string | undefined {
  return (auth.tokens.find(({ admin }) => admin) ?? auth.tokens[0])?.token;
}

export function listenUrl({ listen, tls }: Pick<Config, 'listen' | 'tls'>): string {
  if (listen.port === 0)
    throw new Error('listen has no fixed port; give the URL that the gateway printed at its start with --url');
  const everywhere = listen.host === '0.0.0.0' || listen.host === '::';
  const host = !isLoopback(listen.host) && everywhere ? '127.0.0.1' : listen.host;
  return `${tls.cert === undefined ? 'http' : 'https'}://${host.includes(':') ? `[${host}]` : host}:${listen.port}`;
}

/** The gateway refused a request. */
export class GatewayRefusal extends Error {
  override readonly name = 'GatewayRefusal';

  constructor(
    message: string,
    readonly status: number,
    readonly body: unknown,
  ) {
    super(message);
  }
}

/** A request with a JSON answer. Throws a `GatewayRefusal` for an error status. */
export async function requestJson(
  { url, token }: GatewayAddress,
  path: string,
  { method = 'GET', body, headers = {}, timeout = TIMEOUT }: RequestOptions = {},
): Promise<unknown> {
  let response: Response;
  try {
    response = await fetch(`${url}${path}`, {
      method,
      headers: {
        Accept: 'application/json',
        ...(body !== undefined && { 'Content-Type': 'application/json' }),
        ...(token !== undefined && { Authorization: `Bearer ${token}` }),
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      redirect: 'manual',
      signal: AbortSignal.timeout(timeout),
    });
  } catch (error) {
    throw unreachable(url, error, timeout);
  }
  const answer = await jsonOf(response);
  if (response.ok) {
    if (answer !== undefined) return answer;
    throw new Error(`the server at ${url} is not a Parley gateway (no JSON at ${path})`);
  }
  throw new GatewayRefusal(refusalText(response.status, answer, url, token !== undefined), response.status, answer);
}

export interface RequestOptions {
  readonly method?: 'GET' | 'POST';
  readonly body?: object;
  readonly headers?: Readonly<Record<string, string>>;
  readonly timeout?: number;
}

/** The error for a gateway that did not answer. */
export function unreachable(url: string, error: unknown, timeout = TIMEOUT): Error {
  if ((error as Error).name === 'TimeoutError')
    return new Error(`the gateway at ${url} did not answer within ${timeout / 1000} s`);
  const reason = ((error as Error).cause as NodeJS.ErrnoException | undefined)?.code;
  const note = reason === undefined || reason === 'ECONNREFUSED' ? '' : ` (${reason})`;
  return new Error(`no gateway answers at ${url}${note}; start one with parley serve, or give another URL with --url`);
}

class AnswerTooLarge extends Error {
  constructor() {
    super(`the answer of the gateway is too large (more than ${LARGEST_ANSWER / 2 ** 20} MiB)`);
  }
}

/** The JSON of an answer; undefined if the answer is not JSON. Throws if the answer is too large. */
export async function jsonOf(response: Response): Promise<unknown> {
  try {
    return JSON.parse(await textOf(response));
  } catch (error) {
    if (error instanceof AnswerTooLarge) throw error;
    return undefined;
  }
}

/** The text of an answer. A server that writes without end has no `Content-Length`, so the bytes are counted. */
async function textOf({ body }: Response): Promise<string> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of (body ?? []) as AsyncIterable<Uint8Array>) {
    size += part.byteLength;
    if (size > LARGEST_ANSWER) throw new AnswerTooLarge();
    parts.push(part);
  }
  return Buffer.concat(parts).toString('utf8');
}

/** The reason of an error answer: RFC 9457, JSON-RPC, or a plain message. */
export function refusalText(status: number, answer: unknown, url: string, authenticated: boolean): string {
  const body = (typeof answer === 'object' && answer !== null ? answer : {}) as {
    detail?: unknown;
    title?: unknown;
    error?: { message?: unknown } | string;
  };
  const { error } = body;
  const said = [body.detail, body.title, typeof error === 'object' ? error.message : error].find(
    (each) => typeof each === 'string' && each !== '',
  ) as string | undefined;
  if (status === 401 || status === 403) {
    const fix = authenticated
      ? 'use another token, see --token-env'
      : 'set PARLEY_TOKEN to a token of the gateway, or name another variable with --token-env';
    return `${said ?? `HTTP ${status}`}; ${fix}`;
  }
  return said ?? `the server at ${url} answered with HTTP ${status}`;
}
