import type { Socket } from 'node:net';
import { Connection, type ConnectionOwner } from './connection.js';
import { plainAddress, type TrustedProxies } from './forwarded.js';

export interface ConnectionLimits {
  /** The maximum number of open connections. */
  readonly connections: number;
  /** The maximum number of connections per address, and of concurrent requests per client behind a trusted proxy. */
  readonly connectionsPerAddress: number;
}

/** Counts by address. The hosts of one IPv6 /64 network count as one address. */
export class Addresses {
  private readonly counts = new Map<string, number>();

  constructor(private readonly most: number) {}

  /** Adds one to the count of an address. Returns false if the limit is reached. */
  enter(address: string): boolean {
    const key = keyOf(address);
    const count = this.counts.get(key) ?? 0;
    if (count >= this.most) return false;
    this.counts.set(key, count + 1);
    return true;
  }

  leave(address: string): void {
    const key = keyOf(address);
    const count = (this.counts.get(key) ?? 0) - 1;
    if (count > 0) this.counts.set(key, count);
    else this.counts.delete(key);
  }

  get size(): number {
    return this.counts.size;
  }
}

function keyOf(address: string): string {
  if (!address.includes(':')) return address;
  const [head = '', tail] = address.split('::');
  const groups = head === '' ? [] : head.split(':');
  const missing = tail === undefined ? 0 : 8 - groups.length - (tail === '' ? 0 : tail.split(':').length);
  const all = [...groups, ...Array<string>(Math.max(0, missing)).fill('0'), ...(tail ? tail.split(':') : [])];
  return all.slice(0, 4).join(':');
}

/** The limit that a refused or closed connection exceeded. */
export type ExceededLimit = 'limits.connections' | 'limits.connectionsPerAddress';

/** The number of idle connections that are examined to find one without a begun request. */
const LOOK = 32;

/** The open connections, within their limits, and the idle connections in the order in which they became idle. */
export class Connections {
  private readonly all = new Set<Connection>();
  private readonly resting = new Set<Connection>();
  private readonly addresses: Addresses;
  private emptied = (): void => {};

  constructor(
    private readonly limits: ConnectionLimits,
    private readonly proxies: TrustedProxies,
    /** Called when a connection was refused, or when an idle connection was closed to make room for a new one. */
    private readonly limitExceeded: (limit: ExceededLimit, peer: string) => void,
  ) {
    this.addresses = new Addresses(limits.connectionsPerAddress);
  }

  get size(): number {
    return this.all.size;
  }

  [Symbol.iterator](): IterableIterator<Connection> {
    return this.all.values();
  }

  /** Accepts or closes a connection. At the limit, the connection that has been idle the longest is closed instead. */
  accept(socket: Socket, owner: ConnectionOwner): Connection | undefined {
    const peer = plainAddress(socket.remoteAddress ?? '');
    const trusted = this.proxies.includes(peer);
    if (peer === '' || !this.room(peer) || !(trusted || this.admits(peer))) {
      socket.destroy();
      return undefined;
    }
    const connection = new Connection(socket, peer, trusted, owner);
    this.all.add(connection);
    this.resting.add(connection);
    socket.once('close', () => {
      if (!trusted) this.addresses.leave(peer);
      this.forget(connection);
    });
    return connection;
  }

  private admits(peer: string): boolean {
    if (this.addresses.enter(peer)) return true;
    this.limitExceeded('limits.connectionsPerAddress', peer);
    return false;
  }

  private room(peer: string): boolean {
    if (this.all.size < this.limits.connections) return true;
    const oldest = this.longestIdle();
    if (!oldest) {
      this.limitExceeded('limits.connections', peer);
      return false;
    }
    this.limitExceeded('limits.connections', oldest.peer);
    this.forget(oldest);
    oldest.destroy();
    return true;
  }

  /**
   * The connection that was idle for longest. A connection without unread bytes is preferred, because on any other a
   * request may be arriving.
   */
  private longestIdle(): Connection | undefined {
    let first: Connection | undefined;
    let looked = 0;
    for (const connection of this.resting) {
      first ??= connection;
      if (connection.quiet) return connection;
      if (++looked === LOOK) break;
    }
    return first;
  }

  private forget(connection: Connection): void {
    this.resting.delete(connection);
    if (this.all.delete(connection) && this.all.size === 0) this.emptied();
  }

  busy(connection: Connection): void {
    this.resting.delete(connection);
  }

  idle(connection: Connection): void {
    if (this.all.has(connection)) this.resting.add(connection);
  }

  /** The idle connections, the longest idle first. */
  get idling(): Iterable<Connection> {
    return this.resting;
  }

  /** Resolves when no connection is open. */
  async none(): Promise<void> {
    if (this.all.size > 0) await new Promise<void>((resolve) => (this.emptied = resolve));
  }
}
