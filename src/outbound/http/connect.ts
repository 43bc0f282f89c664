/** How connections are made: which addresses are allowed, and how long it may take. */
import { isIP, type LookupFunction, type Socket } from 'node:net';
import { buildConnector } from 'undici';
import type { Egress } from '../egress.js';
import { HttpError } from './exchange.js';
import { Unconnected } from './faults.js';

export interface ConnectOptions {
  /** Milliseconds a connection may take, TLS included. */
  readonly connectTimeout: number;
  /** Checks every address before it is dialled: for URLs that come from a caller or from an agent's card. */
  readonly egress?: Egress;
}

type Target = buildConnector.Options;

/** Makes the connections of a client, and gives up those that are under way when the client is closed. */
export class Connector {
  private readonly dial: buildConnector.connector;
  private readonly pending = new Set<(error: Error) => void>();

  constructor(private readonly options: ConnectOptions) {
    const { egress } = options;
    // The time is kept here: undici looks at its own timers only twice a second.
    this.dial = buildConnector({ timeout: 0, ...(egress && { lookup: egress.lookup as LookupFunction }) });
  }

  readonly connect: buildConnector.connector = (to, done) => {
    const host = to.hostname;
    let socket: Socket | undefined;
    let over = false;
    const finish = (error: Error | undefined, made?: Socket): void => {
      if (over) return;
      over = true;
      clearTimeout(timer);
      this.pending.delete(give);
      if (made) done(null, made);
      else done(new Unconnected(error!), null);
    };
    const give = (error: Error): void => {
      finish(error);
      socket?.on('error', () => {}).destroy();
    };
    const timer = setTimeout(
      () => give(new HttpError('ETIMEDOUT', 'no connection within the time for one')),
      this.options.connectTimeout,
    );
    this.pending.add(give);
    try {
      this.options.egress?.checkAuthority(host, portOf(to));
      const target: Target = { ...to, servername: isIP(host) === 0 ? host : '' };
      // It returns the socket, which its types do not say.
      socket = this.dial(target, (error, made) => finish(error ?? undefined, made ?? undefined)) as unknown as Socket;
    } catch (error) {
      finish(error as Error);
    }
  };

  close(): void {
    for (const give of [...this.pending]) give(new HttpError('ECONNRESET', 'the client is closed'));
  }
}

const portOf = ({ port, protocol }: Target): number => (port ? Number(port) : protocol === 'https:' ? 443 : 80);
