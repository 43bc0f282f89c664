import { describe, expect, it } from 'vitest';
import { assessFixture } from '../../../test/fixtures/assess/assess-fixture.js';
import { MCP_FAULTS } from '../../../test/fixtures/assess/mcp-faults.js';
import { failedChecks } from '../report/model.js';
import { MCP_OBSERVATIONS, MCP_PROBES } from './probes.js';
import { MCP_REQUIREMENTS } from './requirements.js';

describe('a correct server', () => {
  const both = (letter: string): [string, string][] => [
    [letter, 'http'],
    [letter, 'stdio'],
  ];
  const surfaces: [string, string][] = [
    ['A', 'sse'],
    ['A', 'stdio'],
    ...both('B'),
    ...both('C'),
    ...both('D'),
    ...both('E'),
  ];
  for (const [letter, transport] of surfaces) {
    it(`of revision ${letter} over ${transport} has no failures`, async () => {
      for (const settings of [{}, { stream: true, sessions: false }, { token: 'secret-token' }]) {
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
  it('are found and named by their requirement', async () => {
    const missed: string[] = [];
    for (const [letter, transport, fault] of MCP_FAULTS) {
      const report = await assessFixture(letter, transport, fault);
      const failed = report.sections.flatMap(failedChecks).map(({ id }) => id);
      if (!failed.includes(fault.row))
        missed.push(`${fault.row} ${letter}/${transport}: ${failed.join(' ') || 'nothing'}`);
    }
    expect(MCP_FAULTS.length).toBeGreaterThanOrEqual(150);
    expect(missed).toEqual([]);
  }, 60_000);

  it('cover every requirement that counts in the standard profile', () => {
    const planted = new Set(MCP_FAULTS.map(([, , { row }]) => row));
    const profile = /^(OAI|PERF|CUR)-/;
    const missing = MCP_REQUIREMENTS.filter(
      ({ id, probe, level }) => probe !== undefined && level !== 'MAY' && !profile.test(id) && !planted.has(id),
    );
    // Header names reach a fixture in lower case, and its address is a loopback one.
    expect(missing.map(({ id }) => id)).toEqual(['HDR-06a', 'SEC-01']);
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

it('gives the same report twice, apart from times', async () => {
  const once = async (): Promise<string> => {
    const { times: _, ...rest } = await assessFixture('D', 'http', MCP_FAULTS[0]![2]);
    return JSON.stringify(rest);
  };
  expect(await once()).toBe(await once());
});
