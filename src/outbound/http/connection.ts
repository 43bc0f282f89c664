import type { Socket } from 'node:net';
import { type buildConnector, Client, type Dispatcher } from 'undici';

/** A handler that wants to know which connection carries its request. */
export interface Carried extends Dispatcher.DispatchHandler {
  connection: Connection | undefined;
}

const DROPPED = new Error('nobody waits for the reply any more');

/** One connection of a pool, with what undici does not tell and cannot do. */
export class Connection extends Client {
  private socket: Socket | undefined;

  constructor(origin: URL, options: Client.Options) {
    const connect = options.connect as buildConnector.connector;
    super(origin, {
      ...options,
      connect: (to, done) =>
        connect(to, (...result) => {
          this.socket = result[1] ?? undefined;
          done(...result);
        }),
    });
  }

  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    (handler as Carried).connection = this;
    return super.dispatch(options, handler);
  }

  /**
   * Stops reading, so that the socket's buffer fills up and the server has to wait. undici's own way, a paused parser, ends
   * the process with a failed assertion where the server closes the connection meanwhile.
   */
  hold(): void {
    if (this.socket) this.socket.read = () => null;
  }

  /** The next read works again; undici makes it by itself when it is called from within one. */
  release(): void {
    if (this.socket) delete (this.socket as Partial<Socket>).read;
  }

  /** Reads on after `hold`. */
  readOn(): void {
    this.release();
    this.socket?.emit('readable');
  }

  /**
   * The connection was reset: undici takes a body without a length for complete then. To be asked at the end of such a body
   * only, because the socket remembers the address it was asked for.
   */
  get broken(): boolean {
    const { socket } = this;
    // A reset that comes with the last bytes is reported as an end; only a real end leaves the address of the other side.
    return socket !== undefined && (socket.errored !== null || socket.remoteAddress === undefined);
  }

  /** Ends the exchange under way. undici's own way would dial the server once more, for nobody. */
  drop(): void {
    this.socket?.destroy(DROPPED);
  }

  /** A request that was answered before all of it was written must not run into the next one. */
  dropIfWriting(): void {
    if (this.socket && this.socket.writableLength > 0) this.socket.destroy();
  }
}
