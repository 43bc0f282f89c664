import type { Socket } from 'node:net';
import { Connection, type ConnectionOwner } from './connection.js';
import { plainAddress, type TrustedProxies } from './forwarded.js';

export interface ConnectionLimits {
  /** The most connections open at once. */
  readonly connections: number;
  /** The most connections of one address, and the most requests at a time of one client behind a trusted proxy. */
  readonly connectionsPerAddress: number;
}

/** Counts by address. The hosts of one IPv6 network of 64 bits are taken for one. */
export class Addresses {
  private readonly counts = new Map<string, number>();

  constructor(private readonly most: number) {}

  /** Counts one more, if there may be one more. */
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

/** Why a connection was not accepted. */
export type Turned = 'limits.connections' | 'limits.connectionsPerAddress';

/** How many idle connections are looked at for one on which no request has begun. */
const LOOK = 32;

/** The open connections: within their limits, and the idle ones in the order in which they became idle. */
export class Connections {
  private readonly all = new Set<Connection>();
  private readonly resting = new Set<Connection>();
  private readonly addresses: Addresses;
  private emptied = (): void => {};

  constructor(
    private readonly limits: ConnectionLimits,
    private readonly proxies: TrustedProxies,
    /** A connection was closed, or one that rested gave way to it. */
    private readonly turned: (limit: Turned, peer: string) => void,
  ) {
    this.addresses = new Addresses(limits.connectionsPerAddress);
  }

  get size(): number {
    return this.all.size;
  }

  [Symbol.iterator](): IterableIterator<Connection> {
    return this.all.values();
  }

  /** Takes a connection in, or closes it. Where there are too many, the one that rests for the longest time gives way. */
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
    this.turned('limits.connectionsPerAddress', peer);
    return false;
  }

  private room(peer: string): boolean {
    if (this.all.size < this.limits.connections) return true;
    const oldest = this.longestIdle();
    if (!oldest) {
      this.turned('limits.connections', peer);
      return false;
    }
    this.turned('limits.connections', oldest.peer);
    this.forget(oldest);
    oldest.destroy();
    return true;
  }

  /** A request may be on its way on one of them; others are preferred. */
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

  /** Those on which nothing is under way, the longest idle first. */
  get idling(): Iterable<Connection> {
    return this.resting;
  }

  /** Resolves when none is open. */
  async none(): Promise<void> {
    if (this.all.size > 0) await new Promise<void>((resolve) => (this.emptied = resolve));
  }
}
