import type { Socket } from 'node:net';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { ask, Ear, rawServer } from '../../../test/support/raw-http-servers.js';
import { HttpClient } from './index.js';

/** How the server answers one exchange, and how the client behaves. */
interface Plan {
  readonly framing: 'length' | 'chunked' | 'close' | 'empty' | '1.0';
  readonly size: number;
  readonly early: boolean;
  readonly cuts: readonly number[];
  readonly ending: 'keep' | 'close' | 'fin' | 'reset' | 'excess' | 'garbage';
  readonly pauses: readonly number[];
  /** The client aborts after this many bytes. */
  readonly abort: number | undefined;
  /** The next exchange starts in the `end` callback of this one. */
  readonly chained: boolean;
}

const SMALL = 2_000;
const plan: fc.Arbitrary<Plan> = fc.record({
  framing: fc.constantFrom('length', 'length', 'chunked', 'chunked', 'close', 'empty', '1.0'),
  size: fc.oneof(fc.nat(20), fc.nat(SMALL), fc.nat(300_000)),
  early: fc.boolean(),
  cuts: fc.array(fc.nat(), { maxLength: 4 }),
  ending: fc.constantFrom('keep', 'keep', 'keep', 'close', 'fin', 'reset', 'excess', 'garbage'),
  pauses: fc.array(fc.nat(SMALL), { maxLength: 2 }),
  abort: fc.option(fc.nat(SMALL), { nil: undefined, freq: 5 }),
  chained: fc.boolean(),
});

/** A body that differs from those of all other exchanges. */
const bodyOf = (id: number, size: number): string => `<${id}>`.repeat(size / 3 + 1).slice(0, size);

function replyOf(id: number, { framing, size, early, ending }: Plan): { text: string; body: string; ends: boolean } {
  const body = framing === 'empty' ? '' : bodyOf(id, size);
  const before = early && framing !== '1.0' ? 'HTTP/1.1 103 Early Hints\r\nx: y\r\n\r\n' : '';
  const close = ending === 'close' ? 'connection: close\r\n' : '';
  switch (framing) {
    case 'empty':
      return { text: `${before}HTTP/1.1 204 No Content\r\n${close}\r\n`, body, ends: ending === 'close' };
    case 'length':
      return {
        text: `${before}HTTP/1.1 200 OK\r\n${close}content-length: ${size}\r\n\r\n${body}`,
        body,
        ends: ending === 'close',
      };
    case '1.0':
      return { text: `HTTP/1.0 200 OK\r\ncontent-length: ${size}\r\n\r\n${body}`, body, ends: true };
    case 'close':
      return { text: `${before}HTTP/1.1 200 OK\r\n\r\n${body}`, body, ends: true };
    case 'chunked': {
      let chunks = '';
      for (let at = 0, n = 1; at < body.length; at += n, n *= 7) {
        const part = body.slice(at, at + n);
        chunks += `${part.length.toString(16)}\r\n${part}\r\n`;
      }
      const text = `${before}HTTP/1.1 200 OK\r\n${close}transfer-encoding: chunked\r\n\r\n${chunks}0\r\n\r\n`;
      return { text, body, ends: ending === 'close' };
    }
  }
}

const STOLEN = 'HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nstolen';

async function answer(socket: Socket, id: number, how: Plan): Promise<void> {
  const { text, ends } = replyOf(id, how);
  const points = [...new Set(how.cuts.map((cut) => cut % text.length))].sort((a, b) => a - b);
  const pieces = [0, ...points].map((from, i) => text.slice(from, points[i] ?? text.length));
  if (how.ending === 'garbage') {
    socket.end('HTTP/1.1 200 OK\r\ncontent-length: 6\n\nstolen');
    return;
  }
  const broken = how.ending === 'fin' || how.ending === 'reset';
  // Excess bytes must be in the same write as the reply. Later bytes are another case.
  const excess = how.ending === 'excess' && !ends && how.size <= SMALL;
  for (const [i, piece] of pieces.entries()) {
    const last = i === pieces.length - 1;
    if (last && broken) break;
    socket.write(last && excess ? piece + STOLEN : piece, 'latin1');
    await new Promise(setImmediate);
  }
  if (how.ending === 'reset') socket.resetAndDestroy();
  else if (broken || ends) socket.end();
}

class Ask {
  readonly ear: Ear;
  aborted = false;

  constructor(
    http: HttpClient,
    url: string,
    id: number,
    private readonly how: Plan,
    ended: () => void,
  ) {
    this.ear = new Ear();
    let asked = false;
    const next = (): void => {
      if (!asked) ended();
      asked = true;
    };
    const pauses = [...how.pauses];
    const heard = (): void => {
      expect(this.aborted).toBe(false);
      const { size, exchange } = this.ear;
      if (how.abort !== undefined && size >= how.abort) {
        this.aborted = true;
        exchange!.abort();
        next();
        return;
      }
      if (pauses.length === 0 || size < pauses[0]!) return;
      pauses.shift();
      exchange!.pause!();
      setImmediate(() => exchange!.resume!());
    };
    this.ear.onStart = heard;
    this.ear.onData = heard;
    if (how.chained) this.ear.onEnd = next;
    void this.ear.over.then(() => setImmediate(next));
    ask(http, `${url}${id}`, { method: 'POST', body: Buffer.from(`${id}`) }, this.ear);
  }

  /** Expects the body of this exchange, or one failure, or nothing after an abort. */
  check(id: number): void {
    const { ear, how } = this;
    const { body } = replyOf(id, how);
    if (this.aborted) {
      expect(ear.ends).toBe(0);
      expect(body.startsWith(ear.body)).toBe(true);
      return;
    }
    expect(ear.ends).toBe(1);
    if (how.ending === 'fin' || how.ending === 'reset' || how.ending === 'garbage') {
      expect(body.startsWith(ear.body)).toBe(true);
      // Where the end of the connection ends the reply, a premature end cannot be detected.
      if (how.framing === 'close' && how.ending === 'fin' && ear.starts > 0) expect(ear.failure).toBeUndefined();
      else expect(ear.failure).toMatchObject({ sent: true });
      return;
    }
    expect(ear.failure).toBeUndefined();
    expect(ear.body === body).toBe(true);
  }
}

it('gives every exchange its own reply or one failure, whatever happened on its connection before', async () => {
  const plans = new Map<number, Plan>();
  let ids = 100_000;
  const server = await rawServer((socket, request) => {
    const id = Number(/^POST \/(\d+) /.exec(request)![1]);
    expect(request.endsWith(`\r\n\r\n${id}`)).toBe(true);
    void answer(socket, id, plans.get(id)!);
  });
  const http = new HttpClient({ connectTimeout: 5_000 });
  const line = fc.array(plan, { minLength: 1, maxLength: 8 });
  try {
    await fc.assert(
      fc.asyncProperty(fc.array(line, { minLength: 1, maxLength: 3 }), async (lines) => {
        const asked: [number, Ask][] = [];
        // Each line is one caller with sequential requests.
        await Promise.all(
          lines.map(
            (all) =>
              new Promise<void>((done) => {
                const left = [...all];
                const next = (): void => {
                  const how = left.shift();
                  if (!how) {
                    done();
                    return;
                  }
                  const id = ids++;
                  plans.set(id, how);
                  asked.push([id, new Ask(http, server.url, id, how, next)]);
                };
                next();
              }),
          ),
        );
        for (const [id, exchange] of asked) exchange.check(id);
        plans.clear();
      }),
      { numRuns: 100, endOnFailure: true },
    );
  } finally {
    await http.close();
    await server.close();
  }
});
