import { connect, isIP, type LookupFunction, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { Connection, type ConnectionEvents, type Exchange, type Reading } from './connection.js';
import { HttpError } from './exchange.js';

export interface PoolOptions {
  readonly connectTimeout: number;
  /** Resolves names; may refuse. */
  readonly lookup?: LookupFunction;
  /** Throws where a connection to this host and port must not be made. */
  check?(host: string, port: number): void;
}

/** Milliseconds of silence after which the system asks whether the other side is still there. */
const PROBE_AFTER = 60_000;

/** The connections to one origin. The one that was used last is used first, so that the others can go. */
export class Pool implements ConnectionEvents {
  private readonly free_: Connection[] = [];
  private readonly all = new Set<Connection>();
  private readonly host: string;
  private readonly port: number;
  private readonly secure: boolean;
  /** Lets the next TLS connection be made with one round trip less. */
  private session: Buffer | undefined;
  /** As the Host header has it. */
  readonly authority: string;

  constructor(
    origin: string,
    private readonly options: PoolOptions,
  ) {
    const url = URL.canParse(origin) ? new URL(origin) : undefined;
    if (url?.protocol !== 'http:' && url?.protocol !== 'https:')
      throw new HttpError('HTTP_UNSENDABLE', 'the URL is neither http nor https');
    this.authority = url.host;
    this.host = url.hostname.replace(/^\[|\]$/g, '');
    this.secure = url.protocol === 'https:';
    this.port = Number(url.port || (this.secure ? 443 : 80));
  }

  get idle(): boolean {
    return this.free_.length === this.all.size;
  }

  send(exchange: Exchange): void {
    const now = performance.now();
    for (let connection = this.free_.pop(); connection; connection = this.free_.pop()) {
      if (connection.until > now) {
        connection.begin(exchange);
        return;
      }
      connection.destroy();
    }
    const { check, connectTimeout } = this.options;
    try {
      check?.(this.host, this.port);
    } catch (error) {
      queueMicrotask(() => exchange.fail(error as Error));
      return;
    }
    this.all.add(
      new Connection(
        exchange,
        this,
        (reading, ready) => this.open(reading, ready).setNoDelay(true).setKeepAlive(true, PROBE_AFTER),
        connectTimeout,
      ),
    );
  }

  private open(onread: Reading, ready: () => void): Socket {
    const { host, port } = this;
    const options = {
      host,
      port,
      onread,
      ...(this.options.lookup && { lookup: this.options.lookup }),
    };
    if (!this.secure) return connect(options, ready);
    const socket = connectTls(
      {
        ...options,
        ALPNProtocols: ['http/1.1'],
        ...(isIP(host) === 0 && { servername: host }),
        ...(this.session && { session: this.session }),
      },
      ready,
    );
    socket.on('session', (session) => {
      this.session = session;
    });
    return socket;
  }

  free(connection: Connection, keep: number): void {
    connection.until = performance.now() + keep;
    this.free_.push(connection);
  }

  closed(connection: Connection): void {
    this.all.delete(connection);
    const at = this.free_.indexOf(connection);
    if (at >= 0) this.free_.splice(at, 1);
  }

  /** Closes what has waited for too long. */
  sweep(now: number): void {
    for (const connection of [...this.free_]) if (connection.until <= now) connection.destroy();
  }

  /** Closes all connections; what still runs on them fails. */
  close(): void {
    for (const connection of [...this.all])
      connection.destroy(new HttpError('ECONNRESET', 'the client closed the connection'));
  }
}
