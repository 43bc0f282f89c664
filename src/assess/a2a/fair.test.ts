/** Agents that do nothing wrong in ways that once looked like violations. */
import { expect, it } from 'vitest';
import {
  type AgentBinding,
  type AgentFault,
  AgentFixture,
  type AgentVersion,
} from '../../../test/fixtures/assess/a2a-agent.js';
import { inProcess } from '../../../test/fixtures/assess/in-process.js';
import type { HttpAnswer, HttpCall, Json } from '../../../test/fixtures/assess/mcp-server.js';
import { assess } from '../assess.js';
import { profileOf } from '../profiles.js';
import { failedChecks, type Report } from '../report/model.js';

type Behaviour = Omit<AgentFault, 'row'>;

function assessed(
  version: AgentVersion,
  binding: AgentBinding,
  behaviour: Behaviour,
  url = 'http://localhost/agent',
): Promise<Report> {
  const agent = new AgentFixture(version, binding, { row: '', ...behaviour });
  return assess({
    tool: 'test',
    profile: profileOf('standard')!,
    active: true,
    pace: { interval: 0, answer: 60, total: 120_000 },
    target: { kind: 'url', url: new URL(url) },
    client: inProcess((call) => agent.handle(call)),
    grpc: () => agent.dial(),
  });
}

const failuresOf = (report: Report): string[] => {
  expect(report.sections).toHaveLength(1);
  return report.sections.flatMap(failedChecks).map(({ id, reason }) => `${id}: ${reason}`);
};

const PLACES: readonly (readonly [AgentVersion, AgentBinding])[] = [
  ['1.0', 'JSONRPC'],
  ['1.0', 'HTTP+JSON'],
  ['1.0', 'GRPC'],
  ['0.3', 'JSONRPC'],
  ['0.3', 'HTTP+JSON'],
  ['0.2', 'JSONRPC'],
  ['0.1', 'JSONRPC'],
];

/** Data that belongs to the agent, with the words of the protocol in it. */
const DATA = {
  status: { state: 'CA', timestamp: 'yesterday' },
  role: 'chef',
  messageId: 'x',
  text: 'a',
  file: {},
  my_key: 1,
};

/** Whether a request has a message that the agent works on. */
const isWork = ({ body, path }: HttpCall): boolean =>
  /"(SendMessage|SendStreamingMessage|message\/send|message\/stream|tasks\/send|tasks\/sendSubscribe)"/.test(body) ||
  path.includes('message:');

for (const [version, binding] of PLACES) {
  it(`an agent of ${version} over ${binding} with data of its own has no failures`, async () => {
    const part = version === '1.0' ? { data: DATA } : { [version === '0.1' ? 'type' : 'kind']: 'data', data: DATA };
    const behaviour: Behaviour = {
      outcome: (outcome) => {
        const task = ('result' in outcome ? (outcome.result['task'] ?? outcome.result) : {}) as Json;
        if (task['artifacts'] === undefined || (binding !== 'JSONRPC' && version !== '1.0')) return outcome;
        task['metadata'] = DATA;
        task['artifacts'] = [{ ...(version !== '0.1' && { artifactId: 'a1' }), parts: [part], metadata: DATA }];
        return outcome;
      },
    };
    expect(failuresOf(await assessed(version, binding, behaviour))).toEqual([]);
  });

  it(`an agent of ${version} over ${binding} that works longer than an answer may take has no failures`, async () => {
    const silent = (answer: HttpAnswer): HttpAnswer => ({ ...answer, stream: true, open: true, messages: [] });
    const behaviour: Behaviour = {
      // Errors come at once.
      http: (answer, call) =>
        isWork(call) && !/"(error|code)"/.test(JSON.stringify(answer.messages)) ? silent(answer) : answer,
      grpc: (received, call) =>
        /Send(Streaming)?Message$/.test(call.path)
          ? { ...received, status: 'DEADLINE_EXCEEDED', messages: [], details: [], ended: false }
          : received,
    };
    expect(failuresOf(await assessed(version, binding, behaviour))).toEqual([]);
  });
}

it('a caller may stay anonymous if the card has an alternative without schemes', async () => {
  for (const [version, alternatives] of [
    ['1.0', [{ schemes: { bearer: {} } }, { schemes: {} }]],
    ['0.3', [{ bearer: [] }, {}]],
  ] as const) {
    const card = (given: Json): void => {
      given[version === '1.0' ? 'securityRequirements' : 'security'] = alternatives;
    };
    expect(failuresOf(await assessed(version, 'JSONRPC', { card }))).toEqual([]);
  }
});

it('the names of security schemes and scopes belong to the agent', async () => {
  const behaviour: Behaviour = {
    capabilities: { streaming: true, extendedAgentCard: true },
    outcome: (outcome, operation) =>
      operation === 'extendedCard'
        ? {
            result: {
              name: 'Fixture',
              securitySchemes: {
                my_oauth: { oauth2SecurityScheme: { flows: { clientCredentials: { scopes: { read_all: '' } } } } },
              },
              securityRequirements: [{ schemes: { my_oauth: { list: [] } } }],
            },
          }
        : outcome,
  };
  // The agent gives its extended card to everybody, which is a violation of its own.
  expect(failuresOf(await assessed('1.0', 'JSONRPC', behaviour)).map((each) => each.split(':')[0])).toEqual([
    'A2A-S-60b',
  ]);
});

it('an agent that serves clients of 0.1 with a card of 0.2 is assessed in both versions', async () => {
  const [first, second] = [new AgentFixture('0.1', 'JSONRPC'), new AgentFixture('0.2', 'JSONRPC')];
  const isFirst = ({ body }: HttpCall): boolean =>
    /"tasks\/(send|sendSubscribe|pushNotification\/(set|get))"/.test(body) ||
    // Clients of 0.1 choose the ids of tasks.
    /"tasks\/\w+","params":\{"id":"[0-9a-f]{8}-/.test(body);
  const report = await assess({
    tool: 'test',
    profile: profileOf('standard')!,
    active: true,
    pace: { interval: 0, answer: 60, total: 120_000 },
    target: { kind: 'url', url: new URL('http://localhost/agent') },
    client: inProcess((call) => (isFirst(call) ? first : second).handle(call)),
  });
  expect(failuresOf(report)).toEqual([]);
  expect(report.sections[0]?.surfaces).toEqual(['A2A 0.2 over JSONRPC', 'A2A 0.1 over JSONRPC']);
  expect(report.sections[0]?.methods['tasks/sendSubscribe']).toBe(true);
});

it('the URL of an older card does not hide the newer one', async () => {
  const behaviour: Behaviour = {};
  const agent = new AgentFixture('0.3', 'JSONRPC', { row: '', ...behaviour });
  const both = (call: HttpCall): HttpAnswer =>
    agent.handle({ ...call, path: call.path.replace('/agent.json', '/agent-card.json') });
  const report = await assess({
    tool: 'test',
    profile: profileOf('standard')!,
    active: true,
    pace: { interval: 0, answer: 60, total: 120_000 },
    target: { kind: 'url', url: new URL('http://localhost/agent/.well-known/agent.json') },
    client: inProcess(both),
  });
  expect(failuresOf(report)).toEqual([]);
});
