/** Forward proxies: which one a request goes through, and the tunnels through it. */
import type { Socket } from 'node:net';
import { type buildConnector, Client } from 'undici';
import { Unconnected } from './errors.js';
import { HttpError } from './exchange.js';

export type Environment = Readonly<Record<string, string | undefined>>;

/** A proxy, and the credentials its URL carried. */
export interface ForwardProxy {
  readonly origin: string;
  /** Flat name/value pairs for the proxy itself. */
  readonly headers: readonly string[];
}

/** The proxy for an origin; undefined where it is reached directly. */
export type ProxyRule = (origin: string) => ForwardProxy | undefined;

/**
 * The rule of one server: `setting` is the URL of a proxy, `none`, or undefined, where `HTTP_PROXY`, `HTTPS_PROXY` and
 * `NO_PROXY` decide, in lower case first. As in undici, https goes through `HTTP_PROXY` where `HTTPS_PROXY` is not set.
 */
export function proxyRule(setting: string | undefined, env: Environment = process.env): ProxyRule {
  if (setting === NO_PROXY) return () => undefined;
  if (setting !== undefined) {
    const proxy = readProxy(setting);
    return () => proxy;
  }
  const plain = fromEnvironment(env, 'http_proxy');
  const secure = fromEnvironment(env, 'https_proxy') ?? plain;
  if (!plain && !secure) return () => undefined;
  const exempt = exemptions(env['no_proxy'] ?? env['NO_PROXY'] ?? '');
  return (origin) => {
    const url = new URL(origin);
    if (exempt(url)) return undefined;
    return url.protocol === 'https:' ? secure : plain;
  };
}

/** The setting of a server that is reached directly, whatever the environment says. */
const NO_PROXY = 'none';

function fromEnvironment(env: Environment, name: string): ForwardProxy | undefined {
  const value = env[name] ?? env[name.toUpperCase()];
  if (!value) return undefined;
  // `proxy.example:3128` is how many write it.
  const text = /^[a-z][a-z0-9+.-]*:\/\//i.test(value) ? value : `http://${value}`;
  return readProxy(text, name.toUpperCase());
}

function readProxy(text: string, from = 'proxy'): ForwardProxy {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') throw new TypeError(`${from} is no http or https URL`);
  const { origin, username, password } = url;
  const credentials = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  const headers =
    username === '' ? [] : ['proxy-authorization', `Basic ${Buffer.from(credentials).toString('base64')}`];
  return { origin, headers };
}

/** `NO_PROXY`: names with all that ends in them, addresses, each with or without a port, or `*` for everything. */
function exemptions(list: string): (url: URL) => boolean {
  const entries = list.split(/[,\s]+/).flatMap((entry) => {
    // An address of IPv6 without brackets has no port.
    const match = /^(\[[^\]]+\]|[^:]*)(?::(\d+))?$/.exec(entry.toLowerCase()) ?? [entry, entry.toLowerCase()];
    const host = match[1]?.replace(/^\*?\./, '').replace(/^\[|\]$/g, '') ?? '';
    return host === '' ? [] : [{ host, port: match[2] }];
  });
  return ({ hostname, port, protocol }) => {
    const host = hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '');
    const own = port || (protocol === 'https:' ? '443' : '80');
    return entries.some(
      (entry) =>
        (entry.port === undefined || entry.port === own) &&
        (entry.host === '*' || host === entry.host || host.endsWith(`.${entry.host}`)),
    );
  };
}

/** Why a proxy opened no tunnel. */
export class ProxyRefused extends HttpError {
  constructor(
    readonly proxy: string,
    /** The status it answered; undefined where it could not be reached. */
    readonly status: number | undefined,
    override readonly cause?: Error,
  ) {
    super('HTTP_PROXY', status === undefined ? 'no connection to the proxy' : `the proxy answered ${status}`);
  }
}

/** A connection to `authority`, a host and port as they stand in a URL, through a proxy. Rejects with `ProxyRefused`. */
export async function openTunnel(
  { origin, headers }: ForwardProxy,
  authority: string,
  connect: buildConnector.connector,
  signal: AbortSignal,
): Promise<Socket> {
  // A tunnel takes its connection with it, so there is nothing to pool.
  const client = new Client(origin, { connect, headersTimeout: 0, bodyTimeout: 0 });
  const stop = (): void => void client.destroy();
  signal.addEventListener('abort', stop);
  try {
    const { statusCode, socket } = await client.connect({ path: authority, headers: ['host', authority, ...headers] });
    if (statusCode >= 200 && statusCode < 300) return socket as Socket;
    socket.on('error', () => {}).destroy();
    throw new ProxyRefused(origin, statusCode);
  } catch (error) {
    if (error instanceof ProxyRefused) throw error;
    throw new ProxyRefused(origin, undefined, error instanceof Unconnected ? error.cause : (error as Error));
  } finally {
    signal.removeEventListener('abort', stop);
    stop();
  }
}
