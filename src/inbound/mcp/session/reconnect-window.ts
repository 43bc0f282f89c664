import type { LoggedStream } from './event-log.js';

export interface ReconnectWindowOptions {
  /** How long the client may be away, in milliseconds. */
  readonly window: number;
  /** The stream of the reply, once there is one: a client that comes back reads on there. */
  readonly stream: () => LoggedStream | undefined;
  /** The client was away for too long. */
  over(): void;
}

/**
 * A client that lost the connection of its call may come back for the answer (HL-09). The call runs on for that long and
 * no longer, so that calls of clients that never come back do not pile up at the servers.
 */
export class ReconnectWindow {
  private timer: NodeJS.Timeout | undefined;
  private readonly began = performance.now();
  private done = false;

  /** Begins when the connection of the request is closed. */
  constructor(private readonly options: ReconnectWindowOptions) {
    this.wait(options.window);
  }

  /** The call was answered. */
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
