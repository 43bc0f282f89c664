import type { Socket } from 'node:net';
import { type buildConnector, Client, type Dispatcher } from 'undici';

/** A handler that is informed which connection carries its request. */
export interface Carried extends Dispatcher.DispatchHandler {
  connection: Connection | undefined;
}

const DROPPED = new Error('the request was aborted');

/** One connection of a pool, with functions that undici lacks. */
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
   * Stops reading from the socket, so that its buffer fills up and the server has to wait. undici itself would pause
   * its parser. If the server then closes the connection, a failed assertion of undici ends the process.
   */
  hold(): void {
    if (this.socket) this.socket.read = () => null;
  }

  /** Allows reading again, without starting a read: undici continues by itself when this is called during a read. */
  release(): void {
    if (this.socket) delete (this.socket as Partial<Socket>).read;
  }

  /** Allows reading again and starts a read. */
  readOn(): void {
    this.release();
    this.socket?.emit('readable');
  }

  /**
   * Whether the connection was reset. After a reset, undici reports a body without a length as complete. Read this
   * property only at the end of a body without a length, because the socket caches its remote address.
   */
  get broken(): boolean {
    const { socket } = this;
    // Node reports a reset as an ordinary end if it arrives together with the last bytes. Only after an ordinary end,
    // the remote address is known.
    return socket !== undefined && (socket.errored !== null || socket.remoteAddress === undefined);
  }

  /** Ends the exchange under way. The method of undici for this would open an unneeded connection. */
  drop(): void {
    this.socket?.destroy(DROPPED);
  }

  /**
   * Closes a connection whose request is answered before it is completely sent. The rest of that request must not
   * become part of the next one.
   */
  dropIfWriting(): void {
    if (this.socket && this.socket.writableLength > 0) this.socket.destroy();
  }
}
