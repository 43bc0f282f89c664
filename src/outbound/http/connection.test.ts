import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Ear } from '../../../test/support/raw-http.js';
import { Connection, Exchange, type Reading } from './connection.js';

/** A socket whose network is in the hands of the test. It asks for a buffer when Node's would: after each read. */
class Wire extends EventEmitter {
  destroyed = false;
  paused = false;
  writableLength = 0;
  readonly remoteAddress = '127.0.0.1';
  written = '';
  private buffer: Uint8Array;
  private waiting: Buffer[] = [];

  constructor(
    private readonly reading: Reading,
    readonly ready: () => void,
  ) {
    super();
    this.buffer = reading.buffer();
  }

  write(text: string | Buffer): boolean {
    this.written += text.toString('latin1');
    return true;
  }
  cork(): void {}
  uncork(): void {}
  pause(): void {
    this.paused = true;
  }
  resume(): void {
    this.paused = false;
    queueMicrotask(() => this.flow());
  }
  destroy(): void {
    if (this.destroyed) return;
    this.destroyed = true;
    queueMicrotask(() => this.emit('close'));
  }

  /** Bytes come in. With `pressing` they come even to one that is paused, as what TLS has decrypted already does. */
  bring(text: string, pressing = false): void {
    this.waiting.push(Buffer.from(text, 'latin1'));
    this.flow(pressing);
  }

  end(): void {
    if (this.destroyed) return;
    this.emit('end');
    this.destroy();
  }

  get drained(): boolean {
    return this.waiting.length === 0;
  }

  private flow(pressing = false): void {
    while (this.waiting.length > 0 && !this.destroyed && (!this.paused || pressing)) {
      const [piece] = this.waiting as [Buffer];
      const count = Math.min(piece.length, this.buffer.length);
      piece.copy(this.buffer, 0, 0, count);
      if (count === piece.length) this.waiting.shift();
      else this.waiting[0] = piece.subarray(count);
      this.reading.callback(count, this.buffer);
      this.buffer = this.reading.buffer();
    }
  }
}

class Stand {
  readonly events: string[] = [];
  readonly wire: Wire;
  readonly connection: Connection;

  constructor(first: Exchange) {
    let wire: Wire | undefined;
    this.connection = new Connection(
      first,
      { free: () => void this.events.push('free'), closed: () => void this.events.push('closed') },
      (reading, ready) => {
        wire = new Wire(reading, ready);
        return wire as unknown as Socket;
      },
      10_000,
    );
    this.wire = wire!;
  }

  get free(): boolean {
    return this.events.at(-1) === 'free';
  }
}

async function stand(ear = new Ear()): Promise<Stand & { readonly exchange: Exchange; readonly ear: Ear }> {
  const exchange = new Exchange('GET / HTTP/1.1\r\n\r\n', undefined, ear);
  ear.exchange = exchange;
  const made = new Stand(exchange);
  made.wire.ready();
  await soon();
  return Object.assign(made, { exchange, ear });
}

const soon = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
/** By then a connection that had to wait until it may be used again has done so. */
const settled = (): Promise<void> => soon().then(soon);

function cut(text: string, at: readonly number[]): string[] {
  const points = [...new Set(at.map((point) => point % (text.length + 1)))].sort((a, b) => a - b);
  return [0, ...points].map((from, i) => text.slice(from, points[i] ?? text.length)).filter((piece) => piece !== '');
}

interface Valid {
  readonly text: string;
  readonly status: number;
  readonly body: string;
  readonly closing: boolean;
}

