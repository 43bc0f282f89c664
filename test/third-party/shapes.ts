/** Snippets for programs that cannot run here: compares their configuration with the format of the program. */
import { clientSnippets, type SnippetId } from '../../src/inbound/mcp/client-snippets.js';
import type { Score } from './score.js';

const URL_OF = 'http://127.0.0.1:4600/mcp';
const TOKEN = 'a-token';
const HEADERS = { Authorization: `Bearer ${TOKEN}` };

/** The configuration of each program, according to its documentation. */
const EXPECTED: Partial<Record<SnippetId, (headers: object) => object>> = {
  cursor: (headers) => ({ mcpServers: { parley: { url: URL_OF, ...headers } } }),
  vscode: (headers) => ({ servers: { parley: { type: 'http', url: URL_OF, ...headers } } }),
  windsurf: (headers) => ({ mcpServers: { parley: { serverUrl: URL_OF, ...headers } } }),
};

export function shapes(score: Score): void {
  for (const [token, headers] of [
    [undefined, {}],
    [TOKEN, { headers: HEADERS }],
  ] as const) {
    for (const { id, title, text } of clientSnippets(URL_OF, token === undefined ? {} : { token })) {
      const expected = EXPECTED[id]?.(headers);
      if (!expected) continue;
      const what = `the snippet for ${title}${token === undefined ? '' : ' with a token'} has the keys it reads`;
      const found = JSON.stringify(JSON.parse(text));
      if (found === JSON.stringify(expected)) score.pass(what);
      else score.fail(what, found);
    }
  }
}
