import { connect, type Socket } from 'node:net';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { sleep } from '../../core/timing.js';
import { Listener } from './listener.js';
import type { InboundRequest } from './request.js';
import type { InboundResponse } from './response.js';

/** One request: its framing, its cuts, and its response. */
interface Plan {
  readonly method: 'GET' | 'HEAD' | 'POST' | 'DELETE';
  readonly framing: 'none' | 'length' | 'chunked';
  readonly size: number;
  /** The number of empty lines before the request. */
  readonly lines: number;
  readonly expects: boolean;
  readonly cuts: readonly number[];
  /** Whether the client waits for all earlier responses before it continues. */
  readonly waits: boolean;
  readonly reads: 'first' | 'later' | 'never';
  readonly answer: 'text' | 'parts' | 'stream' | '204' | '304';
  readonly delay: 'none' | 'microtask' | 'turn' | 'some';
  readonly answerSize: number;
}

const sizes = fc.oneof(fc.nat(10), fc.nat(2_000), fc.nat(150_000));
const anyPlan: fc.Arbitrary<Plan> = fc.record({
  method: fc.constantFrom('GET', 'HEAD', 'POST', 'POST', 'DELETE'),
  framing: fc.constantFrom('none', 'length', 'length', 'chunked'),
  size: sizes,
  lines: fc.constantFrom(0, 0, 0, 1, 2),
  expects: fc.constantFrom(false, false, false, true),
  cuts: fc.array(fc.nat(), { maxLength: 4 }),
  waits: fc.boolean(),
  reads: fc.constantFrom(...Array<'first'>(12).fill('first'), ...Array<'later'>(12).fill('later'), 'never'),
  answer: fc.constantFrom('text', 'parts', 'stream', '204', '304'),
  delay: fc.constantFrom('none', 'microtask', 'turn', 'some'),
  answerSize: sizes,
});

/** No route begins a stream before it has read its request. */
const plan = anyPlan.map(
  (how): Plan => (how.reads === 'never' && how.answer === 'stream' ? { ...how, reads: 'first' } : how),
);

/** A body unique to this request, with bytes that look like the framing around it. */
const bodyOf = (id: string, size: number): string => `<${id}>\r\n0\r\n\r\n`.repeat(size / 10 + 1).slice(0, size);

function requestOf(id: string, { method, framing, size, lines, expects }: Plan): { head: string; body: string } {
  const body = bodyOf(id, size);
  const head = `${'\r\n'.repeat(lines)}${method} /${id} HTTP/1.1\r\nHost: a\r\n${expects ? 'Expect: 100-continue\r\n' : ''}`;
  switch (framing) {
    case 'none':
      return { head: `${head}\r\n`, body: '' };
    case 'length':
      return { head: `${head}Content-Length: ${size}\r\n\r\n`, body };
    case 'chunked': {
      let chunks = '';
      for (let at = 0, n = 1; at < size; at += n, n *= 5) {
        const part = body.slice(at, at + n);
        chunks += `${part.length.toString(16)};i\r\n${part}\r\n`;
      }
      return { head: `${head}Transfer-Encoding: chunked\r\n\r\n`, body: `${chunks}0\r\nX: y\r\n\r\n` };
    }
  }
}

async function answer(req: InboundRequest, res: InboundResponse, how: Plan): Promise<void> {
  const id = req.target.slice(1);
  const wanted = how.framing === 'none' ? '' : bodyOf(id, how.size);
  const read = async (): Promise<void> => {
    const body = await req.read(1_000_000);
    if (body.toString('latin1') !== wanted) throw new Error(`${id} has the body of another`);
  };
  if (how.reads === 'first') await read();
  if (how.delay === 'microtask') await undefined;
  if (how.delay === 'turn') await new Promise(setImmediate);
  if (how.delay === 'some') await sleep(how.size % 4);
  if (how.reads === 'later') await read();
  const body = bodyOf(id, how.answerSize);
  const half = body.length >> 1;
  const parts = [Buffer.from(body.slice(0, half)), Buffer.from(body.slice(half))];
  switch (how.answer) {
    case '204':
    case '304':
      res.send(Number(how.answer), ['X-Id', id], parts);
      return;
    case 'text':
      res.sendText(200, ['X-Id', id], body);
      return;
    case 'parts':
      res.send(200, ['X-Id', id], parts);
      return;
    case 'stream':
      res.open(200, ['X-Id', id]);
      if (half > 0) res.write(body.slice(0, half));
      if (how.delay === 'turn') await new Promise(setImmediate);
      if (body.length > half) res.write([parts[1]!]);
      res.end();
  }
}

/** Parses responses as a strict client, one after the other. */
class StrictClient {
  private text = '';
  readonly heard: { id: string; status: number; body: string }[] = [];
  continues = 0;
  closed = false;
  said = '';
  wake = (): void => {};

