/** How connections are made: which addresses are allowed, through which proxy, with which certificates, and in which time. */
import { isIP, type LookupFunction, type Socket } from 'node:net';
import type { SecureContext } from 'node:tls';
import { buildConnector } from 'undici';
import type { Egress } from '../egress.js';
import { Unconnected } from './errors.js';
import { HttpError } from './exchange.js';
import { type ForwardProxy, openTunnel } from './proxy.js';
import { TlsMaterial, type TlsSettings } from './tls.js';

export interface ConnectOptions {
  /** Milliseconds a connection may take, TLS and proxy included. */
  readonly connectTimeout: number;
  /** Checks every address before it is dialled: for URLs that come from a caller or from an agent's card. */
  readonly egress?: Egress | undefined;
  readonly tls?: TlsSettings | undefined;
}

type Destination = buildConnector.Options;
type Dial = buildConnector.connector;

/** Makes the connections of a client, and gives up those that are under way when the client is closed. */
export class Connector {
  private readonly pending = new Set<(error: Error) => void>();
  private readonly material: TlsMaterial | undefined;
  private dialing: { readonly dial: Dial; readonly context: SecureContext | undefined } | undefined;

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

  /** Dials the proxy as it is: neither checks nor certificates of the target are meant for it. */
  readonly toProxy: Dial = (to, done) => this.within(done, (attempt) => attempt.dial(plainDial, named(to)));

  /** Dials the target through a tunnel of the proxy. */
  through(proxy: ForwardProxy): Dial {
    return (to, done) =>
      this.within(done, (attempt) => {
        this.tunnel(to, proxy, attempt).catch((error: Error) => attempt.finish(error));
      });
  }

  private async tunnel(to: Destination, proxy: ForwardProxy, attempt: Attempt): Promise<void> {
    const authority = await this.authorityOf(to);
    const socket = await openTunnel(proxy, authority, this.toProxy, attempt.signal);
    attempt.holds(socket);
    if (to.protocol === 'https:') this.secured({ ...to, httpSocket: socket }, attempt);
    else attempt.finish(undefined, socket);
  }

  /** What the proxy is asked to dial: an address that was checked, where addresses are, and otherwise the name. */
  private async authorityOf(to: Destination): Promise<string> {
    const { egress } = this.options;
    const port = portOf(to);
    const host = to.hostname;
    if (!egress) return `${bracketed(host)}:${port}`;
    egress.checkAuthority(host, port);
    if (isIP(host) !== 0) return `${bracketed(host)}:${port}`;
    const address = await new Promise<string>((resolve, reject) => {
      egress.lookup(host, {}, (error, found) => {
        if (error) reject(error);
        else resolve(String(found));
      });
    });
    return `${bracketed(address)}:${port}`;
  }

  /** Dials, or speaks TLS on a tunnel, with the settings of this client. */
  private secured(to: Destination, attempt: Attempt): void {
    const { tls, egress } = this.options;
    const context = to.protocol === 'https:' ? this.material?.current : undefined;
    if (!this.dialing || this.dialing.context !== context) {
      const dial = buildConnector({
        // The time is kept by `Attempt`: undici looks at its own timers only twice a second.
        timeout: 0,
        ...(egress && { lookup: egress.lookup as LookupFunction }),
        ...(context && { secureContext: context }),
      });
      this.dialing = { dial, context };
    }
    attempt.dial(this.dialing.dial, named(to, tls?.serverName));
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

/** One connection that is being made. It ends once: with a socket, or with the reason why there is none. */
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
    this.timer = setTimeout(() => this.give(new HttpError('ETIMEDOUT', 'no connection within the time for one')), time);
    pending.add(this.give);
  }

  get signal(): AbortSignal {
    return this.aborting.signal;
  }

  dial(dial: Dial, to: Destination): void {
    // It returns the socket, which its types do not say.
    const socket = dial(to, (error, made) => this.finish(error ?? undefined, made ?? undefined)) as unknown as Socket;
    this.holds(socket);
  }

  /** The socket that goes when the attempt is given up. */
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

/** TLS asks for the host of the URL, whatever the `Host` header says, or for the name that is configured. */
const named = (to: Destination, serverName?: string): Destination => ({
  ...to,
  servername: serverName ?? (isIP(to.hostname) === 0 ? to.hostname : ''),
});

const bracketed = (host: string): string => (isIP(host) === 6 ? `[${host}]` : host);

const portOf = ({ port, protocol }: Destination): number => (port ? Number(port) : protocol === 'https:' ? 443 : 80);
