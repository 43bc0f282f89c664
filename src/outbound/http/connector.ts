/** Opens connections: checks addresses, uses a proxy and certificates as configured, and limits the time. */
import { isIP, type LookupFunction, type Socket } from 'node:net';
import type { SecureContext } from 'node:tls';
import { buildConnector } from 'undici';
import type { Egress } from '../egress.js';
import { HttpError } from './client-types.js';
import { type ForwardProxy, openTunnel } from './proxy.js';
import { TlsMaterial, type TlsSettings } from './tls-material.js';
import { Unconnected } from './undici-errors.js';

export interface ConnectOptions {
  /** Time limit for opening a connection, in milliseconds, including TLS and proxy. */
  readonly connectTimeout: number;
  /** Checks every address before it is dialled. Set for URLs that come from a caller or from an agent's card. */
  readonly egress?: Egress | undefined;
  readonly tls?: TlsSettings | undefined;
}

type Destination = buildConnector.Options;
type Dial = buildConnector.connector;

/** Opens the connections of a client. Aborts unfinished attempts when the client closes. */
export class Connector {
  private readonly pending = new Set<(error: Error) => void>();
  private readonly material: TlsMaterial | undefined;
  private dialing: { readonly dial: Dial; readonly context: SecureContext | undefined } | undefined;
  /** The latest TLS session: undici keeps weak references only, so the session would be lost with its connection. */
  private readonly session: Buffer[] = [];

  constructor(private readonly options: ConnectOptions) {
    const { tls } = options;
    if (tls && (tls.ca ?? tls.cert ?? tls.key) !== undefined) this.material = new TlsMaterial(tls);
  }

  /** Dials the target itself. */
  readonly direct: Dial = (to, done) =>
    this.within(done, (attempt) => {
      this.options.egress?.checkAuthority(to.hostname, portOf(to));
      this.secured(to, attempt);
    });

  /**
   * Dials the proxy. The address checks and certificates of the target do not apply to the proxy. A proxy may have
   * address checks of its own.
   */
  toProxy({ egress }: ForwardProxy): Dial {
    const dial = egress ? buildConnector({ timeout: 0, lookup: egress.lookup as LookupFunction }) : plainDial;
    return (to, done) =>
      this.within(done, (attempt) => {
        egress?.checkAuthority(to.hostname, portOf(to));
        attempt.dial(dial, named(to));
      });
  }

  /** Dials the target through a tunnel of the proxy. */
  through(proxy: ForwardProxy): Dial {
    const toProxy = this.toProxy(proxy);
    return (to, done) =>
      this.within(done, (attempt) => {
        this.tunnel(to, proxy, toProxy, attempt).catch((error: Error) => attempt.finish(error));
      });
  }

  private async tunnel(to: Destination, proxy: ForwardProxy, toProxy: Dial, attempt: Attempt): Promise<void> {
    const authority = await this.authorityOf(to);
    const socket = await openTunnel(proxy, authority, toProxy, attempt.signal);
    attempt.holds(socket);
    if (to.protocol === 'https:') this.secured({ ...to, httpSocket: socket }, attempt);
    else attempt.finish(undefined, socket);
  }

  /** The authority for the proxy's tunnel: a checked IP address with address checks, otherwise the host name. */
  private async authorityOf(to: Destination): Promise<string> {
    const { egress } = this.options;
    const port = portOf(to);
    const host = to.hostname;
    if (!egress) return `${bracketed(host)}:${port}`;
    egress.checkAuthority(host, port);
    if (isIP(host) !== 0) return `${bracketed(host)}:${port}`;
    const address = await egress.addressOf(host);
    return `${bracketed(address)}:${port}`;
  }

  /** Dials, or starts TLS on a tunnel, with the settings of this client. */
  private secured(to: Destination, attempt: Attempt): void {
    const { tls, egress } = this.options;
    const context = to.protocol === 'https:' ? this.material?.current : undefined;
    if (!this.dialing || this.dialing.context !== context) {
      const dial = buildConnector({
        // `Attempt` limits the time: the timers of undici have a resolution of only half a second.
        timeout: 0,
        ...(egress && { lookup: egress.lookup as LookupFunction }),
        ...(context && { secureContext: context }),
      });
      this.dialing = { dial, context };
    }
    const socket = attempt.dial(this.dialing.dial, named(to, tls?.serverName));
    socket.on('session', (session: Buffer) => this.session.splice(0, 1, session));
  }

  private within(done: buildConnector.Callback, begin: (attempt: Attempt) => void): void {
    const attempt = new Attempt(this.options.connectTimeout, this.pending, done);
    try {
      begin(attempt);
    } catch (error) {
      attempt.finish(error as Error);
    }
  }

  close(): void {
    for (const give of [...this.pending]) give(new HttpError('ECONNRESET', 'the client is closed'));
  }
}

/** One attempt to open a connection. It ends once, with a socket or with an error. */
class Attempt {
  private socket: Socket | undefined;
  private over = false;
  private given = false;
  private readonly timer: NodeJS.Timeout;
  private readonly aborting = new AbortController();
  private readonly give = (error: Error): void => {
    this.given = true;
    this.finish(error);
    this.aborting.abort();
    this.socket?.on('error', () => {}).destroy();
  };

  constructor(
    time: number,
    private readonly pending: Set<(error: Error) => void>,
    private readonly done: buildConnector.Callback,
  ) {
    this.timer = setTimeout(
      () => this.give(new HttpError('ETIMEDOUT', 'no connection within the connect timeout')),
      time,
    );
    pending.add(this.give);
  }

  get signal(): AbortSignal {
    return this.aborting.signal;
  }

  dial(dial: Dial, to: Destination): Socket {
    // `dial` returns the socket, although its type does not declare it.
    const socket = dial(to, (error, made) => this.finish(error ?? undefined, made ?? undefined)) as unknown as Socket;
    this.holds(socket);
    return socket;
  }

  /** Sets the socket that is destroyed when the attempt fails. */
  holds(socket: Socket): void {
    this.socket = socket;
    if (this.given) socket.on('error', () => {}).destroy();
  }

  finish(error: Error | undefined, made?: Socket): void {
    if (this.over) return;
    this.over = true;
    clearTimeout(this.timer);
    this.pending.delete(this.give);
    if (made) this.done(null, made);
    else this.done(new Unconnected(error!), null);
  }
}

const plainDial = buildConnector({ timeout: 0 });

/** Sets the TLS server name: the configured name, or the host of the URL. The `Host` header has no influence. */
const named = (to: Destination, serverName?: string): Destination => ({
  ...to,
  servername: serverName ?? (isIP(to.hostname) === 0 ? to.hostname : ''),
});

const bracketed = (host: string): string => (isIP(host) === 6 ? `[${host}]` : host);

const portOf = ({ port, protocol }: Destination): number => (port ? Number(port) : protocol === 'https:' ? 443 : 80);
