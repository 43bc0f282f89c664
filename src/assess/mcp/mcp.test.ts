import { describe, expect, it } from 'vitest';
import { assessFixture } from '../../../test/fixtures/assess/assess-fixture.js';
import { inProcess } from '../../../test/fixtures/assess/in-process.js';
import { MCP_FAULTS, type Planted } from '../../../test/fixtures/assess/mcp-faults.js';
import { type Fault, type Json, McpFixture, type Settings } from '../../../test/fixtures/assess/mcp-server.js';
import { assess } from '../assess.js';
import { profileOf } from '../profiles.js';
import { failedChecks } from '../report/model.js';
import type { WireClient } from '../wire/http-wire.js';
import { MCP_OBSERVATIONS, MCP_PROBES } from './probes.js';
import { MCP_REQUIREMENTS } from './requirements.js';

const AT_ONCE = 16;

/** Variants of a correct server. */
const CORRECT: readonly Partial<Settings>[] = [
  {},
  { stream: true, sessions: false },
  { token: 'secret-token' },
  { stream: true, resumable: true },
  { omit: ['prompts', 'completions', 'logging', 'tasks'] },
];

describe('a correct server', () => {
  const both = (letter: string): [string, string][] => [
    [letter, 'http'],
    [letter, 'stdio'],
    [letter, 'ws'],
  ];
  const surfaces: [string, string][] = [
    ['A', 'sse'],
    ['A', 'stdio'],
    ['A', 'ws'],
    ...both('B'),
    ...both('C'),
    ...both('D'),
    ...both('E'),
  ];
  for (const [letter, transport] of surfaces) {
    it(`of revision ${letter} over ${transport} has no failures`, async () => {
      for (const settings of CORRECT) {
        const report = await assessFixture(letter, transport, undefined, settings);
        expect(report.sections).toHaveLength(1);
        expect(report.sections.flatMap(failedChecks).map(({ id, reason }) => `${id}: ${reason}`)).toEqual([]);
        expect(report.score).toBe(100);
        expect(report.complete).toBe(true);
      }
    });
  }
});

describe('planted faults', () => {
  it('S0-58: are found and named by their requirement', async () => {
    const missed: string[] = [];
    let alone = 0;
    const examine = async ([letter, transport, fault]: Planted): Promise<void> => {
      const report = await assessFixture(letter, transport, fault);
      const failed = report.sections.flatMap(failedChecks).map(({ id }) => id);
      if (!failed.includes(fault.row))
        missed.push(`${fault.row} ${letter}/${transport}: ${failed.join(' ') || 'nothing'}`);
      else if (failed.length === 1) alone++;
    };
    // An assessment mostly waits for answers that a broken server does not send.
    for (let i = 0; i < MCP_FAULTS.length; i += AT_ONCE)
      await Promise.all(MCP_FAULTS.slice(i, i + AT_ONCE).map(examine));
    const rows = new Set(MCP_FAULTS.map(([, , { row }]) => row)).size;
    const found = MCP_FAULTS.length - missed.length;
    console.log(
      `MCP: ${MCP_FAULTS.length} planted faults of ${rows} requirements, ${found} found, ${alone} of them alone`,
    );
    expect(MCP_FAULTS.length).toBeGreaterThanOrEqual(250);
    expect(missed).toEqual([]);
  }, 300_000);

  it('cover every requirement that counts in the standard profile', () => {
    const planted = new Set(MCP_FAULTS.map(([, , { row }]) => row));
    const profile = /^(OAI|PERF|CUR)-/;
    const missing = MCP_REQUIREMENTS.filter(
      ({ id, probe, level }) => probe !== undefined && level !== 'MAY' && !profile.test(id) && !planted.has(id),
    );
    // Header names reach a fixture in lower case, and its address is a loopback one.
    expect(missing.map(({ id }) => id)).toEqual(['HDR-06a', 'SEC-01']);
  });

  it('are found if they are in the connection: header names with regard to case, and http on another host', async () => {
    const failures = async (host: string, lost: (name: string) => boolean): Promise<string[]> => {
      const server = new McpFixture('E');
      const connection = inProcess((call) => server.http(call));
      const client: WireClient = {
        close: () => connection.close(),
        request: (target, request, reply) => {
          const headers = request.headers.filter((_, i) => !lost(request.headers[i - (i % 2)]!));
          return connection.request(target, { ...request, headers }, reply);
        },
      };
      const report = await assess({
        tool: 'test',
        profile: profileOf('standard')!,
        pace: { interval: 0, answer: 100, total: 120_000 },
        revisions: [server.revision.date],
        target: { kind: 'url', url: new URL(`http://${host}/mcp`) },
        client,
      });
      return report.sections.flatMap(failedChecks).map(({ id }) => id);
    };
    expect(await failures('localhost', (name) => name === 'mCP-mETHOD')).toEqual(['HDR-06a']);
    expect(await failures('mcp.example.com', () => false)).toEqual(['SEC-01']);
  });
});

describe('the table of requirements', () => {
  it('has unique ids and a probe or a reason for each', () => {
    const ids = MCP_REQUIREMENTS.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    for (const { id, probe, unobservable } of MCP_REQUIREMENTS) {
      expect((probe === undefined) !== (unobservable === undefined), id).toBe(true);
      if (probe !== undefined) expect(MCP_PROBES[probe] ?? MCP_OBSERVATIONS[probe], id).toBeDefined();
    }
  });
});

it('names the error in the reason of a failure, also over a channel', async () => {
  const [, , fault] = MCP_FAULTS.find(([, transport, { row }]) => row === 'TSKL-01' && transport === 'stdio')!;
  const report = await assessFixture('D', 'stdio', fault);
  expect(report.sections.flatMap(failedChecks).map(({ id, reason }) => `${id}: ${reason}`)).toEqual([
    'TSKL-01: a call with the parameter task was not answered like other calls: got the error -32602',
  ]);
});

it('S1-83: gives the same report twice, apart from times', async () => {
  const once = async (): Promise<string> => {
    const { times: _, ...rest } = await assessFixture('D', 'http', MCP_FAULTS[0]![2]);
    return JSON.stringify(rest);
  };
  expect(await once()).toBe(await once());
});

it('gives the same report twice for a server whose headers, times and ids differ each time', async () => {
  let count = 0;
  const volatile: Fault = {
    row: '',
    http: (answer) => ({ ...answer, headers: { ...answer.headers, 'x-ratelimit-remaining': String(++count) } }),
    message: (out) => {
      for (const { result } of out)
        for (const tool of ((result as Json | undefined)?.['tools'] ?? []) as Json[])
          Object.assign(tool, {
            inputSchema: 1,
            name: `made ${new Date(++count).toISOString()} ${crypto.randomUUID()}`,
          });
      return out;
    },
  };
  const once = async (): Promise<string> => {
    const { times: _, ...rest } = await assessFixture('D', 'http', volatile);
    expect(rest.sections[0]!.mustFailures).toBeGreaterThan(0);
    return JSON.stringify(rest);
  };
  expect(await once()).toBe(await once());
});
