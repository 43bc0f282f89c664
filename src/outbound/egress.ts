/**
 * Where the gateway lets itself be sent. Webhooks, the interfaces of a card, `jku`: these URLs are a caller's or an
 * agent's words. Each is checked when it is given, without asking the DNS, and again by the addresses that are really
 * dialled, so a name that resolves differently the second time gains nothing. Servers and agents of the configuration do
 * not pass here; the operator may well mean a private address.
 */
import { type LookupAddress, type LookupOptions, lookup as systemLookup } from 'node:dns';
import { BlockList, isIP, isIPv4 } from 'node:net';

export interface EgressSettings {
  /** Lets private and loopback addresses through, for tests and closed networks. Metadata services stay out of reach. */
  readonly allowPrivate: boolean;
  /** Ports beside 80 and 443. With `allowPrivate` an empty list means every port. */
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

/** What `allowPrivate` opens. */
const PRIVATE_V4 = blockList('ipv4', ['10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16']);
const PRIVATE_V6 = blockList('ipv6', ['::1/128', 'fc00::/7']);

/** Metadata services inside the ranges above, or at an address that looks public. */
const METADATA_V4 = blockList('ipv4', ['100.100.100.200/32', '168.63.129.16/32']);
const METADATA_V6 = blockList('ipv6', ['fd00:ec2::254/128', 'fd20:ce::254/128']);

/** No destination at all: this network, link-local (metadata services), documentation, tests, multicast, reserved. */
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
/** Of IPv6 only global unicast is let through: IPv4-compatible, NAT64 and link-local forms all lie outside of it. */
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

  /** Throws `EgressRefused`. Says what is wrong with the URL itself; a name is judged when it is dialled. */
  checkUrl(text: string): URL {
    let url: URL;
    try {
      url = new URL(text);
    } catch {
      throw new EgressRefused('is no URL');
    }
    if (url.protocol !== 'https:' && url.protocol !== 'http:') throw new EgressRefused('must be an http or https URL');
    if (url.username !== '' || url.password !== '') throw new EgressRefused('must not carry a user name or password');
    this.checkPort(url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port));
    this.checkHost(url.hostname);
    return url;
  }

  /** The same for a `host:port`, as gRPC interfaces are written. */
  checkAuthority(host: string, port: number): void {
    this.checkPort(port);
    this.checkHost(host);
  }

  private checkPort(port: number): void {
    if (this.ports && !this.ports.has(port)) throw new EgressRefused(`names port ${port}, which is not allowed`);
  }

  /** A literal address, in whichever spelling, or a name that is known to mean this machine or its cloud. */
  checkHost(hostname: string): void {
    const host = hostname
      .replace(/^\[|\]$/g, '')
      .replace(/\.+$/, '')
      .toLowerCase();
    if (host === '') throw new EgressRefused('names no host');
    if (isIP(host) !== 0) {
      if (!this.allows(host)) throw new EgressRefused('names an address that is not allowed');
      return;
    }
    if (METADATA_NAMES.has(host)) throw new EgressRefused('names a host that is not allowed');
    if (this.settings.allowPrivate) return;
    // A name without a dot is one of this network's own.
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

  /** Resolves a name for a connection, which then goes to the addresses that were looked at and to no other. */
  readonly lookup = (hostname: string, options: LookupOptions, done: LookupDone): void => {
    this.resolve(hostname, { ...options, all: true }, (error, addresses) => {
      if (error) {
        done(error, []);
        return;
      }
      // One private answer among public ones is an attempt, not an accident.
      if (addresses.length === 0 || !addresses.every(({ address }) => this.allows(address))) {
        done(new EgressRefused('resolves to an address that is not allowed'), []);
        return;
      }
      if (options.all) done(null, addresses);
      else done(null, addresses[0]!.address, addresses[0]!.family);
    });
  };
}

/** `::ffff:127.0.0.1` and `::ffff:7f00:1` are 127.0.0.1. */
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
