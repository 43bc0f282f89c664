import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { Egress } from '../egress.js';
import { type Abortable, HttpClient, type HttpClientOptions, type HttpFailure, headerOf, httpTarget } from './index.js';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closing.push(async () => {
    const closed = new Promise((resolve) => server.close(resolve));
    server.closeAllConnections();
    await closed;
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function client(options: Partial<HttpClientOptions> = {}): HttpClient {
  const made = new HttpClient({ connectTimeout: 2_000, ...options });
  closing.push(() => made.close());
  return made;
}

interface Heard {
  status: number;
  location: string | undefined;
  size: number;
  over: 'end' | HttpFailure | undefined;
  exchange: Abortable;
}

function get(http: HttpClient, url: string, onData: (heard: Heard) => void = () => {}): Heard {
  const heard: Heard = { status: 0, location: undefined, size: 0, over: undefined, exchange: { abort() {} } };
  heard.exchange = http.request(
    httpTarget(url),
    { method: 'GET', headers: [] },
    {
      start: (status, headers) => {
        heard.status = status;
        heard.location = headerOf(headers, 'location');
      },
      data: (chunk) => {
        heard.size += chunk.length;
        onData(heard);
      },
      end: () => {
        heard.over = 'end';
      },
      fail: (failure) => {
        heard.over = failure;
      },
    },
  );
  return heard;
}
const done = (heard: Heard): Promise<unknown> => expect.poll(() => heard.over, { timeout: 5_000 }).toBeDefined();

describe('the client for connections', () => {
  it('follows no redirect', async () => {
    const url = await serve((_, response) => response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end());
    const heard = get(client({ egress: new Egress({ allowPrivate: true, ports: [] }) }), url);
    await done(heard);
    expect(heard).toMatchObject({ status: 302, location: 'http://127.0.0.1:1/', over: 'end' });
  });

  it('reports nothing after an abort', async () => {
    const url = await serve((_, response) => response.write('x'));
    const heard = get(client(), url, ({ exchange }) => exchange.abort());
    await sleep(300);
    expect(heard).toMatchObject({ size: 1, over: undefined });
  });

  it('stops reading while it is paused', async () => {
    let blocked = false;
    const url = await serve((_, response) => {
      let left = 1_000;
      const more = (): void => {
        while (left-- > 0) {
          if (response.write(Buffer.alloc(50_000))) continue;
          blocked = true;
          response.once('drain', more);
          return;
        }
        response.end();
      };
      more();
    });
    let held = 0;
    const heard = get(client(), url, (now) => {
      if (now.size < 1_000_000 || held > 0) return;
      held = now.size;
      now.exchange.pause!();
    });
    await expect.poll(() => held, { timeout: 5_000 }).toBeGreaterThan(0);
    await sleep(200);
    expect(heard.size).toBe(held);
    expect(blocked).toBe(true);
    heard.exchange.resume!();
    await done(heard);
    expect(heard).toMatchObject({ over: 'end', size: 50_000_000 });
  });

  it('limits the connections to origins that strangers name', async () => {
    const url = await serve((_, response) => response.end('hi'));
    const http = client({
      egress: new Egress({ allowPrivate: true, ports: [] }, (_, __, answer) =>
        answer(null, [{ address: '127.0.0.1', family: 4 }]),
      ),
    });
    const { port } = new URL(url);
    for (let i = 0; i < 300; i++) {
      const heard = get(http, `http://host-${i}.example:${port}/`);
      await new Promise<void>((resolve) => {
        const wait = (): void => void (heard.over === undefined ? setImmediate(wait) : resolve());
        wait();
      });
      expect(heard.over).toBe('end');
    }
    expect(http.origins).toBeLessThanOrEqual(256);
  });
});
