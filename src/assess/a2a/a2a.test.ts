import { describe, expect, it } from 'vitest';
import {
  type AgentBinding,
  type AgentFault,
  AgentFixture,
  type AgentVersion,
} from '../../../test/fixtures/assess/a2a-agent.js';
import { A2A_FAULTS } from '../../../test/fixtures/assess/a2a-faults.js';
import { inProcess } from '../../../test/fixtures/assess/in-process.js';
import { assess } from '../assess.js';
import { profileOf } from '../profiles.js';
import { failedChecks, type Report } from '../report/model.js';
import { A2A_OBSERVATIONS, A2A_PROBES } from './probes.js';
import { A2A_REQUIREMENTS } from './requirements.js';

function assessAgent(version: AgentVersion, binding: AgentBinding, fault?: AgentFault): Promise<Report> {
  const agent = new AgentFixture(version, binding, fault);
  return assess({
    tool: 'test',
    profile: profileOf('standard')!,
    active: true,
    pace: { interval: 0, answer: 60, total: 20_000 },
    target: { kind: 'url', url: new URL('http://localhost/agent') },
    client: inProcess((call) => agent.handle(call)),
    ...(fault?.security && { credentials: [['Authorization', 'Bearer secret-token']] as const }),
  });
}

const failures = (report: Report): string[] => report.sections.flatMap(failedChecks).map(({ id }) => id);

describe('a correct agent', () => {
  const versions = ['1.0', '0.3'] as const;
  for (const version of versions) {
    for (const binding of ['JSONRPC', 'HTTP+JSON'] as const) {
      it(`of version ${version} over ${binding} has no failures`, async () => {
        const report = await assessAgent(version, binding);
        expect(report.sections.map(({ surfaces }) => surfaces)).toEqual([[`A2A ${version} over ${binding}`]]);
        expect(report.sections.flatMap(failedChecks).map(({ id, reason }) => `${id}: ${reason}`)).toEqual([]);
        expect(report.score).toBe(100);
      });
    }
  }
});

describe('planted faults', () => {
  it('are found and named by their requirement', async () => {
    const missed: string[] = [];
    for (const [version, binding, fault] of A2A_FAULTS) {
      const failed = failures(await assessAgent(version, binding, fault));
      if (!failed.includes(fault.row))
        missed.push(`${fault.row} ${version} ${binding}: ${failed.join(' ') || 'nothing'}`);
    }
    expect(A2A_FAULTS.length).toBeGreaterThanOrEqual(75);
    expect(missed).toEqual([]);
  }, 60_000);

  it('cover every requirement with a probe', () => {
    const planted = new Set(A2A_FAULTS.map(([, , { row }]) => row));
    const missing = A2A_REQUIREMENTS.filter(({ id, probe }) => probe !== undefined && !planted.has(id));
    expect(missing.map(({ id }) => id)).toEqual([]);
  });
});

it('every requirement has a probe or a reason', () => {
  for (const { id, probe, unobservable } of A2A_REQUIREMENTS) {
    expect((probe === undefined) !== (unobservable === undefined), id).toBe(true);
    if (probe !== undefined) expect(A2A_PROBES[probe] ?? A2A_OBSERVATIONS[probe], id).toBeDefined();
  }
});
