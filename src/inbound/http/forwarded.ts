import { BlockList, isIP } from 'node:net';

/** The facts that a trusted proxy reports about its client. */
export interface Forwarded {
  readonly address: string | undefined;
  readonly scheme: 'http' | 'https' | undefined;
  /** The host that the client requested, with its port unless it is the default. */
  readonly host: string | undefined;
}

type Lookup = (name: string) => string | undefined;

/** An address in normal form: IPv4-mapped IPv6 becomes IPv4, and the zone is dropped. */
export function plainAddress(address: string): string {
  const bare = address.replace(/%.*$/, '').toLowerCase();
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/.exec(bare);
  return mapped?.[1] ?? bare;
}

const HOST = /^(?:\[[\da-f:.]+\]|[a-z\d](?:[a-z\d.-]*[a-z\d])?)(?::\d{1,5})?$/i;

/** The proxies whose forwarding headers count (`trustedProxies`). */
export class TrustedProxies {
  private readonly ranges = new BlockList();
  private readonly any: boolean;

  /** `ranges` are addresses, or networks such as `10.0.0.0/8`. */
  constructor(ranges: readonly string[]) {
    this.any = ranges.length > 0;
    for (const range of ranges) {
      const [address = '', bits] = range.split('/');
      const family = isIP(address) === 6 ? 'ipv6' : 'ipv4';
      if (bits === undefined) this.ranges.addAddress(address, family);
      else this.ranges.addSubnet(address, Number(bits), family);
    }
  }

  /** Whether the peer at this address is a trusted proxy. */
  includes(address: string): boolean {
    return this.any && isIP(address) !== 0 && this.ranges.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4');
  }

  /**
   * The forwarding headers of a request from a trusted proxy. Most proxies set `X-Forwarded-*` and pass on a
   * `Forwarded` header of their clients, so `Forwarded` counts only if it is alone. If the two headers name different
   * clients, the client is unknown.
   */
  read(header: Lookup): Forwarded | undefined {
    const standard = header('forwarded');
    const common = commonHeaders(header, this);
    if (standard === undefined) return common;
    const told = standardHeader(standard, this);
    if (!common) return told;
    return { ...common, address: told.address === common.address ? common.address : undefined };
  }

  /** The last address that is not a trusted proxy. The client itself may have written the addresses before it. */
  client(chain: readonly (string | undefined)[]): string | undefined {
    let first: string | undefined;
    for (let i = chain.length - 1; i >= 0; i--) {
      const address = chain[i];
      if (address === undefined) return first;
      first = address;
      if (!this.includes(address)) return address;
    }
    return first;
  }
}

/** `X-Forwarded-For`, `-Proto`, `-Host` and `-Port`. The last value counts, which the nearest proxy wrote. */
function commonHeaders(header: Lookup, proxies: TrustedProxies): Forwarded | undefined {
  const chain = header('x-forwarded-for');
  const scheme = lastOf(header('x-forwarded-proto'));
  const host = lastOf(header('x-forwarded-host'));
  if (chain === undefined && scheme === undefined && host === undefined) return undefined;
  return {
    address: chain === undefined ? undefined : proxies.client(chain.split(',').map(addressIn)),
    scheme: schemeIn(scheme),
    host: hostIn(host, lastOf(header('x-forwarded-port')), schemeIn(scheme)),
  };
}

/** `Forwarded` (RFC 7239): one element for each proxy, the nearest last. */
function standardHeader(value: string, proxies: TrustedProxies): Forwarded {
  const elements = split(value, ',').map((element) => new Map(split(element, ';').map(pair)));
  const nearest = elements.at(-1);
  return {
    address: proxies.client(elements.map((element) => addressIn(element.get('for') ?? ''))),
    scheme: schemeIn(nearest?.get('proto')),
    host: hostIn(nearest?.get('host'), undefined, undefined),
  };
}

/** Splits a text at a separator, but not within quoted strings. */
function split(text: string, separator: ',' | ';'): string[] {
  const parts: string[] = [];
  let from = 0;
  let quoted = false;
  for (let i = 0; i < text.length; i++) {
    const character = text[i];
    if (character === '\\' && quoted) i++;
    else if (character === '"') quoted = !quoted;
    else if (character === separator && !quoted) {
      parts.push(text.slice(from, i));
      from = i + 1;
    }
  }
  return [...parts, text.slice(from)];
}

function pair(text: string): [string, string] {
  const at = text.indexOf('=');
  const value = text.slice(at + 1).trim();
  const plain = /^"(.*)"$/s.exec(value)?.[1]?.replace(/\\(.)/gs, '$1');
  return [text.slice(0, Math.max(at, 0)).trim().toLowerCase(), plain ?? value];
}

/** The address in front of a port; undefined for names such as `unknown` and `_hidden`. */
function addressIn(text: string): string | undefined {
  const value = text.trim();
  const bare = /^\[([^\]]+)\](?::\w+)?$/.exec(value)?.[1] ?? /^([\d.]+):\w+$/.exec(value)?.[1] ?? value;
  const address = plainAddress(bare);
  return isIP(address) === 0 ? undefined : address;
}

const lastOf = (value: string | undefined): string | undefined => value?.slice(value.lastIndexOf(',') + 1).trim();

function schemeIn(value: string | undefined): 'http' | 'https' | undefined {
  const scheme = value?.toLowerCase();
  return scheme === 'http' || scheme === 'https' ? scheme : undefined;
}

function hostIn(value: string | undefined, port: string | undefined, scheme: string | undefined): string | undefined {
  if (value === undefined || !HOST.test(value)) return undefined;
  if (port === undefined || !/^\d{1,5}$/.test(port) || /:\d+$/.test(value)) return value;
  return port === (scheme === 'https' ? '443' : '80') ? value : `${value}:${port}`;
}
