import { describe, expect, it } from 'vitest';
import { collect } from '../../../test/support/heap.js';
import { ProtocolError } from '../../protocol/errors.js';
import { CHUNKED } from '../../protocol/http/fields.js';
import type { Parts } from '../../protocol/http/parts.js';
import { InboundRequest } from './request.js';
import { hasBody, type RequestHead } from './request-head.js';

class Stand {
  wants = 0;
  readonly req: InboundRequest;

  constructor(length: number) {
    const head: RequestHead = {
      method: 'POST',
      target: '/a?b',
      headers: ['host', 'a', 'x', 'host', 'y', 'z'],
      length,
      keepAlive: true,
      old: false,
    };
    this.req = new InboundRequest(head, { identity: {}, wanted: () => void this.wants++ });
    if (!hasBody(head)) this.req.end();
  }
}

const bytes = (text: string): Buffer => Buffer.from(text);
const TOO_LARGE = expect.objectContaining({ reason: 'body_too_large', detail: { headers: { Connection: 'close' } } });
/** Whatever form the refusal takes. */
const read = async (req: InboundRequest, limit: number): Promise<string> => (await req.read(limit)).toString();

describe('a request', () => {
  it('says what its head says', () => {
    const { req } = new Stand(0);
    expect([req.method, req.target]).toEqual(['POST', '/a?b']);
    expect(req.header('x')).toBe('host');
    expect(req.header('z')).toBeUndefined();
    expect(req.header('X')).toBeUndefined();
  });

  it('has an empty body where its head tells of none', async () => {
    const { req, wants } = new Stand(0);
    expect(req.complete).toBe(true);
    expect(await read(req, 0)).toBe('');
    expect(wants).toBe(0);
  });

  it('gives a body that is all there without waiting', () => {
    const stand = new Stand(5);
    stand.req.push(bytes('he'));
    stand.req.push(bytes('llo'));
    expect(stand.req.waiting).toBe(5);
    stand.req.end();
    expect(stand.req.read(5).toString()).toBe('hello');
    expect(stand.wants).toBe(0);
  });

  it('waits for the rest, and asks for it once', async () => {
    const stand = new Stand(CHUNKED);
    stand.req.push(bytes('he'));
    const body = read(stand.req, 5);
    expect(stand.wants).toBe(1);
    expect(stand.req.waiting).toBe(0);
    stand.req.push(bytes('llo'));
    stand.req.end();
    expect(await body).toBe('hello');
    expect(stand.wants).toBe(1);
  });

  it.each([6, CHUNKED])('refuses more than was asked for where the length is %i', async (length) => {
    const early = new Stand(length);
    early.req.push(bytes('hello!'));
    await expect(read(early.req, 5)).rejects.toEqual(TOO_LARGE);
    const late = new Stand(length);
    const body = read(late.req, 5);
    void body.catch(() => {});
    late.req.push(bytes('hello'));
    late.req.push(bytes('!'));
    late.req.end();
    await expect(body).rejects.toEqual(TOO_LARGE);
  });

  it('keeps nothing of a body that is too large', async () => {
    const { req } = new Stand(CHUNKED);
    const body = read(req, 10);
    void body.catch(() => {});
    for (let i = 0; i < 100; i++) req.push(bytes('0123456789'));
    await expect(body).rejects.toEqual(TOO_LARGE);
    expect((req as unknown as { parts: Parts }).parts.size).toBe(0);
  });

  it('fails once, for whoever waits or comes later', async () => {
    const gone = new ProtocolError('invalid_request', 'The body ended early');
    const { req } = new Stand(5);
    const body = read(req, 5);
    expect(req.fail(gone)).toBe(true);
    await expect(body).rejects.toBe(gone);
    req.fail(new ProtocolError('request_timeout', 'another'));
    await expect(read(req, 5)).rejects.toBe(gone);
  });

  it('tells whether somebody hears of a failure', () => {
    const gone = new ProtocolError('invalid_request', 'The body ended early');
    expect(new Stand(5).req.fail(gone)).toBe(false);
    const waiting = new Stand(5).req;
    void read(waiting, 5).catch(() => {});
    expect(waiting.fail(gone)).toBe(true);
  });

  it('does not lose a body that had come before the client was gone', async () => {
    const { req } = new Stand(2);
    req.push(bytes('ok'));
    req.end();
    req.fail(new ProtocolError('invalid_request', 'The body ended early'));
    expect(await read(req, 5)).toBe('ok');
  });

  it('takes little more memory than its bytes, however small the chunks are that they came in', async () => {
    const { req } = new Stand(CHUNKED);
    const body = read(req, 1_000_000);
    const slab = Buffer.alloc(64 * 1024, 97);
    collect();
    const before = process.memoryUsage().heapUsed;
    for (let i = 0; i < 200_000; i++) req.push(slab.subarray(i % slab.length, (i % slab.length) + 1));
    collect();
    // A buffer of one byte is a hundred bytes of memory.
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(5_000_000);
    req.end();
    expect(await body).toBe('a'.repeat(200_000));
  });

  it('does not keep what its body was read together with, nor the body once it was given away', async () => {
    const { req } = new Stand(CHUNKED);
    const body = read(req, 10_000_000);
    collect();
    const before = process.memoryUsage().arrayBuffers;
    /** Buffers are given back a little after the collection. */
    const heldAtMost = async (bytes: number): Promise<void> => {
      for (let i = 0; i < 100 && process.memoryUsage().arrayBuffers - before > bytes; i++) {
        collect();
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
      expect(process.memoryUsage().arrayBuffers - before).toBeLessThanOrEqual(bytes);
    };
    const sizes = [600, 5_000, 100];
    for (let i = 0; i < 1_500; i++) {
      const slab = Buffer.alloc(32 * 1024, 97);
      req.push(slab.subarray(0, sizes[i % sizes.length]));
    }
    const size = (1_500 / sizes.length) * sizes.reduce((sum, each) => sum + each);
    await heldAtMost(2 * size);
    req.end();
    expect(await body).toBe('a'.repeat(size));
    await heldAtMost(size / 2);
    expect(req.complete).toBe(true);
  });
});
