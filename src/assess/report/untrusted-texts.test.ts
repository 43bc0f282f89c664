/** Texts of servers, clients and files in reports: nothing in them obeys, links, hides or shows a credential. */
import { expect, it } from 'vitest';
import { assessFixture } from '../../../test/fixtures/assess/assess-fixture.js';
import type { Fault, Json } from '../../../test/fixtures/assess/mcp-server.js';
import { NEWEST_LEGACY } from '../../protocol/mcp/revisions/index.js';
import { clientReport } from '../client/client-report.js';
import { Transcript } from '../client/transcript.js';
import { profileOf } from '../profiles.js';
import type { Report } from './model.js';
import { FORMATS, render } from './render.js';

const TOKEN = 'secret-token-of-the-caller';
const HOSTILE = `|\\|<img src=x onerror=alert(1)>[link](javascript:x)![pixel](//evil/p.png)\`code\`\u001b[2J\u009b2J\u202egnp.exe ${TOKEN} `;
const OBEYED = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/;

/** A server whose texts are hostile wherever a reason or a request and its response quotes them. */
const fault: Fault = {
  row: '',
  message: (out) =>
    out.map((each) => {
      const { error, result } = each as { error?: Json; result?: Json };
      if (error) error['message'] = HOSTILE;
      for (const tool of (result?.['tools'] ?? []) as Json[]) {
        tool['name'] = `${String(tool['name'])}${HOSTILE}`;
        tool['inputSchema'] = { type: HOSTILE };
      }
      if (result?.['cacheScope']) result['cacheScope'] = HOSTILE;
      return each;
    }),
};

function expectHarmless(report: Report): void {
  for (const format of FORMATS) {
    const text = render(report, format);
    expect(text, format).not.toContain(TOKEN);
    expect(text, format).not.toMatch(OBEYED);
    if (format === 'html' || format === 'markdown') expect(text, format).not.toMatch(/<img/i);
    if (format === 'markdown') expect(text).not.toMatch(/(?<!\\)\]\((javascript|\/\/evil)/);
  }
  // Every row of a Markdown table has the cells of its head.
  const cells = (line: string): number => line.replace(/\\./g, '').split('|').length;
  const rows = render(report, 'markdown')
    .split('\n')
    .filter((line) => /^\| P\d/.test(line));
  expect(rows.map(cells).filter((count) => count !== 7)).toEqual([]);
}

for (const letter of ['D', 'E'])
  it(`hostile texts of a server of revision ${letter} do not act in any format`, async () => {
    const report = await assessFixture(letter, 'http', fault, { token: TOKEN });
    const reasons = report.sections.flatMap(({ checks }) => checks.map(({ reason }) => reason ?? ''));
    expect(reasons.some((each) => each.includes('onerror'))).toBe(true);
    expect(reasons.every((each) => each.length <= 301)).toBe(true);
    expectHarmless(report);
  });

it('a reason shows no part of a credential, also where it is cut', async () => {
  for (const length of [200, 262, 270, 4_070, 9_000]) {
    const lie: Fault = {
      row: '',
      message: (out) =>
        out.map((each) => {
          const tools = ((each['result'] as Json | undefined)?.['tools'] ?? []) as Json[];
          for (const tool of tools) Object.assign(tool, { name: `${'x'.repeat(length)}${TOKEN}`, inputSchema: 1 });
          return each;
        }),
    };
    const report = await assessFixture('D', 'http', lie, { token: TOKEN });
    expect(JSON.stringify(report)).not.toContain('secret-t');
  }
});

it('the query of a target, which may hold a key, is in no report', async () => {
  const target = { kind: 'url', url: new URL('http://localhost/mcp?api_key=query-key-of-the-caller') } as const;
  const report = await assessFixture('D', 'http', fault, {}, { target });
  for (const format of FORMATS) expect(render(report, format)).not.toContain('query-key-of-the-caller');
});

it('the name and the methods of a client do not act in any format', () => {
  const transcript = new Transcript('stdio');
  const params = {
    protocolVersion: '2025-11-25',
    capabilities: {},
    clientInfo: { name: HOSTILE.replace(TOKEN, ''), version: '1' },
  };
  for (const [id, method] of ['initialize', `\u001b[2J<img>\`|${'x'.repeat(9)}`].entries())
    transcript.hear({ jsonrpc: '2.0', id, method, params });
  transcript.revision = NEWEST_LEGACY;
  const report = clientReport(transcript, { tool: 'test', profile: profileOf('standard')!, started: new Date() });
  expectHarmless(report);
});

it('an earlier report adds only outcomes that exist', async () => {
  const first = await assessFixture('D', 'http');
  const sections = first.sections.map((section) => ({
    ...section,
    checks: section.checks.map((check) => ({ ...check, outcome: '\u001b[2J<img>' as 'pass' })),
  }));
  const second = await assessFixture('D', 'http', undefined, {}, { before: { ...first, sections } });
  expect(second.changes!.checks).toEqual([]);
  expectHarmless(second);
});
