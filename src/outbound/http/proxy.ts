/** Forward proxies: choosing the proxy of a request, and opening tunnels through it. */
import { BlockList, isIP, type Socket } from 'node:net';
import { type buildConnector, Client } from 'undici';
import type { Egress } from '../egress.js';
import { HttpError } from './client-types.js';
import { Unconnected } from './undici-errors.js';

export type Environment = Readonly<Record<string, string | undefined>>;

/** A proxy with the credentials of its URL. */
export interface ForwardProxy {
  readonly origin: string;
  /** Flat name/value pairs for the proxy itself. */
  readonly headers: readonly string[];
  /** Checks every address of the proxy before it is dialled. Set for a proxy that a caller supplied. */
  readonly egress?: Egress | undefined;
}

/** The proxy for an origin; undefined for a direct connection. */
export type ProxyRule = (origin: string) => ForwardProxy | undefined;

/**
 * The proxy rule of one server. `setting` is the URL of a proxy, `none`, or undefined. If undefined, the variables
 * `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` decide; the lower-case names take precedence. As in undici, https uses
 * `HTTP_PROXY` if `HTTPS_PROXY` is not set.
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

/** The rules for URLs that callers supply, and the operator's proxy for them. */
export interface Guard {
  readonly egress: Egress;
  readonly proxy?: ProxyRule | undefined;
}

/**
 * The proxy rule of a server or agent. If a caller registered the server or agent, `guard` is set: the caller also
 * supplied the proxy, so the addresses of the proxy are checked too. A registration without a proxy uses the operator's
 * proxy.
 */
export function proxyRuleOf(setting: string | undefined, guard: Guard | undefined): ProxyRule | undefined {
  if (!guard) return proxyRule(setting);
  if (setting === undefined) return guard.proxy;
  const rule = proxyRule(setting);
  return (origin) => {
    const proxy = rule(origin);
    return proxy && { ...proxy, egress: guard.egress };
  };
}

/** The setting for direct connections, independent of the environment. */
const NO_PROXY = 'none';

function fromEnvironment(env: Environment, name: string): ForwardProxy | undefined {
  const value = env[name] ?? env[name.toUpperCase()];
  if (!value) return undefined;
  // Allows the common form without a scheme: `proxy.example:3128`.
  const text = /^[a-z][a-z0-9+.-]*:\/\//i.test(value) ? value : `http://${value}`;
  return readProxy(text, name.toUpperCase());
}

function readProxy(text: string, from = 'proxy'): ForwardProxy {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:')
    throw new TypeError(`${from} is not an http or https URL`);
  const { origin, username, password } = url;
  if (username === '' && password === '') return { origin, headers: [] };
  let credentials: string;
  try {
    credentials = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  } catch {
    throw new TypeError(`${from} has a user name or password that is not percent-encoded: write % as %25`);
  }
  return { origin, headers: ['proxy-authorization', `Basic ${Buffer.from(credentials).toString('base64')}`] };
}

/**
 * `NO_PROXY`: host names (which include their subdomains), addresses, each with or without a port, networks such as
 * `10.0.0.0/8`, or `*` for all. Names and addresses are compared in the form that URLs give them.
 */
function exemptions(list: string): (url: URL) => boolean {
  const networks = new BlockList();
  const entries = list.split(/[,\s]+/).flatMap((entry) => {
    const [, address = '', bits = ''] = /^([\d.]+|\[?[\da-f:.]+\]?)\/(\d{1,3})$/i.exec(entry) ?? [];
    if (bits !== '') {
      addNetwork(networks, address.replace(/^\[|\]$/g, ''), Number(bits));
      return [];
    }
    // An IPv6 address without brackets has no port.
    const match = /^(\[[^\]]+\]|[^:]*)(?::(\d+))?$/.exec(entry) ?? [entry, entry];
    const host = canonical(match[1]!.replace(/^\*?\./, '').replace(/^\[|\]$/g, ''));
    return host === '' ? [] : [{ host, port: match[2] }];
  });
  return ({ hostname, port, protocol }) => {
    const host = hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '');
    const own = port || (protocol === 'https:' ? '443' : '80');
    const family = isIP(host);
    if (family !== 0 && networks.check(host, family === 6 ? 'ipv6' : 'ipv4')) return true;
    return entries.some(
      (entry) =>
        (entry.port === undefined || entry.port === own) &&
        (entry.host === '*' || host === entry.host || (family === 0 && host.endsWith(`.${entry.host}`))),
    );
  };
}

/** An entry that is not a network exempts nothing. */
function addNetwork(networks: BlockList, address: string, bits: number): void {
  const family = isIP(address);
  if (family === 0 || bits > (family === 6 ? 128 : 32)) return;
  networks.addSubnet(address, bits, family === 6 ? 'ipv6' : 'ipv4');
}

/** The host as it appears in a URL: in lower case, international names encoded, addresses in their shortest form. */
function canonical(host: string): string {
  const url = `http://${isIP(host) === 6 ? `[${host}]` : host}`;
  const name = host !== '*' && URL.canParse(url) ? new URL(url).hostname : host.toLowerCase();
  return name.replace(/^\[|\]$/g, '').replace(/\.$/, '');
}

/** A proxy refused a tunnel or could not be reached. */
export class ProxyRefused extends HttpError {
  constructor(
    readonly proxy: string,
    /** The HTTP status that the proxy answered. Undefined if the proxy could not be reached. */
    readonly status: number | undefined,
    override readonly cause?: Error,
  ) {
    super('HTTP_PROXY', status === undefined ? 'no connection to the proxy' : `the proxy answered ${status}`);
  }
}

/** Opens a tunnel to `authority` (host and port) through a proxy. Rejects with `ProxyRefused`. */
export async function openTunnel(
  { origin, headers }: ForwardProxy,
  authority: string,
  connect: buildConnector.connector,
  signal: AbortSignal,
): Promise<Socket> {
  // A tunnel keeps its connection, so a pool would have no use.
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
