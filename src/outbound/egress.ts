/**
 * Protects against server-side request forgery. The URLs of webhooks, of the interfaces of a card and of `jku` come
 * from a caller or an agent. Each URL is checked when it is received, without DNS, and again by the addresses that are
 * dialled, so a name that resolves differently later (DNS rebinding) has no effect. Configured servers and agents are
 * not checked: an operator may use a private address.
 */
import { type LookupAddress, type LookupOptions, lookup as systemLookup } from 'node:dns';
import { BlockList, isIP, isIPv4 } from 'node:net';

export interface EgressSettings {
  /** Allows private and loopback addresses, for tests and closed networks. Metadata services stay blocked. */
  readonly allowPrivate: boolean;
  /** Allowed ports in addition to 80 and 443. With `allowPrivate` an empty list allows every port. */
  readonly ports: readonly number[];
}

export type LookupAll = (
  hostname: string,
  options: LookupOptions & { all: true },
  done: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void;

export type LookupDone = (
  error: NodeJS.ErrnoException | null,
  address: string | LookupAddress[],
  family?: number,
) => void;

export class EgressRefused extends Error {
  override readonly name = 'EgressRefused';
  readonly code = 'EGRESS_REFUSED';
}

function blockList(family: 'ipv4' | 'ipv6', ranges: readonly string[]): BlockList {
  const list = new BlockList();
  for (const range of ranges) {
    const [net, bits] = range.split('/') as [string, string];
    list.addSubnet(net, Number(bits), family);
  }
  return list;
}

/** Private ranges, which `allowPrivate` allows. */
const PRIVATE_V4 = blockList('ipv4', ['10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16']);
const PRIVATE_V6 = blockList('ipv6', ['::1/128', 'fc00::/7']);

/** Metadata services inside the private ranges, or at a public address. */
const METADATA_V4 = blockList('ipv4', ['100.100.100.200/32', '168.63.129.16/32']);
const METADATA_V6 = blockList('ipv6', ['fd00:ec2::254/128', 'fd20:ce::254/128']);

/**
 * Never a valid destination: this network, link-local (metadata services), documentation, tests, multicast, reserved.
 */
const NOWHERE_V4 = blockList('ipv4', [
  '0.0.0.0/8',
  '169.254.0.0/16',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
]);
/** IPv6 allows only global unicast. IPv4-compatible, NAT64 and link-local addresses are outside of this range. */
const GLOBAL_V6 = blockList('ipv6', ['2000::/3']);
const NOWHERE_V6 = blockList('ipv6', ['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20', '5f00::/16']);

const METADATA_NAMES = new Set([
  'instance-data',
  'metadata',
  'metadata.google.internal',
  'metadata.gke.internal',
  'metadata.azure.com',
  'metadata.azure.internal',
  'metadata.tencentyun.com',
  'computemetadata',
]);
const LOCAL_NAMES = new Set(['localhost', 'localhost.localdomain', 'ip6-localhost', 'ip6-loopback']);
const LOCAL_SUFFIXES = ['.localhost', '.local', '.internal', '.localdomain'];

const DEFAULT_PORTS: ReadonlySet<number> = new Set([80, 443]);

export class Egress {
  private readonly ports: ReadonlySet<number> | undefined;

  constructor(
    private readonly settings: EgressSettings,
    private readonly resolve: LookupAll = systemLookup,
  ) {
    const { allowPrivate, ports } = settings;
    this.ports = allowPrivate && ports.length === 0 ? undefined : new Set([...DEFAULT_PORTS, ...ports]);
  }

  get allowPrivate(): boolean {
    return this.settings.allowPrivate;
  }

  /** Checks the URL without DNS. Host names are checked again when they are dialled. Throws `EgressRefused`. */
  checkUrl(text: string): URL {
    let url: URL;
    try {
      url = new URL(text);
    } catch {
      throw new EgressRefused('is not a URL');
    }
    if (url.protocol !== 'https:' && url.protocol !== 'http:') throw new EgressRefused('must be an http or https URL');
    if (url.username !== '' || url.password !== '') throw new EgressRefused('must not contain a user name or password');
    this.checkPort(url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port));
    this.checkHost(url.hostname);
    return url;
  }

  /** The same check for `host:port`, the form of gRPC interfaces. */
  checkAuthority(host: string, port: number): void {
    this.checkPort(port);
    this.checkHost(host);
  }

  private checkPort(port: number): void {
    if (this.ports && !this.ports.has(port)) throw new EgressRefused(`names port ${port}, which is not allowed`);
  }

  /** Refuses forbidden addresses in any notation, and names of this machine or of cloud metadata services. */
  checkHost(hostname: string): void {
    const host = hostname
      .replace(/^\[|\]$/g, '')
      .replace(/\.+$/, '')
      .toLowerCase();
    if (host === '') throw new EgressRefused('has no host');
    if (isIP(host) !== 0) {
      if (!this.allows(host)) throw new EgressRefused('names an address that is not allowed');
      return;
    }
    if (METADATA_NAMES.has(host)) throw new EgressRefused('names a host that is not allowed');
    if (this.settings.allowPrivate) return;
    // A name without a dot belongs to the local network.
    if (LOCAL_NAMES.has(host) || !host.includes('.') || LOCAL_SUFFIXES.some((suffix) => host.endsWith(suffix)))
      throw new EgressRefused('names a host that is not allowed');
  }

  /** Whether this address may be dialled. */
  allows(address: string): boolean {
    const ip = mappedToV4(address);
    if (isIPv4(ip)) {
      if (METADATA_V4.check(ip) || NOWHERE_V4.check(ip)) return false;
      return this.settings.allowPrivate || !PRIVATE_V4.check(ip);
    }
    if (METADATA_V6.check(ip, 'ipv6')) return false;
    if (PRIVATE_V6.check(ip, 'ipv6')) return this.settings.allowPrivate;
    return GLOBAL_V6.check(ip, 'ipv6') && !NOWHERE_V6.check(ip, 'ipv6');
  }

  /** Resolves a name for a connection. The connection uses exactly the checked addresses. */
  readonly lookup = (hostname: string, options: LookupOptions, done: LookupDone): void => {
    this.resolve(hostname, { ...options, all: true }, (error, addresses) => {
      if (error) {
        done(error, []);
        return;
      }
      // A mix of private and public addresses is probably an attack: refuse all.
      if (addresses.length === 0 || !addresses.every(({ address }) => this.allows(address))) {
        done(new EgressRefused('resolves to an address that is not allowed'), []);
        return;
      }
      if (options.all) done(null, addresses);
      else done(null, addresses[0]!.address, addresses[0]!.family);
    });
  };
}

/** Converts an IPv4-mapped address: `::ffff:127.0.0.1` and `::ffff:7f00:1` become 127.0.0.1. */
function mappedToV4(address: string): string {
  if (isIPv4(address)) return address;
  let canonical: string;
  try {
    canonical = new URL(`http://[${address.replace(/%.*$/, '')}]/`).hostname.slice(1, -1);
  } catch {
    return address;
  }
  const groups = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(canonical);
  if (!groups) return canonical;
  const high = Number.parseInt(groups[1]!, 16);
  const low = Number.parseInt(groups[2]!, 16);
  return [high >> 8, high & 255, low >> 8, low & 255].join('.');
}
