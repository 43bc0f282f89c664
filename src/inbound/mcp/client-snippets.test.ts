import { describe, expect, test } from 'vitest';
import { type ClientSnippet, clientSnippets, type SnippetId, TOKEN_PLACEHOLDER } from './client-snippets.js';

const URL_TEXT = 'http://127.0.0.1:4600/mcp';

const snippet = (id: SnippetId, snippets: readonly ClientSnippet[]): ClientSnippet =>
  snippets.find((candidate) => candidate.id === id)!;

describe.each([
  ['open', undefined],
  ['with a token', TOKEN_PLACEHOLDER],
])('%s', (_, token) => {
  const snippets = clientSnippets(URL_TEXT, token === undefined ? {} : { token });

  test('every snippet has its own id and names the endpoint', () => {
    expect(new Set(snippets.map(({ id }) => id)).size).toBe(snippets.length);
    for (const { text } of snippets) expect(text).toContain(URL_TEXT);
  });

  test('every snippet contains a token if the gateway requires one, and none otherwise', () => {
    for (const { text } of snippets) {
      expect(text.includes(`Bearer ${TOKEN_PLACEHOLDER}`)).toBe(token !== undefined);
      expect(text.includes('Authorization')).toBe(token !== undefined);
    }
  });

  test('a snippet for a file is JSON and names the file; a program names its library', () => {
    for (const { language, text, file, install } of snippets) {
      if (language === 'json') {
        expect(Object.keys(JSON.parse(text))).toHaveLength(1);
        expect(file).toMatch(/\.json$/);
      } else if (language !== 'sh') expect(install).toMatch(/^(pip|npm) install /);
    }
  });
});

test('each editor gets the key it reads', () => {
  const snippets = clientSnippets(URL_TEXT);
  const read = (id: SnippetId): unknown => JSON.parse(snippet(id, snippets).text);
  expect(read('cursor')).toEqual({ mcpServers: { parley: { url: URL_TEXT } } });
  expect(read('vscode')).toEqual({ servers: { parley: { type: 'http', url: URL_TEXT } } });
  expect(read('windsurf')).toEqual({ mcpServers: { parley: { serverUrl: URL_TEXT } } });
});

test('Claude Desktop gets the flag for plain HTTP only if its command would refuse the URL', () => {
  const args = (url: string): string[] =>
    JSON.parse(snippet('claude-desktop', clientSnippets(url)).text).mcpServers.parley.args;
  expect(args(URL_TEXT)).not.toContain('--allow-http');
  expect(args('https://tools.example.com/mcp')).not.toContain('--allow-http');
  expect(args('http://10.0.0.7:4600/mcp')).toContain('--allow-http');
});

test('a URL cannot break out of its quotes', () => {
  const url = `http://127.0.0.1/mcp?a='b'&c=$(d)"e"`;
  const texts = clientSnippets(url);
  expect(snippet('claude-code', texts).text).toContain(`'http://127.0.0.1/mcp?a='\\''b'\\''&c=$(d)"e"'`);
  expect(snippet('vercel-ai', texts).text).toContain(String.raw`'http://127.0.0.1/mcp?a=\'b\'&c=$(d)"e"'`);
  expect(snippet('python-sdk', texts).text).toContain(String.raw`"http://127.0.0.1/mcp?a='b'&c=$(d)\"e\""`);
});
