/** Planted faults for the requirements that count in profiles only, and servers that have none of them. */
import { describe, expect, it } from 'vitest';
import { assessFixture } from '../../../test/fixtures/assess/assess-fixture.js';
import { inProcess } from '../../../test/fixtures/assess/in-process.js';
import { type Fault, type Json, McpFixture, type Settings } from '../../../test/fixtures/assess/mcp-server.js';
import { assess } from '../assess.js';
import { profileOf } from '../profiles.js';
import { failedChecks } from '../report/model.js';
import type { WireClient } from '../wire/http-wire.js';
import { PROFILE_ROWS } from './requirements-profiles.js';

type Planted = readonly [row: string, profile: string, place: string, fault: Omit<Fault, 'row'>];

const TOKEN: Partial<Settings> = { token: 'secret-token' };
const EARLIER = 'D/http';
const LATEST = 'E/http';

async function failuresOf(
  profile: string,
  place: string,
  fault: Omit<Fault, 'row'>,
  settings: Partial<Settings> = {},
): Promise<string[]> {
  const [letter = '', transport = ''] = place.split('/');
  const options = { profile: profileOf(profile)! };
  const report = await assessFixture(letter, transport, { row: '', ...fault }, settings, options);
  return report.sections.flatMap(failedChecks).map(({ id }) => id);
}

const results =
  (method: string, change: (result: Json) => void): NonNullable<Fault['message']> =>
  (out, request) => {
    for (const { result } of out) if (request['method'] === method && result !== undefined) change(result as Json);
    return out;
  };

const firstTool = (change: (tool: Json) => void): Omit<Fault, 'row'> => ({
  settings: TOKEN,
  message: results('tools/list', ({ tools }) => change((tools as Json[])[0]!)),
});

const FAULTS: readonly Planted[] = [
  ['OAI-01', 'openai', EARLIER, firstTool((tool) => Object.assign(tool, { name: 'has.a.dot' }))],
  ['OAI-01', 'openai', LATEST, firstTool((tool) => Object.assign(tool, { name: 'x'.repeat(65) }))],
  ['OAI-02', 'openai', EARLIER, firstTool((tool) => delete tool['description'])],
  ['OAI-03', 'openai', EARLIER, firstTool((tool) => Object.assign(tool, { inputSchema: {} }))],
  [
    'OAI-04',
    'openai',
    EARLIER,
    {
      settings: TOKEN,
      message: results('tools/call', ({ content }) => {
        (content as Json[]).unshift({ type: 'image', data: 'AAAA', mimeType: 'image/png' });
      }),
    },
  ],
  [
    'OAI-05',
    'openai',
    EARLIER,
    {
      settings: TOKEN,
      message: results('tools/list', ({ tools }) => Object.assign((tools as Json[])[0]!, { description: 'café' })),
      http: (answer, call) => (call.body.includes('tools/list') ? { ...answer, encoding: 'latin1' } : answer),
    },
  ],
  ['OAI-06', 'openai', EARLIER, {}],
  ['OAI-06', 'openai', LATEST, {}],
  [
    'PERF-02',
    'performance',
    EARLIER,
    { message: results('tools/list', (result) => Object.assign(result, { _meta: { long: 'x'.repeat(300_000) } })) },
  ],
  ['PERF-03', 'performance', LATEST, firstTool((tool) => Object.assign(tool, { description: 'x'.repeat(2_001) }))],
  [
    'PERF-04',
    'performance',
    EARLIER,
    { http: (answer) => ({ ...answer, headers: { ...answer.headers, connection: 'close' } }) },
  ],
  [
    'PERF-05',
    'performance',
    LATEST,
    { message: results('tools/list', (result) => Object.assign(result, { ttlMs: 0 })) },
  ],
  ['CUR-01', 'founding', EARLIER, {}],
  ['CUR-02', 'founding', LATEST, {}],
  ['CUR-03', 'founding', EARLIER, {}],
];

describe('a requirement of a profile', () => {
  it.each(FAULTS)('%s is found by the profile %s at %s', async (row, profile, place, fault) => {
    expect(await failuresOf(profile, place, fault)).toContain(row);
  });

  it('PERF-01 is found: lists that take long', async () => {
    const server = new McpFixture('D');
    const fast = inProcess((call) => server.http(call));
    const client: WireClient = {
      close: () => fast.close(),
      request: (target, request, handler) => {
        if (!String(request.body ?? '').includes('"tools/list"')) return fast.request(target, request, handler);
        const timer = setTimeout(() => fast.request(target, request, handler), 2_050);
        return { abort: () => clearTimeout(timer) };
      },
    };
    const report = await assess({
      tool: 'test',
      profile: profileOf('performance')!,
      pace: { interval: 0, answer: 60_000, total: 600_000 },
      revisions: [server.revision.date],
      target: { kind: 'url', url: new URL('http://localhost/mcp') },
      client,
    });
    expect(report.sections.flatMap(failedChecks).map(({ id }) => id)).toEqual(['PERF-01']);
  });

  it('has a planted fault', () => {
    const planted = new Set(FAULTS.map(([row]) => row));
    expect(PROFILE_ROWS.map(({ id }) => id).filter((id) => !planted.has(id))).toEqual(['PERF-01']);
  });
});

describe('a correct server', () => {
  it.each([
    ['openai', EARLIER],
    ['openai', LATEST],
    ['performance', EARLIER],
    ['performance', LATEST],
    ['security', EARLIER],
    ['security', LATEST],
  ])('has no failures in the profile %s at %s', async (profile, place) => {
    expect(await failuresOf(profile, place, {}, TOKEN)).toEqual([]);
  });
});
