import { expect, test } from 'vitest';
import type { Part } from '../a2a/model.js';
import { contentOf, partsOf, textOf } from './parts-and-content.js';

const PLACE = { agent: 'planner', task: 't 1', artifact: 'a' };

test.each<[string, Part, object]>([
  ['text', { text: 'hello' }, { type: 'text', text: 'hello' }],
  ['an image', { raw: 'AAAA', mediaType: 'image/png' }, { type: 'image', data: 'AAAA', mimeType: 'image/png' }],
  ['audio', { raw: 'AAAA', mediaType: 'audio/wav' }, { type: 'audio', data: 'AAAA', mimeType: 'audio/wav' }],
  [
    'a text file',
    { raw: Buffer.from('hé').toString('base64'), mediaType: 'text/csv' },
    { type: 'resource', resource: { uri: 'a2a://planner/t%201/a/0', mimeType: 'text/csv', text: 'hé' } },
  ],
  [
    'a text file that is not text',
    { raw: '/w==', mediaType: 'text/plain' },
    { type: 'resource', resource: { uri: 'a2a://planner/t%201/a/0', mimeType: 'text/plain', blob: '/w==' } },
  ],
  ['any other file', { raw: 'AAAA' }, { type: 'resource', resource: { uri: 'a2a://planner/t%201/a/0', blob: 'AAAA' } }],
  [
    'a link',
    { url: 'https://x.example/a/report.pdf?v=1', mediaType: 'application/pdf' },
    {
      type: 'resource_link',
      uri: 'https://x.example/a/report.pdf?v=1',
      name: 'report.pdf',
      mimeType: 'application/pdf',
    },
  ],
  ['data', { data: { a: 1 } }, { type: 'text', text: '{"a":1}' }],
  ['data that is null', { data: null }, { type: 'text', text: 'null' }],
])('translates an agent’s part: %s', (_, part, content) => {
  expect(contentOf([part], PLACE)).toEqual([content]);
});

test('structured content comes first, and its copy in text is left out', () => {
  const result = {
    structuredContent: { a: 1 },
    content: [
      { type: 'text', text: '{ "a": 1 }' },
      { type: 'text', text: 'more' },
    ],
  };
  expect(partsOf(result)).toEqual([{ data: { a: 1 }, mediaType: 'application/json' }, { text: 'more' }]);
});

test.each([
  [
    { type: 'image', data: 'AAAA', mimeType: 'image/png' },
    { raw: 'AAAA', mediaType: 'image/png' },
  ],
  [
    { type: 'resource_link', uri: 'x://y', name: 'y' },
    { url: 'x://y', filename: 'y' },
  ],
  [
    { type: 'resource', resource: { uri: 'file:///a/b.txt', text: 'hi' } },
    { text: 'hi', filename: 'b.txt' },
  ],
  [
    { type: 'resource', resource: { uri: 'file:///a/b.bin', blob: 'AAAA' } },
    { raw: 'AAAA', filename: 'b.bin' },
  ],
  [{ type: 'hologram', x: 1 }, { data: { type: 'hologram', x: 1 } }],
])('translates a tool’s content %j', (block, part) => {
  expect(partsOf({ content: [block] })).toEqual([part]);
});

test('the text of parts', () => {
  expect(textOf([{ text: 'a' }, { data: 1 }, { text: 'b' }])).toBe('a\nb');
  expect(textOf(undefined)).toBe('');
});