const bodies = fc.string({ unit: fc.constantFrom('a', '\r', '\n', '0', 'H', '\xff'), maxLength: 60 });
/** Replies that are in order, in every framing. */
const valid: fc.Arbitrary<Valid> = fc
  .record({
    body: bodies,
    kind: fc.constantFrom('length', 'chunked', 'close', '1.0', '204', '304'),
    before: fc.array(fc.constantFrom('HTTP/1.1 100 Continue\r\n\r\n', 'HTTP/1.1 103 Early\r\nlink: </a>\r\n\r\n'), {
      maxLength: 2,
    }),
    sizes: fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 8 }),
    trailer: fc.constantFrom('', 'x: y\r\n'),
  })
  .map(({ body, kind, before, sizes, trailer }) => {
    const start = before.join('');
    const length = `content-length: ${body.length}\r\n`;
    switch (kind) {
      case 'length':
        return { text: `${start}HTTP/1.1 200 OK\r\n${length}\r\n${body}`, status: 200, body, closing: false };
      case '1.0':
        return { text: `HTTP/1.0 500 No\r\n${length}\r\n${body}`, status: 500, body, closing: true };
      case 'close':
        return { text: `${start}HTTP/1.1 200 OK\r\nx: y\r\n\r\n${body}`, status: 200, body, closing: true };
      case '204':
      case '304':
        return { text: `${start}HTTP/1.1 ${kind} No\r\n\r\n`, status: Number(kind), body: '', closing: false };
      default: {
        let chunks = '';
        for (let at = 0, i = 0; at < body.length; i++) {
          const part = body.slice(at, at + sizes[i % sizes.length]!);
          chunks += `${part.length.toString(16)};i=${i}\r\n${part}\r\n`;
          at += part.length;
        }
        const text = `${start}HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${chunks}0\r\n${trailer}\r\n`;
        return { text, status: 200, body, closing: false };
      }
    }
  });

