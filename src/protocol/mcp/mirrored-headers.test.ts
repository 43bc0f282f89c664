import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  decodeHeaderValue,
  encodeHeaderValue,
  mirroredParams,
  paramHeaders,
  paramMismatch,
} from './mirrored-headers.js';

describe('HDR-04, HDR-07: header values', () => {
  it('any value survives encoding and decoding', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (text) => {
        const encoded = encodeHeaderValue(text);
        expect(encoded).toMatch(/^[\x20-\x7e\t]*$/);
        expect(decodeHeaderValue(encoded)).toBe(text);
      }),
    );
  });

  it.each(['=?base64?%%%?=', '=?base64?YQ?=', '=?base64?/w==?='])('refuses the broken encoding %s', (text) => {
    expect(decodeHeaderValue(text)).toBeUndefined();
  });

  it('does not decode a value that only looks encoded', () => {
    expect(decodeHeaderValue('=?BASE64?YQ==?=')).toBe('=?BASE64?YQ==?=');
    expect(decodeHeaderValue(' =?base64?YQ== ')).toBe('=?base64?YQ==');
  });
});

const schema = (properties: object): object => ({ type: 'object', properties });

describe('XMH: arguments mirrored in headers', () => {
  it('reads annotations in properties and nested properties', () => {
    const found = mirroredParams(
      schema({
        region: { type: 'string', 'x-mcp-header': 'Region' },
        opts: schema({ deep: { type: 'integer', 'x-mcp-header': 'Deep' } }),
      }) as never,
    );
    expect(found).toEqual({
      params: [
        { header: 'Region', path: ['region'], type: 'string' },
        { header: 'Deep', path: ['opts', 'deep'], type: 'integer' },
      ],
    });
  });

  it.each([
    ['a number', schema({ a: { type: 'number', 'x-mcp-header': 'A' } })],
    ['an empty name', schema({ a: { type: 'string', 'x-mcp-header': '' } })],
    ['a name that is not a token', schema({ a: { type: 'string', 'x-mcp-header': 'a b' } })],
    [
      'two equal names',
      schema({ a: { type: 'string', 'x-mcp-header': 'X' }, b: { type: 'string', 'x-mcp-header': 'x' } }),
    ],
    ['an annotation below items', schema({ a: { type: 'array', items: { type: 'string', 'x-mcp-header': 'A' } } })],
    ['an annotation below anyOf', schema({ a: { anyOf: [{ type: 'string', 'x-mcp-header': 'A' }] } })],
  ])('refuses %s', (_, bad) => {
    expect(mirroredParams(bad as never)).toHaveProperty('invalid');
  });

  it('accepts the headers it writes, and reports differences', () => {
    const { params } = mirroredParams(
      schema({
        s: { type: 'string', 'x-mcp-header': 'S' },
        n: { type: 'integer', 'x-mcp-header': 'N' },
        b: { type: 'boolean', 'x-mcp-header': 'B' },
      }) as never,
    ) as { params: Parameters<typeof paramHeaders>[0] };
    const args = { s: 'grün', n: 7, b: false };
    const pairs = paramHeaders(params, args);
    const sent = new Map<string, string>();
    for (let i = 0; i < pairs.length; i += 2) sent.set(pairs[i]!.toLowerCase(), pairs[i + 1]!);
    const look = (name: string): string | undefined => sent.get(name);
    expect(paramMismatch(params, args, look)).toBeUndefined();
    sent.set('mcp-param-n', '007');
    expect(paramMismatch(params, args, look)).toBeUndefined();
    sent.set('mcp-param-n', '8');
    expect(paramMismatch(params, args, look)).toMatch('differs');
    sent.delete('mcp-param-n');
    expect(paramMismatch(params, args, look)).toMatch('missing');
    expect(paramMismatch(params, { s: 'grün', b: false, n: null }, look)).toBeUndefined();
  });
});
