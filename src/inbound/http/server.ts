import type { AddressInfo } from 'node:net';
import { sleep } from '../../core/timing.js';
import { Listener, type ListenerSettings, SETTINGS } from './listener.js';
import { RequestChecks, type RequestChecksOptions } from './request-checks.js';

export interface HttpServerOptions extends RequestChecksOptions {
  /** The listener's settings; missing values come from `SETTINGS`. */
  readonly listener?: Partial<ListenerSettings>;
}

/** The HTTP server of the gateway: accepts connections, and gives their requests to `RequestChecks`. */
export class HttpServer {
  private readonly listener: Listener;
  private readonly checks: RequestChecks;

  constructor(options: HttpServerOptions) {
    this.listener = new Listener({
      ...(options.listener && { settings: options.listener }),
      handle: (req, res) => this.checks.check(req, res),
      upgrades: (target) => this.checks.upgrades(target),
      refuse: (req, res, error) => this.checks.refuse(req, res, error),
      failed: (error) => options.failed(error),
    });
    const { connectionsPerAddress } = options.listener?.limits ?? SETTINGS.limits;
    this.checks = new RequestChecks(options, this.listener.proxies, connectionsPerAddress);
  }

  listen(host: string, port: number): Promise<AddressInfo> {
    return this.listener.listen(host, port);
  }

  /** Bytes of responses that wait for slow clients. */
  get unread(): number {
    return this.listener.unread.bytes;
  }

  /** Reads the files of the TLS certificate again, if there are any. */
  reload(): Promise<void> {
    return this.listener.reload();
  }

  /**
   * Load balancers need time to learn that this gateway stops. During this time requests are served, each as the last
   * request on its connection, and no connection is closed while a request may be on its way (fault 26).
   */
  async leave(milliseconds: number): Promise<void> {
    this.listener.leaving = true;
    if (this.listener.count > 0) await sleep(milliseconds);
  }

  /**
   * Accepts no new connections. Closes idle connections at once, and other connections after their request or when
   * `force` resolves.
   */
  async close(force: Promise<unknown>): Promise<void> {
    const closed = this.listener.close();
    this.listener.closeIdle();
    // Closes connections that became idle in the meantime.
    const idle = setInterval(() => this.listener.closeIdle(), 50);
    void force.then(() => this.listener.closeAll());
    await closed;
    clearInterval(idle);
    this.checks.close();
  }
}
