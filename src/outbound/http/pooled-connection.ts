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
   * Stops reading, so that the socket's buffer fills up and the server has to wait. The method of undici, a paused
   * parser, ends the process with a failed assertion where the server closes the connection during the pause.
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
   * Whether the connection was reset. undici then treats a body without a length as complete. Use this only at the end
   * of such a body, because the socket caches its address.
   */
  get broken(): boolean {
    const { socket } = this;
    // Node reports a reset together with the last bytes as an end. Only after a real end the remote address is known.
    return socket !== undefined && (socket.errored !== null || socket.remoteAddress === undefined);
  }

  /** Ends the exchange under way. The method of undici would open another connection without need. */
  drop(): void {
    this.socket?.destroy(DROPPED);
  }

  /**
   * Closes a connection whose request is answered before it is completely sent: its rest must not mix with the next
   * one.
   */
  dropIfWriting(): void {
    if (this.socket && this.socket.writableLength > 0) this.socket.destroy();
  }
}