describe('a connection', () => {
  it('reads a reply the same however it was cut, and wherever it was held up', async () => {
    await fc.assert(
      fc.asyncProperty(
        valid,
        fc.array(fc.nat(), { maxLength: 12 }),
        fc.array(fc.nat(60), { maxLength: 4 }),
        fc.boolean(),
        fc.boolean(),
        async ({ text, status, body, closing }, cuts, holds, roomy, pressing) => {
          const { wire, ear, exchange, events } = await stand(new Ear(roomy));
          const hold = (): void => {
            if (!holds.includes(ear.size)) return;
            exchange.pause();
            setImmediate(() => exchange.resume());
          };
          ear.onStart = hold;
          ear.onData = hold;
          for (const piece of cut(text, cuts)) wire.bring(piece, pressing);
          for (let i = 0; i < 100 && (!wire.drained || exchange.held); i++) await soon();
          if (closing) wire.end();
          for (let i = 0; i < 100 && ear.ends === 0; i++) await soon();
          expect(ear.outcome).toEqual({ status, body });
          expect([ear.starts, ear.ends]).toEqual([1, 1]);
          if (ear.given) expect(ear.given.toString('latin1')).toBe(body);
          await settled();
          expect(events.includes('free')).toBe(!closing);
          expect(wire.paused).toBe(false);
        },
      ),
      { numRuns: 400 },
    );
  });

  it('fails a reply that stops anywhere, once, and never delivers more than was sent', async () => {
    await fc.assert(
      fc.asyncProperty(valid, fc.nat(), fc.boolean(), async ({ text, body, closing }, at, roomy) => {
        const { wire, ear, free } = await stand(new Ear(roomy));
        const end = at % text.length;
        wire.bring(text.slice(0, end));
        wire.end();
        await soon();
        expect(ear.ends).toBe(1);
        expect(free).toBe(false);
        expect(body.startsWith(ear.body)).toBe(true);
        // One that has no other end than the connection's is whole wherever that ends.
        if (closing && !text.startsWith('HTTP/1.0') && ear.starts > 0) expect(ear.failure).toBeUndefined();
        else expect(ear.outcome).toBe('ECONNRESET');
      }),
      { numRuns: 300 },
    );
  });

  it('says nothing more once it was aborted, wherever that happens', async () => {
    await fc.assert(
      fc.asyncProperty(valid, fc.nat(60), fc.array(fc.nat(), { maxLength: 6 }), async ({ text, closing }, at, cuts) => {
        const { wire, ear, exchange, events } = await stand(new Ear(at % 2 === 0));
        let aborted = false;
        ear.onData = (size) => {
          expect(aborted).toBe(false);
          if (size < at) return;
          aborted = true;
          exchange.abort();
        };
        for (const piece of cut(text, cuts)) wire.bring(piece);
        if (closing) wire.end();
        await soon();
        expect(ear.ends).toBe(aborted ? 0 : 1);
        if (aborted) {
          expect(wire.destroyed).toBe(true);
          expect(events).not.toContain('free');
        }
      }),
      { numRuns: 300 },
    );
  });

  it('reads or refuses whatever comes, however it was cut, and waits only for what may still become a reply', async () => {
    const bit = fc.constantFrom(
      'HTTP/1.1 200 OK',
      'HTTP/1.1 ',
      'content-length: 2',
      'transfer-encoding: chunked',
      '\r\n',
      '\r\n\r\n',
      '\n',
      '\r',
      '2\r\nhi\r\n',
      '0\r\n\r\n',
      'hi',
      ':',
      ' ',
      '\0',
    );
    await fc.assert(
      fc.asyncProperty(fc.array(bit, { maxLength: 10 }), fc.array(fc.nat(), { maxLength: 6 }), async (bits, cuts) => {
        const text = bits.join('');
        const outcomes: unknown[] = [];
        for (const pieces of [[text], cut(text, cuts), [...text]]) {
          const { wire, ear } = await stand();
          for (const piece of pieces) if (piece !== '') wire.bring(piece);
          const before = ear.ends;
          wire.end();
          await soon();
          expect(ear.ends).toBe(1);
          outcomes.push([before, ear.outcome, ear.body]);
        }
        expect(outcomes[1]).toEqual(outcomes[0]);
        expect(outcomes[2]).toEqual(outcomes[0]);
      }),
      { numRuns: 400 },
    );
  });

  it.each([
    ['bare line feeds', 'HTTP/1.1 200 OK\ncontent-length: 2\n\nhi'],
    ['one bare line feed', 'HTTP/1.1 200 OK\r\ncontent-length: 2\n\nhi'],
    ['another protocol', 'SSH-2.0-OpenSSH_9.6\r\n'],
    ['a TLS alert', '\x15\x03\x01\x00\x02\x02\x46'],
    ['an upgrade', 'HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n'],
    ['a head without end', `HTTP/1.1 200 OK\r\nx: ${'a'.repeat(40_000)}`],
    ['a long head', `HTTP/1.1 200 OK\r\nx: ${'a'.repeat(40_000)}\r\ncontent-length: 0\r\n\r\n`],
  ])('does not wait for the end of %s', async (_, text) => {
    const { wire, ear } = await stand();
    wire.bring(text);
    expect(ear.failure).toMatchObject({ sent: true, error: { code: 'HTTP_INVALID' } });
    expect(wire.destroyed).toBe(true);
  });

  it('takes a head of many pieces', async () => {
    const { wire, ear } = await stand();
    const text = `HTTP/1.1 200 OK\r\nx: ${'a'.repeat(30_000)}\r\ncontent-length: 2\r\n\r\nhi`;
    for (let at = 0; at < text.length; at += 100) wire.bring(text.slice(at, at + 100));
    expect(ear.outcome).toEqual({ status: 200, body: 'hi' });
  });

  it('is used again only where nothing came behind the reply', async () => {
    const clean = await stand();
    clean.wire.bring('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi');
    expect(clean.free).toBe(true);
    const excess = await stand();
    excess.wire.bring('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi!');
    expect(excess.ear.outcome).toEqual({ status: 200, body: 'hi' });
    expect(excess.events).not.toContain('free');
    expect(excess.wire.destroyed).toBe(true);
  });

  it('is closed by bytes that nobody asked for', async () => {
    const { wire, events, ear } = await stand();
    wire.bring('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi');
    wire.bring('HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nstolen');
    expect(ear.body).toBe('hi');
    expect(events.at(-1)).toBe('closed');
    expect(wire.destroyed).toBe(true);
  });

  it.each([
    ['length', 'HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n', '0123456789'],
    ['an inbox', 'HTTP/1.1 200 OK\r\ncontent-length: 65494\r\n\r\n', 'x'.repeat(65_494)],
  ])('is not used again before what lies behind a reply that filled its %s was seen', async (_, head, body) => {
    const { wire, ear, events, connection } = await stand(new Ear(true));
    const next = new Ear();
    ear.onEnd = () => {
      if (events.includes('free')) connection.begin(new Exchange('', undefined, next));
    };
    wire.bring(head.length + body.length >= 65_536 ? head + body : head + body.slice(0, 3));
    if (ear.ends === 0) wire.bring(`${body.slice(3)}HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nstolen`);
    else wire.bring('HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nstolen');
    await settled();
    expect(ear.body).toBe(body);
    expect([next.starts, events.includes('free'), wire.destroyed]).toEqual([0, false, true]);
  });

  it('reads into the place it was given, even if that was found while it was held up', async () => {
    const { wire, ear, exchange } = await stand(new Ear(true));
    ear.onStart = () => exchange.pause();
    wire.bring('HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n012');
    ear.onStart = undefined;
    exchange.resume();
    await soon();
    wire.bring('3456');
    wire.bring('789');
    expect(ear.outcome).toEqual({ status: 200, body: '0123456789' });
    expect(ear.given?.toString()).toBe('0123456789');
    expect(ear.parts.every((part) => part.buffer === ear.given!.buffer)).toBe(true);
  });

  it('is not held up any more when the next exchange begins', async () => {
    const { wire, ear, exchange, connection, events } = await stand();
    ear.onData = () => exchange.pause();
    wire.bring('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n');
    expect(ear.ends).toBe(0);
    exchange.resume();
    expect(ear.outcome).toEqual({ status: 200, body: 'hi' });
    await settled();
    expect(events).toEqual(['free']);
    const next = new Ear();
    connection.begin(new Exchange('', undefined, next));
    await soon();
    wire.bring('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nho');
    await soon();
    expect(next.outcome).toEqual({ status: 200, body: 'ho' });
  });

  it('does not stop reading while it is being made, and not before the reply begins', async () => {
    const ear = new Ear();
    const exchange = new Exchange('', undefined, ear);
    const { wire } = new Stand(exchange);
    exchange.pause();
    expect(wire.paused).toBe(false);
    wire.ready();
    await soon();
    expect(wire.paused).toBe(true);
    wire.bring('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi');
    expect(ear.starts).toBe(0);
    exchange.resume();
    await soon();
    expect(ear.outcome).toEqual({ status: 200, body: 'hi' });
  });

  it('gives what had come to one who was held up while the server left', async () => {
    const { wire, ear, exchange } = await stand();
    ear.onData = () => exchange.pause();
    wire.bring('HTTP/1.1 200 OK\r\n\r\nhi');
    wire.bring(' there', true);
    wire.end();
    await soon();
    expect(ear.ends).toBe(0);
    ear.onData = undefined;
    exchange.resume();
    expect(ear.outcome).toEqual({ status: 200, body: 'hi there' });
  });

  it.each([1, 0])('is not used again while the request is still being written, %i bytes at last', async (left) => {
    const { wire, ear, events } = await stand();
    wire.writableLength = 1;
    wire.bring('HTTP/1.1 413 No\r\ncontent-length: 0\r\n\r\n');
    expect(ear.outcome).toEqual({ status: 413, body: '' });
    expect(events).toEqual([]);
    wire.writableLength = left;
    await settled();
    expect(events[0]).toBe(left > 0 ? 'closed' : 'free');
    expect(wire.destroyed).toBe(left > 0);
  });

  it.each(['onStart', 'onData', 'onEnd'] as const)('fails the exchange whose %s throws', async (where) => {
    const { wire, ear } = await stand();
    ear[where] = () => {
      throw new Error('my fault');
    };
    wire.bring('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi');
    expect(ear.failure).toMatchObject({ sent: true, error: { message: 'my fault' } });
  });

  it('sends small requests in one piece and large ones unchanged', async () => {
    for (const size of [0, 1, 16_384, 16_385, 100_000]) {
      const body = Buffer.alloc(size, '\xe9\x00', 'latin1');
      const { wire } = new Stand(new Exchange('POST / HTTP/1.1\r\n\r\n', body, new Ear()));
      wire.ready();
      await soon();
      expect(wire.written).toBe(`POST / HTTP/1.1\r\n\r\n${body.toString('latin1')}`);
    }
  });
});
