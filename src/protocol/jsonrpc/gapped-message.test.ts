import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { GappedReader, type GappedText } from './gapped-message.js';
import { joined } from './json-pieces.js';
import { readReplies } from './message.js';
import type { RawObject } from './raw.js';

/** Cuts a text into parts at these offsets. */
function cut(text: string, at: readonly number[]): Buffer[] {
  const bytes = Buffer.from(text);
  const cuts = [...new Set(at.map((each) => each % bytes.length))].sort((a, b) => a - b);
  return [0, ...cuts]
    .map((from, i) => bytes.subarray(from, cuts[i] ?? bytes.length))
    .filter(({ length }) => length > 0);
}

function read(parts: readonly Buffer[], leastGap = 1) {
  const reader = new GappedReader(leastGap);
  for (const part of parts) reader.add(part);
  return reader.take();
}

function resultOf(text: string, at: readonly number[]): RawObject {
  const [message] = readReplies(read(cut(text, at)));
  if (message?.kind !== 'response' || !message.result) throw new Error('no result');
  return message.result;
}

const texts = fc.oneof(
  fc.string({ maxLength: 40 }),
  fc.constantFrom('\\', '"', '\\"', '\\\\"', '{', '}', ',', ':', 'é'),
);
const values = fc.jsonValue({ depthSize: 'small' });
const results = fc.record({
  content: fc.array(fc.record({ type: fc.constant('text'), text: fc.array(texts).map((all) => all.join('')) })),
  resultType: fc.constantFrom('complete', 'task'),
  _meta: fc.dictionary(texts, values),
  other: values,
});
const cuts = fc.array(fc.nat(2_000), { maxLength: 12 });
const spaces = fc.constantFrom(undefined, 1, '\t');

describe('a message in parts, cut at any offsets', () => {
  test('reads as the same message', () => {
    fc.assert(
      fc.property(results, cuts, spaces, (result, at, space) => {
        const text = JSON.stringify({ jsonrpc: '2.0', id: 7, result }, undefined, space);
        const found = resultOf(text, at);
        expect(found.value()).toEqual(JSON.parse(JSON.stringify(result)));
        expect(found.bytes().toString()).toBe(joined(found.pieces()).toString());
        for (const [key, value] of Object.entries(result)) {
          expect(found.has(key)).toBe(true);
          expect(found.get(key)).toEqual(JSON.parse(JSON.stringify(value)));
          expect(JSON.parse(found.raw(key)!.toString())).toEqual(JSON.parse(JSON.stringify(value)));
        }
        expect(found.object('_meta')!.value()).toEqual(JSON.parse(JSON.stringify(result._meta)));
        expect(found.startsWith('content', '[')).toBe(true);
      }),
      { numRuns: 500 },
    );
  });

  test('is edited like a whole message', () => {
    fc.assert(
      fc.property(results, cuts, (result, at) => {
        const text = JSON.stringify({ jsonrpc: '2.0', id: 'a', result });
        const edits = { resultType: undefined, _meta: '{"a":1}', added: '"new"' };
        expect(joined(resultOf(text, at).edit(edits).pieces()).toString()).toBe(
          joined(resultOf(text, []).edit(edits).pieces()).toString(),
        );
      }),
    );
  });

  test('contains the same words as the whole message', () => {
    fc.assert(
      fc.property(results, cuts, (result, at) => {
        const text = JSON.stringify({ jsonrpc: '2.0', id: 1, result });
        for (const word of ['"text"', '"icons"', 'é', '\\\\'])
          expect(resultOf(text, at).mentions('content', Buffer.from(word))).toBe(
            resultOf(text, []).mentions('content', Buffer.from(word)),
          );
      }),
    );
  });

  test('is refused if the whole message is', () => {
    for (const broken of ['{"jsonrpc":"2.0","id":1,"result":{"content":["a"', '{"result":{}', '{"a":1}x', '[', '"'])
      for (let at = 0; at < broken.length; at++) expect(() => readReplies(read(cut(broken, [at])))).toThrow();
  });

  test('is refused if a member has several values or none', () => {
    const long = JSON.stringify('x'.repeat(5_000));
    for (const value of [`${long} 1`, `${long}"x"`, '1 2', '[1] [2]', '', `${long},`, `[${long}] x`]) {
      const text = `{"jsonrpc":"2.0","id":1,"result":{"a":${value}}}`;
      expect(() => readReplies(Buffer.from(text))).toThrow();
      for (const at of [40, 41, 42, 100, text.length - 4, text.length - 3])
        expect(() => readReplies(read(cut(text, [at])))).toThrow();
    }
  });

  test('may be a notification, an error or a batch', () => {
    const messages = [
      { jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info', data: 'a "quoted" word' } },
      { jsonrpc: '2.0', id: 3, error: { code: -32000, message: 'failed', data: { why: ['x'] } } },
    ];
    for (const value of [...messages, messages]) {
      const text = JSON.stringify(value);
      const whole = readReplies(Buffer.from(text)).map(plain);
      for (let at = 1; at < text.length; at++)
        expect(readReplies(read(cut(text, [at, at + 9]))).map(plain)).toEqual(whole);
    }
  });
});

const plain = (message: ReturnType<typeof readReplies>[number]) =>
  message.kind === 'response'
    ? { ...message, result: message.result?.value() }
    : { ...message, params: message.params.value() };

test('long values stay in the parts they arrived in', () => {
  const long = 'x'.repeat(200_000);
  const parts = cut(
    JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      result: { content: [{ type: 'text', text: long }], resultType: 'complete' },
    }),
    [65_536, 131_072, 196_608],
  );
  const { text, gaps } = read(parts) as GappedText;
  expect(text.length).toBeLessThan(200);
  expect(gaps).toHaveLength(1);
  expect(gaps[0]!.parts.map(({ buffer }) => buffer)).toEqual(gaps[0]!.parts.map(() => parts[0]!.buffer));
});

test('many tiny parts do not need one object each', () => {
  const text = JSON.stringify({ jsonrpc: '2.0', id: 1, result: { content: 'y'.repeat(50_000) } });
  const first = 10_000;
  const every = Array.from({ length: text.length - first }, (_, i) => first + i);
  const { gaps } = read(cut(text, every)) as GappedText;
  expect(gaps[0]!.parts.length).toBeLessThan(20);
});

test('short values stay in the text, even if many of them are cut', () => {
  const result = Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`k${i}`, i]));
  const text = JSON.stringify({ jsonrpc: '2.0', id: 1, result });
  const every = Array.from({ length: text.length }, (_, i) => i);
  const reader = new GappedReader();
  for (const part of cut(text, every)) reader.add(part);
  expect(Buffer.isBuffer(reader.take())).toBe(true);
});
