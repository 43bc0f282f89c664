import { expect, test } from 'vitest';
import { jsonMember, removeJsonMember, setJsonMember } from './json-edit.js';

const PATH = ['mcpServers', 'parley'];
const ENTRY = { url: 'http://127.0.0.1:4600/mcp' };

const FILES: Readonly<Record<string, string>> = {
  'two spaces': '{\n  "mcpServers": {\n    "other": { "command": "x" }\n  },\n  "theme": "dark"\n}\n',
  'tabs and CRLF': '{\r\n\t"mcpServers": {\r\n\t\t"other": {\r\n\t\t\t"command": "x"\r\n\t\t}\r\n\t}\r\n}\r\n',
  'comments and trailing commas':
    '{\n  // mine\n  "mcpServers": {\n    "other": { "command": "x", }, // keep\n  },\n}\n',
  'one line': '{"mcpServers":{"other":{"command":"x"}}}',
  'strings with brackets': '{\n  "note": "} , { \\" // no comment",\n  "mcpServers": {\n    "a": {}\n  }\n}\n',
};

test.each(Object.entries(FILES))('adds and takes back a member without any other change: %s', (_, text) => {
  const added = setJsonMember(text, PATH, ENTRY);
  expect(jsonMember(added, PATH)).toEqual(ENTRY);
  expect(setJsonMember(added, PATH, ENTRY)).toBe(added);
  expect(removeJsonMember(added, PATH)).toBe(text);
});

test('creates missing maps, in an empty file too', () => {
  expect(JSON.parse(setJsonMember('', PATH, ENTRY))).toEqual({ mcpServers: { parley: ENTRY } });
  expect(JSON.parse(setJsonMember('{"a":1}', PATH, ENTRY))).toEqual({ a: 1, mcpServers: { parley: ENTRY } });
  expect(setJsonMember('{\n  "mcpServers": {}\n}\n', PATH, 1)).toBe('{\n  "mcpServers": {\n    "parley": 1\n  }\n}\n');
});

test('removes the first, the middle and the only member', () => {
  const text = '{\n  "a": 1,\n  "b": 2, // two\n  "c": 3\n}\n';
  expect(removeJsonMember(text, ['a'])).toBe('{\n  "b": 2, // two\n  "c": 3\n}\n');
  expect(JSON.parse(removeJsonMember(text, ['b']).replace('// two', ''))).toEqual({ a: 1, c: 3 });
  expect(removeJsonMember(text, ['c'])).toBe('{\n  "a": 1,\n  "b": 2 // two\n}\n');
  expect(removeJsonMember('{ "a": 1 }', ['a'])).toBe('{}');
  expect(removeJsonMember(text, ['x', 'y'])).toBe(text);
});

test('replaces a value and keeps the rest', () => {
  expect(setJsonMember('{ "a": [1, { "b": "]" }], "c": 2 }', ['a'], true)).toBe('{ "a": true, "c": 2 }');
});

test.each(['[1]', '{ "a": ', '{ a: 1 }', '{ "a" 1 }', '{ "a": 1 "b": 2 }', '{} x', '{ "a": "x\n" }'])(
  'refuses what is not a JSON object: %s',
  (text) => {
    expect(() => setJsonMember(text, ['b'], 1)).toThrow(SyntaxError);
  },
);

test('refuses to replace a value by a map', () => {
  expect(() => setJsonMember('{ "mcpServers": [] }', PATH, ENTRY)).toThrow('mcpServers is not a map');
});

test('a comment at the end of a line stays with its member', () => {
  const text = '{\n  "a": 1 // one\n}\n';
  const added = setJsonMember(text, ['b'], 2);
  expect(added).toBe('{\n  "a": 1, // one\n  "b": 2\n}\n');
  expect(removeJsonMember(added, ['b'])).toBe(text);
});
