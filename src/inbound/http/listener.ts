import { type AddressInfo, createServer, type Server } from 'node:net';
import type { ProtocolError } from '../../protocol/errors.js';
import { Connection, type ConnectionOwner, TIMES, type Times } from './connection.js';
import type { InboundRequest } from './request.js';
import type { InboundResponse } from './response.js';

export interface ListenerOptions {
  readonly maxConnections: number;
  readonly times?: Times;
  handle(req: InboundRequest, res: InboundResponse): void;
  /** Answers what could not be read as a request. */
  refuse(req: InboundRequest, res: InboundResponse, error: ProtocolError): void;
  /** The system would not give it a connection; the next one may come all the same. */
  failed(error: unknown): void;
}

/** Milliseconds of silence after which the system asks whether the other side is still there. */
const PROBE_AFTER = 60_000;
const BACKLOG = 1_024;

/** Accepts connections, and sees to it that none takes longer over anything than it may. */
export class Listener implements ConnectionOwner {
  private readonly server: Server;
  private readonly connections = new Set<Connection>();
  private clock: NodeJS.Timeout | undefined;
  private emptied = (): void => {};
  readonly times: Times;
  seconds = 0;
  lines: ConnectionOwner['lines'];
  leaving = false;

  constructor(private readonly options: ListenerOptions) {
    this.times = options.times ?? TIMES;
    this.lines = this.linesNow();
    this.server = createServer(
      { noDelay: true, keepAlive: true, keepAliveInitialDelay: PROBE_AFTER },
      (socket) => void this.connections.add(new Connection(socket, this)),
    );
    this.server.maxConnections = options.maxConnections;
  }

  get count(): number {
    return this.connections.size;
  }

  handle(req: InboundRequest, res: InboundResponse): void {
    this.options.handle(req, res);
  }

  refuse(req: InboundRequest, res: InboundResponse, error: ProtocolError): void {
    this.options.refuse(req, res, error);
  }

  gone(connection: Connection): void {
    this.connections.delete(connection);
    if (this.connections.size === 0) this.emptied();
  }

  listen(host: string, port: number): Promise<AddressInfo> {
    return new Promise((resolve, reject) => {
      this.server.once('error', reject);
      this.server.listen({ host, port, backlog: BACKLOG }, () => {
        this.server.off('error', reject).on('error', (error) => this.options.failed(error));
        this.clock = setInterval(() => this.tick(), 1_000).unref();
        resolve(this.server.address() as AddressInfo);
      });
    });
  }

  /** One look a second at everybody costs less than a timer for each request. */
  private tick(): void {
    this.seconds++;
    this.lines = this.linesNow();
    for (const connection of this.connections) connection.check();
  }

  private linesNow(): ConnectionOwner['lines'] {
    const date = `Date: ${new Date().toUTCString()}\r\n`;
    return {
      kept: `${date}Connection: keep-alive\r\nKeep-Alive: timeout=${this.times.idle}\r\n`,
      closed: `${date}Connection: close\r\n`,
    };
  }

  /** Takes no more connections; resolves when the last one is gone. */
  async close(): Promise<void> {
    await new Promise<void>((resolve) => this.server.close(() => resolve()));
    // The system is done with them a little before everybody here has heard.
    if (this.connections.size > 0) await new Promise<void>((resolve) => (this.emptied = resolve));
    clearInterval(this.clock);
  }

  closeIdle(): void {
    for (const connection of this.connections) if (connection.idle) connection.destroy();
  }

  closeAll(): void {
    for (const connection of this.connections) connection.destroy();
  }
}