  constructor(
    readonly socket: Socket,
    private readonly plans: readonly Plan[],
  ) {
    socket.on('data', (chunk: Buffer) => {
      this.text += chunk.toString('latin1');
      while (this.take());
      this.wake();
    });
    socket.on('error', () => {});
    socket.on('close', () => {
      this.closed = true;
      this.wake();
    });
  }

  get rest(): string {
    return this.text;
  }

  private take(): boolean {
    const { text } = this;
    const end = text.indexOf('\r\n\r\n');
    if (end < 0) return false;
    const head = text.slice(0, end + 2);
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(head)?.[1]);
    let at = end + 4;
    if (status === 100) {
      this.continues++;
      this.text = text.slice(at);
      return true;
    }
    const how = this.plans[this.heard.length];
    let body = '';
    if (Number.isNaN(status) || !how) throw new Error(`invalid response: ${text.slice(0, 100)}`);
    if (how.method !== 'HEAD' && status !== 204 && status !== 304) {
      const length = /\r\nContent-Length: (\d+)\r\n/.exec(head)?.[1];
      if (length !== undefined) {
        if (text.length < at + Number(length)) return false;
        body = text.slice(at, at + Number(length));
        at += Number(length);
      } else {
        for (;;) {
          const line = text.indexOf('\r\n', at);
          if (line < 0) return false;
          const size = Number.parseInt(text.slice(at, line), 16);
          if (text.length < line + 4 + size) return false;
          body += text.slice(line + 2, line + 2 + size);
          at = line + 4 + size;
          if (size === 0) break;
        }
      }
    }
    this.heard.push({ id: /\r\nX-Id: (\S+)\r\n/.exec(head)?.[1] ?? '', status, body });
    if (/\r\nConnection: close\r\n/.test(head)) this.said = 'close';
    this.text = text.slice(at);
    return true;
  }

  async until(holds: () => boolean): Promise<void> {
    const deadline = Date.now() + 10_000;
    while (!holds() && !this.closed) {
      if (Date.now() > deadline) throw new Error(`timeout waiting for response ${this.heard.length}`);
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, 100);
        this.wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }
}

it('gives every request its own response, once and in order, with any framing and timing', async () => {
  const plans = new Map<string, Plan>();
  const failures: unknown[] = [];
  const listener = new Listener({
    handle: (req, res) => {
      const id = req.target.slice(1);
      const how = plans.get(id)!;
      plans.delete(id);
      // A repeated request fails here, because its plan was removed.
      answer(req, res, how).catch((error: unknown) => failures.push(error));
    },
    refuse: (_, __, error) => void failures.push(error),
    failed: (error) => void failures.push(error),
  });
  const { port } = await listener.listen('127.0.0.1', 0);
  let runs = 0;
  try {
    await fc.assert(
      fc.asyncProperty(fc.array(plan, { minLength: 1, maxLength: 25 }), async (all) => {
        const run = runs++;
        const ids = all.map((_, i) => `${run}-${i}`);
        for (const [i, how] of all.entries()) plans.set(ids[i]!, how);
        const socket = connect({ port, host: '127.0.0.1', noDelay: true });
        const client = new StrictClient(socket, all);
        for (const [i, how] of all.entries()) {
          if (client.closed) break;
          const { head, body } = requestOf(ids[i]!, how);
          if (how.waits) await client.until(() => client.heard.length >= i);
          const text = head + body;
          const points = [...new Set(how.cuts.map((cut) => cut % text.length))].sort((a, b) => a - b);
          for (const [j, from] of [0, ...points].entries()) {
            socket.write(text.slice(from, points[j] ?? text.length), 'latin1');
            if (points.length > 0) await new Promise(setImmediate);
          }
        }
        await client.until(() => client.heard.length === all.length);
        expect(failures.splice(0).filter((error) => !client.closed || !/ended early/.test(String(error)))).toEqual([]);
        // A response that is sent before the body was read may end the connection. Such a response has the header
        // `Connection: close`.
        if (client.heard.length < all.length || client.closed) {
          expect(client.said).toBe('close');
          expect(all[client.heard.length - 1]!.reads).toBe('never');
        }
        for (const [i, { id, status, body }] of client.heard.entries()) {
          const how = all[i]!;
          expect(id).toBe(ids[i]);
          const bare = how.method === 'HEAD' || how.answer === '204' || how.answer === '304';
          expect(status).toBe(how.answer === '204' || how.answer === '304' ? Number(how.answer) : 200);
          expect(body === (bare ? '' : bodyOf(ids[i]!, how.answerSize))).toBe(true);
        }
        expect(client.rest).toBe('');
        socket.destroy();
        plans.clear();
      }),
      { numRuns: 150, endOnFailure: true },
    );
  } finally {
    const closed = listener.close();
    listener.closeAll();
    await closed;
  }
});
