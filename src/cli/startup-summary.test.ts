import { describe, expect, test } from 'vitest';
import type { Summary, UpstreamRow } from '../app/running-gateway.js';
import { PLAIN } from '../telemetry/terminal-style.js';
import { summaryText, upstreamTable } from './startup-summary.js';

const ROWS: readonly UpstreamRow[] = [
  { kind: 'server', name: 'weather', state: 'up', count: 12, took: 1_234 },
  { kind: 'server', name: 'fs', state: 'up', count: 1, took: 80.4 },
  { kind: 'server', name: 'slow', state: 'starting' },
  {
    kind: 'server',
    name: 'gone',
    state: 'down',
    took: 5,
    problem: 'Server "gone" cannot be reached: connection refused at http://127.0.0.1:9/mcp; start the server there',
  },
];

describe('the table', () => {
  test('has one row per server, with its problem at the end of the row', () => {
    expect(upstreamTable(ROWS, PLAIN)).toBe(
      [
        '  weather  up        12 tools  1.2 s',
        '  fs       up          1 tool  80 ms',
        '  slow     starting',
        '  gone     down                       cannot be reached: connection refused at http://127.0.0.1:9/mcp; start the server there',
      ].join('\n'),
    );
  });

  test('wraps a problem at the end of the line', () => {
    const lines = upstreamTable(ROWS, { width: 80, color: false }).split('\n');
    expect(lines.slice(3)).toEqual([
      '  gone     down                       cannot be reached: connection refused at',
      '                                      http://127.0.0.1:9/mcp; start the server',
      '                                      there',
    ]);
  });

  test('puts a problem below its row on a narrow terminal, and no line exceeds the width', () => {
    const text = upstreamTable(ROWS, { width: 40, color: false });
    expect(text).toContain('  gone     down\n      cannot be reached: connection\n      refused at');
    for (const line of text.split('\n')) expect(line.length).toBeLessThanOrEqual(40);
  });

  test('truncates a long problem and removes control characters', () => {
    const problem = `it ended:\n${'line \u001b[31m of output\n'.repeat(100)}`;
    const text = upstreamTable([{ kind: 'server', name: 'loud', state: 'down', problem }], PLAIN);
    expect(text.split('\n')).toHaveLength(8);
    expect(text).toMatch(/\.\.\.$/);
    expect(text).not.toContain('\u001b');
  });

  test('colors states only', () => {
    const [row] = upstreamTable(ROWS, { width: 80, color: true }).split('\n');
    expect(row).toBe('  weather  \u001b[32mup      \u001b[0m  12 tools  1.2 s');
  });
});

describe('the summary', () => {
  const summary: Summary = {
    upstreams: [ROWS[0]!, { kind: 'agent', name: 'planner', state: 'up', count: 1, took: 300 }],
    endpoints: [
      { label: 'MCP', address: 'http://127.0.0.1:4600/mcp' },
      { label: 'A2A gRPC', address: '127.0.0.1:4601' },
    ],
    paste: [{ title: 'Claude Code', text: 'claude mcp add --transport http parley http://127.0.0.1:4600/mcp' }],
    page: 'http://127.0.0.1:4600/',
  };

  test('shows servers, endpoints and snippets', () => {
    expect(summaryText(summary, PLAIN)).toBe(`
Servers
  weather  up  12 tools  1.2 s

Agents
  planner  up  1 skill  300 ms

Endpoints
  MCP       http://127.0.0.1:4600/mcp
  A2A gRPC  127.0.0.1:4601

Paste into a client
  Claude Code  claude mcp add --transport http parley http://127.0.0.1:4600/mcp
  For other clients open http://127.0.0.1:4600/ in a browser.
`);
  });

  test('does not link to a page that needs a token, and reports that there are no servers', () => {
    const text = summaryText({ ...summary, upstreams: [], page: undefined }, PLAIN);
    expect(text).toContain('\nThere are no servers.\n');
    expect(text).toContain('  For other clients see docs/clients.md.\n');
    expect(text).not.toContain('Agents');
  });

  test('has ASCII characters only', () => {
    expect(summaryText(summary, { width: 60, color: false })).toMatch(/^[\n\x20-\x7e]*$/);
  });
});
