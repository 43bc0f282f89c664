import { afterEach, describe, expect, it } from 'vitest';
import { bytesHeld } from '../../../test/support/heap.js';
import { byteByByte, rawServer } from '../../../test/support/raw-http-servers.js';
import { HttpClient, httpTarget } from '../http/index.js';
import { type PostEvents, PostReply } from './post-reply.js';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

const LIMITS = { event: 4 * 1024 * 1024, reply: 64 * 1024 * 1024 };

class Heard implements PostEvents {
  readonly messages: Buffer[] = [];
  refusal: { status: number; body: Buffer } | undefined;
  over: 'end' | Error | undefined;

  message(text: Buffer): void {
    this.messages.push(text);
  }
  refused(status: number, _: unknown, body: Buffer): void {
    this.refusal = { status, body };
    this.over = 'end';
  }
  end(): void {
    this.over = 'end';
  }
  fail({ error }: { error: Error }): void {
    this.over = error;
  }
}

/** Counts the received bytes. */
class Counted extends PostReply {
  came = 0;

  override data(chunk: Buffer): void {
    this.came += chunk.length;
    super.data(chunk);
  }
}

async function posted(url: string): Promise<{ heard: Heard; reply: Counted }> {
  const http = new HttpClient({ connectTimeout: 5_000 });
  closing.push(() => http.close());
  const heard = new Heard();
  const reply = new Counted(heard, LIMITS);
  reply.exchange = http.request(httpTarget(url), { method: 'POST', headers: [], body: Buffer.from('{}') }, reply);
  return { heard, reply };
}

describe('a reply in chunks of one byte', () => {
  const SIZE = 500_000;

  it.each([
    ['application/json', '"', '"'],
    ['text/event-stream', 'data: "', '"\n\n'],
  ])(
    'of %s needs little more memory than its bytes and arrives complete',
    { timeout: 60_000 },
    async (type, before, after) => {
      let finish!: () => void;
      const server = await rawServer((socket) => {
        socket.write(`HTTP/1.1 200 OK\r\ncontent-type: ${type}\r\ntransfer-encoding: chunked\r\n\r\n`);
        byteByByte(socket, `${before}${'x'.repeat(SIZE)}`);
        finish = () => {
          byteByByte(socket, after);
          socket.write('0\r\n\r\n');
        };
      });
      closing.push(() => server.close());
      const empty = bytesHeld();
      const { heard, reply } = await posted(server.url);
      await expect.poll(() => reply.came, { timeout: 50_000 }).toBe(before.length + SIZE);
      expect(bytesHeld() - empty).toBeLessThan(40 * SIZE);
      finish();
      await expect.poll(() => heard.over, { timeout: 10_000 }).toBe('end');
      expect(heard.messages.map(String)).toEqual([`"${'x'.repeat(SIZE)}"`]);
    },
  );
});

it('reads an event stream whose content type is in capital letters', async () => {
  const body = 'data: 1\n\ndata: 2\n\n';
  const head = `content-type: Text/Event-Stream; charset=UTF-8\r\ncontent-length: ${body.length}`;
  const server = await rawServer((socket) => socket.write(`HTTP/1.1 200 OK\r\n${head}\r\n\r\n${body}`));
  closing.push(() => server.close());
  const { heard } = await posted(server.url);
  await expect.poll(() => heard.over, { timeout: 10_000 }).toBe('end');
  expect(heard.messages.map(String)).toEqual(['1', '2']);
});
