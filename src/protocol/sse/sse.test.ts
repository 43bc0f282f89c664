import { createParser } from 'eventsource-parser';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { bytesHeld } from '../../../test/support/heap.js';
import { type SseEvent, SseOverflow, SseReader } from './reader.js';
import { writeEvent, writePriming } from './writer.js';

function read(chunks: Buffer[], limit = 1 << 20): { events: SseEvent[]; retries: number[] } {
  const events: SseEvent[] = [];
  const retries: number[] = [];
  const reader = new SseReader({ event: (event) => events.push(event), retry: (ms) => retries.push(ms) }, limit);
  for (const chunk of chunks) reader.push(chunk);
  return { events, retries };
}

function cut(text: Buffer, cuts: number[]): Buffer[] {
  const points = [...new Set(cuts.map((point) => point % (text.length + 1)))].sort((a, b) => a - b);
  const chunks: Buffer[] = [];
  let from = 0;
  for (const point of [...points, text.length]) {
    chunks.push(text.subarray(from, point));
    from = point;
  }
  return chunks;
}

const line = fc.oneof(
  fc.constantFrom(
    '',
    ': comment',
    'event: x',
    'data: one',
    'data:two',
    'data',
    'id: 7',
    'retry: 10',
    'retry: x',
    'other: y',
  ),
  fc.string({ unit: 'grapheme' }).map((text) => `data: ${text.replaceAll(/[\r\n\0]/g, '')}`),
);

describe('SseReader', () => {
  it('agrees with eventsource-parser on any stream with any chunks and line endings', () => {
    fc.assert(
      fc.property(fc.array(line), fc.constantFrom('\n', '\r\n', '\r'), fc.array(fc.nat()), (lines, ending, cuts) => {
        const text = Buffer.from(`${lines.join(ending)}${ending}${ending}x${ending}`);
        const expected: { event: string; data: string }[] = [];
        const oracle = createParser({ onEvent: (e) => expected.push({ event: e.event ?? 'message', data: e.data }) });
        oracle.feed(text.toString());
        const { events } = read(cut(text, cuts));
        const withData = events.filter((event) => event.data.length > 0);
        expect(withData.map((e) => ({ event: e.event, data: e.data.toString() }))).toEqual(
          expected.filter((event) => event.data.length > 0),
        );
      }),
    );
  });

  it('reads the events that the writer wrote, including the priming event', () => {
    const data = [Buffer.from('{"a":'), Buffer.from('1}')];
    const { events, retries } = read([Buffer.from(writePriming('s.0', 500)), ...writeEvent(data, { id: 's.1' })]);
    expect(events.map((e) => [e.id, e.data.toString()])).toEqual([
      ['s.0', ''],
      ['s.1', '{"a":1}'],
    ]);
    expect(retries).toEqual([500]);
  });

  it('refuses a line that never ends and an event of too many lines', () => {
    const endless = Array.from({ length: 20 }, () => Buffer.alloc(100, 0x61));
    expect(() => read(endless, 1000)).toThrow(SseOverflow);
    expect(() => read([Buffer.from('data: 0123456789\n'.repeat(100))], 1000)).toThrow(SseOverflow);
  });

  it('uses little more memory than its bytes for a line that arrives byte by byte', () => {
    const size = 500_000;
    const events: SseEvent[] = [];
    const reader = new SseReader({ event: (event) => events.push(event) }, 1 << 20);
    const empty = bytesHeld();
    for (const byte of 'data: ') reader.push(Buffer.from(byte));
    for (let i = 0; i < size; i++) reader.push(Buffer.from('x'));
    expect(bytesHeld() - empty).toBeLessThan(40 * size);
    reader.push(Buffer.from('\n\n'));
    expect(events.map(({ data }) => data.toString())).toEqual(['x'.repeat(size)]);
  });
});
