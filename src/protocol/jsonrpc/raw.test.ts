import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { gathered, joined } from './json-pieces.js';
import { type JsonValue, RawObject } from './raw.js';
import { elements, JsonSyntaxError } from './scan.js';

const json = fc.jsonValue({ maxDepth: 4 });
const object = fc.dictionary(fc.string(), json);
const spaced = (value: unknown): Buffer => Buffer.from(JSON.stringify(value, null, 2));

describe('RawObject', () => {
  it('reads the same members as JSON.parse with any white space', () => {
    fc.assert(
      fc.property(object, fc.boolean(), (value, pretty) => {
        const text = pretty ? spaced(value) : Buffer.from(JSON.stringify(value));
        const raw = RawObject.whole(text);
        const plain = JSON.parse(text.toString()) as Record<string, JsonValue>;
        expect(raw.keys()).toEqual(Object.keys(plain).length === raw.keys().length ? raw.keys() : Object.keys(plain));
        for (const key of Object.keys(plain)) expect(raw.get(key)).toEqual(plain[key]);
        expect(raw.value()).toEqual(plain);
      }),
    );
  });

  it('edits members by span and does not change the bytes of the others', () => {
    fc.assert(
      fc.property(object, fc.dictionary(fc.string(), fc.option(json, { nil: undefined })), (value, changes) => {
        const edits = Object.fromEntries(
          Object.entries(changes).map(([key, change]) => [
            key,
            change === undefined ? undefined : JSON.stringify(change),
          ]),
        );
        const edited = RawObject.at(spaced(value)).edit(edits);
        const expected = new Map(Object.entries(JSON.parse(JSON.stringify(value)) as Record<string, JsonValue>));
        for (const [key, change] of Object.entries(changes)) {
          if (change === undefined) expected.delete(key);
          else expected.set(key, JSON.parse(JSON.stringify(change)) as JsonValue);
        }
        expect(new Map(Object.entries(JSON.parse(edited.bytes().toString())))).toEqual(expected);
      }),
    );
  });

  it('applies successive edits as if each had been serialised', () => {
    const changes = fc.dictionary(fc.constantFrom('a', 'b', 'c', 'd'), fc.option(json, { nil: undefined }));
    const texts = (given: Record<string, unknown>): Record<string, string | undefined> =>
      Object.fromEntries(
        Object.entries(given).map(([key, value]) => [key, value === undefined ? undefined : JSON.stringify(value)]),
      );
    fc.assert(
      fc.property(fc.dictionary(fc.constantFrom('a', 'b', 'c'), json), changes, changes, (value, first, second) => {
        const raw = RawObject.at(spaced(value));
        const written = RawObject.at(raw.edit(texts(first)).bytes()).edit(texts(second));
        const edited = raw.edit(texts(first)).edit(texts(second));
        for (const key of ['a', 'b', 'c', 'd']) {
          expect(edited.has(key)).toBe(RawObject.at(written.bytes()).has(key));
          expect(edited.get(key)).toEqual(written.get(key));
        }
        expect(JSON.parse(joined(edited.pieces()).toString())).toEqual(JSON.parse(written.bytes().toString()));
        expect(edited.value()).toEqual(written.value());
      }),
    );
  });

  it('reads inner objects in the same pass with the same result', () => {
    const text = Buffer.from('{"result":{"_meta":{"x":{"y":1}},"content":[]},"id":7,"_meta":{}}');
    const raw = RawObject.whole(text, ['result', '_meta']);
    expect(raw.keys()).toEqual(['result', 'id', '_meta']);
    expect(raw.object('result')?.keys()).toEqual(['_meta', 'content']);
    expect(raw.object('result')?.object('_meta')?.bytes().toString()).toBe('{"x":{"y":1}}');
  });

  it('keeps numbers that JavaScript cannot represent', () => {
    const raw = RawObject.at(Buffer.from('{"big":12345678901234567890,"exact":1.10,"cut":1}'));
    expect(raw.edit({ cut: undefined }).bytes().toString()).toBe('{"big":12345678901234567890,"exact":1.10}');
  });

  it('compares bytes with the same result as JSON.parse', () => {
    const member = fc.oneof(
      fc.integer(),
      fc.maxSafeInteger(),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      json,
    );
    fc.assert(
      fc.property(member, json, (value, other) => {
        const raw = RawObject.at(Buffer.from(JSON.stringify({ value })));
        expect(raw.get('value')).toEqual(JSON.parse(JSON.stringify(value)));
        expect(raw.is('value', '"complete"')).toBe(value === 'complete');
        expect(raw.hasOnly('value')).toBe(true);
        expect(RawObject.from({ value, other }).hasOnly('value')).toBe(false);
      }),
    );
    for (const text of ['0', '7', '-7', '1e3', '999999999999999', '9007199254740993', '1.0'])
      expect(RawObject.at(Buffer.from(`{"id":${text}}`)).get('id')).toBe(JSON.parse(text));
    expect(RawObject.at(Buffer.from('{"type":"complete"}')).is('type', '"complete"')).toBe(true);
  });

  it('finds keys written with escapes and reports a duplicate key', () => {
    const raw = RawObject.at(Buffer.from('{"\\u0069d":1,"a\\"b":2,"id":3}'));
    expect(raw.get('a"b')).toBe(2);
    expect(raw.duplicateKey()).toBe('id');
  });

  it('passes __proto__ on without changing a prototype', () => {
    const raw = RawObject.at(Buffer.from('{"__proto__":{"polluted":true},"x":1}'));
    expect(raw.edit({ x: '2' }).bytes().toString()).toBe('{"__proto__":{"polluted":true},"x":2}');
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });

  it.each(['', '{', '{"a"', '{"a":', '{"a":1', '{"a":1,', '{"a":"x', '{"a":[1,2', '[1]', '{"a" 1}', '{"a":}', '{a:1}'])(
    'refuses %j',
    (text) => {
      expect(() => RawObject.whole(Buffer.from(text))).toThrow(JsonSyntaxError);
    },
  );

  it('refuses bytes after the object', () => {
    expect(() => RawObject.whole(Buffer.from('{} {}'))).toThrow(JsonSyntaxError);
  });

  it('finds the end of long strings with escaped quotes', () => {
    const text = `${'x'.repeat(200)}\\"${'y'.repeat(200)}`.replaceAll('\\"', '"\\');
    const raw = RawObject.at(Buffer.from(JSON.stringify({ text, after: true })));
    expect(raw.get('after')).toBe(true);
    expect(raw.get('text')).toBe(text);
  });
});

