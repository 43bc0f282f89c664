/**
 * A proxy that only passes bytes on, written with the libraries of the gateway: `node:http` in, `undici` out. The
 * difference to the gateway is the cost of the gateway's own work.
 *
 *   library-proxy.ts MODERN_URL LEGACY_URL      serves /modern and /legacy
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Dispatcher, Pool } from 'undici';

const [, , modern, legacy] = process.argv;

/** Headers of one hop, which a proxy does not pass on. */
const OWN_HOP = new Set(['connection', 'keep-alive', 'transfer-encoding', 'host', 'content-length']);

interface Target {
  readonly pool: Pool;
  readonly path: string;
}

function targetOf(text: string): Target {
  const url = new URL(text);
  return { pool: new Pool(url.origin, { connections: 64, pipelining: 1 }), path: url.pathname };
}

const targets = new Map<string, Target>([
  ['/modern', targetOf(modern!)],
  ['/legacy', targetOf(legacy!)],
]);

function passedOn(raw: readonly string[]): string[] {
  const headers: string[] = [];
  for (let i = 0; i < raw.length; i += 2) {
    if (!OWN_HOP.has(raw[i]!.toLowerCase())) headers.push(raw[i]!, raw[i + 1]!);
  }
  return headers;
}

class Reply implements Dispatcher.DispatchHandler {
  constructor(private readonly res: ServerResponse) {}

  onRequestStart(): void {}

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[]>,
  ): void {
    delete headers['connection'];
    delete headers['keep-alive'];
    this.res.writeHead(status, headers);
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.res.write(chunk)) return;
    controller.pause();
    this.res.once('drain', () => controller.resume());
  }

  onResponseEnd(): void {
    this.res.end();
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (this.res.headersSent) this.res.destroy(error);
    else this.res.writeHead(502).end(error.message);
  }
}

function proxy(req: IncomingMessage, res: ServerResponse): void {
  const target = targets.get(req.url!);
  if (!target) {
    res.writeHead(404).end();
    return;
  }
  const parts: Buffer[] = [];
  req.on('data', (part: Buffer) => parts.push(part));
  req.on('end', () => {
    const body = parts.length === 1 ? parts[0]! : Buffer.concat(parts);
    target.pool.dispatch(
      {
        path: target.path,
        method: req.method as Dispatcher.HttpMethod,
        headers: passedOn(req.rawHeaders),
        ...(body.length > 0 && { body }),
      },
      new Reply(res),
    );
  });
}

const server = createServer(proxy);
server.listen(0, '127.0.0.1', () => process.send!((server.address() as AddressInfo).port));
process.on('disconnect', () => process.exit(0));
