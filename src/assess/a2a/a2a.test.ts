import { describe, expect, it } from 'vitest';
import {
  type AgentBinding,
  type AgentFault,
  AgentFixture,
  type AgentVersion,
  requiring,
  versioned,
} from '../../../test/fixtures/assess/a2a-agent.js';
import { A2A_FAULTS, type PlantedAgent } from '../../../test/fixtures/assess/a2a-faults.js';
import { inProcess } from '../../../test/fixtures/assess/in-process.js';
import { assess } from '../assess.js';
import { profileOf } from '../profiles.js';
import { failedChecks, type Report } from '../report/model.js';
import { A2A_OBSERVATIONS, A2A_PROBES } from './probes.js';
import { A2A_REQUIREMENTS } from './requirements.js';

/** The host of the fixture: some faults need one that is not this machine. */
const hostOf = (fault?: AgentFault): string => (fault?.row === 'A2A-S-73b' ? 'agent.example.com' : 'localhost');

function assessAgent(
  version: AgentVersion,
  binding: AgentBinding,
  fault?: AgentFault,
  also?: AgentBinding,
): Promise<Report> {
  const agent = new AgentFixture(version, binding, fault, also);
  return assess({
    tool: 'test',
    profile: profileOf('standard')!,
    active: true,
    pace: { interval: 0, answer: 60, total: 120_000 },
    target: { kind: 'url', url: new URL(`http://${hostOf(fault)}/agent`) },
    client: inProcess((call) => agent.handle(call)),
    grpc: () => agent.dial(),
    ...(fault?.security && { credentials: [['Authorization', 'Bearer secret-token']] as const }),
  });
}

/** Assessments at the same time. */
const AT_ONCE = 8;

const failures = (report: Report): string[] => report.sections.flatMap(failedChecks).map(({ id }) => id);

const PLACES: readonly (readonly [AgentVersion, readonly AgentBinding[]])[] = [
  ['1.0', ['JSONRPC', 'HTTP+JSON', 'GRPC']],
  ['0.3', ['JSONRPC', 'HTTP+JSON', 'GRPC']],
  ['0.2', ['JSONRPC', 'HTTP+JSON', 'GRPC']],
  ['0.1', ['JSONRPC']],
];

/** Correct agents with other capabilities. */
const VARIANTS: Readonly<Record<string, Omit<AgentFault, 'row'>>> = {
  'all capabilities': {},
  'push notifications': { capabilities: { streaming: true, pushNotifications: true } },
  'no streaming': { capabilities: {} },
  security: { security: true },
  'a required extension': { capabilities: requiring() },
  'an extension with a version': { capabilities: versioned() },
  'an extended card': { security: true, capabilities: { streaming: true, extendedAgentCard: true } },
};

describe('a correct agent', () => {
  for (const [version, bindings] of PLACES) {
    for (const binding of bindings) {
      for (const [name, variant] of Object.entries(VARIANTS)) {
        it(`of version ${version} over ${binding} with ${name} has no failures`, async () => {
          const report = await assessAgent(version, binding, { row: '', ...variant });
          expect(report.sections.map(({ surfaces }) => surfaces)).toEqual([[`A2A ${version} over ${binding}`]]);
          expect(report.sections.flatMap(failedChecks).map(({ id, reason }) => `${id}: ${reason}`)).toEqual([]);
          expect(report.score).toBe(100);
        });
      }
    }
  }

  it('with two bindings has no failures', async () => {
    const report = await assessAgent('1.0', 'JSONRPC', undefined, 'HTTP+JSON');
    expect(failures(report)).toEqual([]);
    const same = report.sections[0]!.checks.find(({ id }) => id === 'A2A-S-75');
    expect(same?.outcome).toBe('pass');
  });
});

describe('the methods of a report', () => {
  const methodsOf = async (version: AgentVersion, binding: AgentBinding, fault?: AgentFault): Promise<object> =>
    (await assessAgent(version, binding, fault)).sections[0]!.methods;

  it.each(['JSONRPC', 'HTTP+JSON', 'GRPC'] as const)('are those that the agent serves over %s', async (binding) => {
    const push = { capabilities: { streaming: true, pushNotifications: true } };
    expect(await methodsOf('1.0', binding, { row: '', ...push })).toEqual({
      SendMessage: true,
      SendStreamingMessage: true,
      GetTask: true,
      ListTasks: true,
      CancelTask: true,
      SubscribeToTask: true,
      CreateTaskPushNotificationConfig: true,
      GetTaskPushNotificationConfig: true,
      ListTaskPushNotificationConfigs: true,
      DeleteTaskPushNotificationConfig: true,
      GetExtendedAgentCard: false,
    });
  });

  it('have the names of the version, and are not served without the capability', async () => {
    expect(await methodsOf('0.1', 'JSONRPC')).toEqual({
      'tasks/send': true,
      'tasks/sendSubscribe': true,
      'tasks/get': true,
      'tasks/cancel': true,
      'tasks/resubscribe': true,
      'tasks/pushNotification/set': false,
      'tasks/pushNotification/get': false,
    });
  });
});

describe('planted faults', () => {
  it('are found and named by their requirement', async () => {
    const missed: string[] = [];
    const examine = async ([version, binding, fault, also]: PlantedAgent): Promise<void> => {
      const failed = failures(await assessAgent(version, binding, fault, also));
      if (!failed.includes(fault.row))
        missed.push(`${fault.row} ${version} ${binding}: ${failed.join(' ') || 'nothing'}`);
    };
    // An assessment mostly waits for answers that a broken agent does not send.
    for (let i = 0; i < A2A_FAULTS.length; i += AT_ONCE)
      await Promise.all(A2A_FAULTS.slice(i, i + AT_ONCE).map(examine));
    expect(A2A_FAULTS.length).toBeGreaterThanOrEqual(200);
    expect(missed).toEqual([]);
  }, 300_000);

  it('cover every requirement with a probe', () => {
    const planted = new Set(A2A_FAULTS.map(([, , { row }]) => row));
    const missing = A2A_REQUIREMENTS.filter(({ id, probe }) => probe !== undefined && !planted.has(id));
    expect(missing.map(({ id }) => id)).toEqual([]);
  });
});

it('two assessments of one agent have the same report but for its times', async () => {
  const fault: AgentFault = {
    row: '',
    outcome: (outcome) => ('code' in outcome ? { ...outcome, code: -32603 } : outcome),
  };
  const reports = [await assessAgent('1.0', 'JSONRPC', fault), await assessAgent('1.0', 'JSONRPC', fault)];
  const [first, second] = reports.map(({ times: _, ...rest }) => JSON.stringify(rest));
  expect(second).toBe(first);
});

it('every requirement has a probe or a reason', () => {
  for (const { id, probe, unobservable } of A2A_REQUIREMENTS) {
    expect((probe === undefined) !== (unobservable === undefined), id).toBe(true);
    if (probe !== undefined) expect(A2A_PROBES[probe] ?? A2A_OBSERVATIONS[probe], id).toBeDefined();
  }
});

it('a probe belongs to a requirement', () => {
  const used = new Set(A2A_REQUIREMENTS.map(({ probe }) => probe));
  const unused = [...Object.keys(A2A_PROBES), ...Object.keys(A2A_OBSERVATIONS)].filter((name) => !used.has(name));
  expect(unused).toEqual([]);
});
