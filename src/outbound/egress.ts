/**
 * Protects against server-side request forgery. The URLs of webhooks, of the interfaces of a card and of `jku` come
 * from a caller or an agent, those of OAuth metadata from a server. Each URL is checked when it is received, without
 * DNS, and again by the addresses that are dialled, so a name that resolves differently later (DNS rebinding) has no
 * effect. Configured servers and agents are not checked: an operator may use a private address.
 */
import { type LookupAddress, type LookupOptions, lookup as systemLookup } from 'node:dns';
import { BlockList, isIP, isIPv4 } from 'node:net';

export interface EgressSettings {
  /** Allows private and loopback addresses, for tests and closed networks. Metadata services stay blocked. */
  readonly allowPrivate: boolean;
  /** Allowed ports in addition to 80 and 443. With `allowPrivate` an empty list allows every port. */
  readonly ports: readonly number[];
  /** Hosts (`a.example`, `*.example`), addresses and networks that are allowed although they are private. */
  readonly allow?: readonly string[];
  /** Hosts, addresses and networks that are never allowed. */
  readonly deny?: readonly string[];
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
const METADATA_V6 = blockList('ipv6', ['fd00:ec2::/32', 'fd20:ce::254/128']);

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

/** Hosts and networks that an operator wrote. */
class Places {
  private readonly hosts = new Set<string>();
  private readonly domains: string[] = [];
  private readonly networks = new BlockList();

  constructor(written: readonly string[] = []) {
    for (const place of written) {
      const [address = '', bits] = place.split('/');
      const family = isIP(address);
      if (family !== 0)
        this.networks.addSubnet(address, Number(bits ?? (family === 6 ? 128 : 32)), family === 6 ? 'ipv6' : 'ipv4');
      else if (place.startsWith('*.')) this.domains.push(place.slice(1).toLowerCase());
      else this.hosts.add(place.toLowerCase());
    }
  }

  hasHost(host: string): boolean {
    return this.hosts.has(host) || this.domains.some((domain) => host.endsWith(domain));
  }

  hasAddress(ip: string): boolean {
    return this.networks.check(ip, isIPv4(ip) ? 'ipv4' : 'ipv6');
  }
}

const DEFAULT_PORTS: ReadonlySet<number> = new Set([80, 443]);

export class Egress {
  private readonly ports: ReadonlySet<number> | undefined;
  private readonly allowed: Places;
  private readonly denied: Places;

  constructor(
    private readonly settings: EgressSettings,
    private readonly resolve: LookupAll = systemLookup,
  ) {
    const { allowPrivate, ports, allow, deny } = settings;
    this.ports = allowPrivate && ports.length === 0 ? undefined : new Set([...DEFAULT_PORTS, ...ports]);
    this.allowed = new Places(allow);
    this.denied = new Places(deny);
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
    this.checkAuthority(url.hostname, url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port));
    return url;
  }

  /**
   * The check for metadata of OAuth, keys and interfaces on cards (S9): https, or http to a host that is not public and
   * that the operator allows, such as loopback in a test.
   */
  checkSecureUrl(text: string): URL {
    const url = this.checkUrl(text);
    if (url.protocol === 'http:' && !this.mayBePlain(normalHost(url.hostname)))
      throw new EgressRefused('must be an https URL');
    return url;
  }

  private mayBePlain(host: string): boolean {
    if (this.allowed.hasHost(host)) return true;
    if (isIP(host) === 0) return isLocalName(host);
    const ip = mappedToV4(host);
    return this.allowed.hasAddress(ip) || !isPublic(ip);
  }

  /** The same check for `host:port`, the form of gRPC interfaces. */
  checkAuthority(host: string, port: number): void {
    if (this.ports && !this.ports.has(port)) throw new EgressRefused(`names port ${port}, which is not allowed`);
    this.checkHost(host);
  }

  /** Refuses forbidden addresses in any notation, and names of this machine or of cloud metadata services. */
  checkHost(hostname: string): void {
    const host = normalHost(hostname);
    if (host === '') throw new EgressRefused('has no host');
    if (isIP(host) !== 0) {
      if (!this.allows(host)) throw new EgressRefused('names an address that is not allowed');
      return;
    }
    if (METADATA_NAMES.has(host) || this.denied.hasHost(host))
      throw new EgressRefused('names a host that is not allowed');
    if (this.settings.allowPrivate || this.allowed.hasHost(host)) return;
    if (isLocalName(host)) throw new EgressRefused('names a host that is not allowed');
  }

  /** Whether the operator names this host or address in `allow`. */
  names(hostname: string): boolean {
    const host = normalHost(hostname);
    return isIP(host) === 0 ? this.allowed.hasHost(host) : this.allowed.hasAddress(mappedToV4(host));
  }

  /** Whether this address may be dialled. `host` is the name that resolved to the address, if there is a name. */
  allows(address: string, host?: string): boolean {
    const ip = mappedToV4(address);
    if (this.denied.hasAddress(ip) || isNowhere(ip)) return false;
    if (isPublic(ip) || this.settings.allowPrivate || this.allowed.hasAddress(ip)) return true;
    return host !== undefined && this.allowed.hasHost(normalHost(host));
  }

  /** Resolves a name for a connection. The connection uses exactly the checked addresses. */
  readonly lookup = (hostname: string, options: LookupOptions, done: LookupDone): void => {
    this.resolve(hostname, { ...options, all: true }, (error, addresses) => {
      if (error) {
        done(error, []);
        return;
      }
      // A mix of private and public addresses is probably an attack: refuse all.
      if (addresses.length === 0 || !addresses.every(({ address }) => this.allows(address, hostname))) {
        done(new EgressRefused('resolves to an address that is not allowed'), []);
        return;
      }
      if (options.all) done(null, addresses);
      else done(null, addresses[0]!.address, addresses[0]!.family);
    });
  };

  /** A checked address of this host, for a library that opens the connection itself. */
  addressOf(host: string): Promise<string> {
    if (isIP(host) !== 0) return Promise.resolve(host);
    return new Promise((resolve, reject) => {
      this.lookup(host, {}, (error, address) => {
        if (error) reject(error);
        else resolve(String(address));
      });
    });
  }
}

const normalHost = (hostname: string): string =>
  hostname
    .replace(/^\[|\]$/g, '')
    .replace(/\.+$/, '')
    .toLowerCase();

/** A name of this machine or of the local network. A name without a dot belongs to the local network. */
const isLocalName = (host: string): boolean =>
  LOCAL_NAMES.has(host) || !host.includes('.') || LOCAL_SUFFIXES.some((suffix) => host.endsWith(suffix));

const isPrivate = (ip: string): boolean => (isIPv4(ip) ? PRIVATE_V4.check(ip) : PRIVATE_V6.check(ip, 'ipv6'));

/** Addresses that no setting allows. */
function isNowhere(ip: string): boolean {
  if (isIPv4(ip)) return METADATA_V4.check(ip) || NOWHERE_V4.check(ip);
  if (METADATA_V6.check(ip, 'ipv6')) return true;
  return !isPrivate(ip) && (!GLOBAL_V6.check(ip, 'ipv6') || NOWHERE_V6.check(ip, 'ipv6'));
}

const isPublic = (ip: string): boolean => !isPrivate(ip) && !isNowhere(ip);

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