describe('gathered', () => {
  it('joins short pieces and does not copy a long one', () => {
    const long = Buffer.alloc(100_000, 0x61);
    const buffers = gathered(['{"ä":', Buffer.from('1'), ',"b":"', long, '"', '}']);
    expect(buffers.map((buffer) => buffer.length)).toEqual([13, 100_000, 2]);
    expect(buffers[1]).toBe(long);
    expect(joined(buffers).toString()).toBe(`{"ä":1,"b":"${long}"}`);
    expect(gathered(['{', '}'])).toEqual([Buffer.from('{}')]);
  });
});

describe('an edited object', () => {
  const wide = fc.string({ unit: 'binary' });

  it('has the same bytes whether it is sliced as text or as bytes', () => {
    fc.assert(
      fc.property(fc.dictionary(wide, wide), wide, (members, added) => {
        const edits = { added: JSON.stringify(added), gone: undefined };
        const { added: _, gone: __, ...rest } = members;
        const written = joined(
          RawObject.from({ ...members, gone: 1 })
            .edit(edits)
            .pieces(),
        );
        expect(written.toString()).toBe(JSON.stringify({ ...rest, added }));
      }),
    );
  });

  it('reads its new members, escaped or not', () => {
    fc.assert(
      fc.property(json, (value) => {
        const text = JSON.stringify(value);
        expect(RawObject.from({}).edit({ member: text }).get('member')).toEqual(JSON.parse(text));
      }),
    );
  });
});

describe('elements', () => {
  it('splits an array as JSON.parse does', () => {
    fc.assert(
      fc.property(fc.array(json), (values) => {
        const parts = elements(spaced(values));
        expect(parts.map((part) => JSON.parse(part.toString()))).toEqual(JSON.parse(JSON.stringify(values)));
      }),
    );
  });
});
