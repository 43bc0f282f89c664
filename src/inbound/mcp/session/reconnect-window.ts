import type { LoggedStream } from './event-log.js';

export interface ReconnectWindowOptions {
  /** How long the client may be disconnected, in milliseconds. */
  readonly window: number;
  /** The stream of the reply, once there is one: a reconnected client reads it. */
  readonly stream: () => LoggedStream | undefined;
  /** Called when the client did not reconnect in time. */
  over(): void;
}

/**
 * A client that lost the connection of its call may reconnect for the response (HL-09). The call continues for this
 * time and no longer, so that calls of clients that never reconnect do not accumulate at the servers.
 */
export class ReconnectWindow {
  private timer: NodeJS.Timeout | undefined;
  private readonly began = performance.now();
  private done = false;

  /** Begins the window. Created when the connection of the request is closed. */
  constructor(private readonly options: ReconnectWindowOptions) {
    this.wait(options.window);
  }

  /** Called when the call was answered. */
  end(): void {
    this.done = true;
    clearTimeout(this.timer);
  }

  private wait(milliseconds: number): void {
    this.timer = setTimeout(() => this.look(), milliseconds).unref();
  }

  private look(): void {
    if (this.done) return;
    const { window, stream, over } = this.options;
    const logged = stream();
    const away = logged?.connected ? 0 : performance.now() - Math.max(this.began, logged?.leftAt ?? 0);
    if (away < window) {
      this.wait(window - away);
      return;
    }
    this.done = true;
    over();
  }
}
