import { connect, createServer, type Server, type Socket } from 'node:net';

/** Faults of connections. Changes apply to open connections too, except `refuse`. */
export interface Faults {
  /** Delay of each chunk, in both directions. */
  latencyMs?: number;
  /** Ends each connection after this many bytes from the target. */
  cutAfterBytes?: number;
  /** How `cutAfterBytes` ends a connection. */
  cutBy?: 'fin' | 'rst';
  /** Drops all data and keeps connections open. */
  blackHole?: boolean;
  /** Resets new connections at once. */
  refuse?: boolean;
}

export interface FaultProxy {
  readonly port: number;
  set(faults: Faults): void;
  /** Ends all open connections now. */
  cutAll(by?: 'fin' | 'rst'): void;
  readonly connections: number;
  close(): Promise<void>;
}

function end(socket: Socket, by: 'fin' | 'rst'): void {
  if (by === 'rst') socket.resetAndDestroy();
  else socket.destroySoon();
}

/** A TCP proxy on a free loopback port that injects the given faults. */
export async function startFaultProxy(
  target: { port: number; host?: string },
  first: Faults = {},
): Promise<FaultProxy> {
  let faults = first;
  const open = new Set<{ client: Socket; upstream: Socket }>();

  const server: Server = createServer((client) => {
    if (faults.refuse) {
      client.resetAndDestroy();
      return;
    }
    const upstream = connect(target.port, target.host ?? '127.0.0.1');
    const pair = { client, upstream };
    open.add(pair);
    let answered = 0;
    const cut = (): void => {
      const by = faults.cutBy ?? 'fin';
      const both = (): void => {
        end(client, by);
        end(upstream, by);
      };
      // libuv reports a reset that arrives together with the last bytes as an orderly end.
      if (by === 'rst') setTimeout(both, 20);
      else both();
    };

    const forward = (from: Socket, to: Socket, counted: boolean): void => {
      from.on('data', (chunk: Buffer) => {
        if (faults.blackHole) return;
        const limit = faults.cutAfterBytes;
        const rest = counted && limit !== undefined ? limit - answered : chunk.length;
        if (counted) answered += chunk.length;
        const part = chunk.subarray(0, Math.max(0, rest));
        const pass = (): void => {
          if (to.writable && part.length > 0 && !to.write(part)) {
            from.pause();
            to.once('drain', () => from.resume());
          }
          if (part.length < chunk.length) cut();
        };
        if (faults.latencyMs) setTimeout(pass, faults.latencyMs).unref();
        else pass();
      });
      from.on('end', () => {
        if (faults.blackHole) return;
        if (faults.latencyMs) setTimeout(() => to.end(), faults.latencyMs).unref();
        else to.end();
      });
      from.on('error', () => {
        if (!faults.blackHole) to.destroy();
      });
      from.on('close', () => {
        if (!faults.blackHole && from.destroyed && !to.destroyed) to.destroySoon();
        if (client.destroyed && upstream.destroyed) open.delete(pair);
      });
    };
    forward(client, upstream, false);
    forward(upstream, client, true);
  });

  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');

  const cutAll = (by: 'fin' | 'rst' = 'rst'): void => {
    for (const { client, upstream } of open) {
      end(client, by);
      end(upstream, by);
    }
    open.clear();
  };
  return {
    port: address.port,
    set(next) {
      faults = next;
    },
    cutAll,
    get connections() {
      return open.size;
    },
    async close() {
      faults = {};
      cutAll();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
