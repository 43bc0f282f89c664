import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { callerNamed, cardOf, cardsOf, directoryOf, StaticAgent } from '../../../../test/support/static-agent.js';
import { agentRecords } from '../../../app/a2a-records.js';
import { callAudit } from '../../../interceptors/audit.js';
import { callLimits } from '../../../interceptors/concurrent-call-limits.js';
import { rateLimits } from '../../../interceptors/rate-limits.js';
import { VERSIONS } from '../../../protocol/a2a/dialect.js';
import { type Message, type Operation, ROUTE, type StreamResponse, type Task } from '../../../protocol/a2a/model.js';
import type { JsonObject } from '../../../protocol/jsonrpc/raw.js';
import { openState, type State } from '../../../state/index.js';
import { SILENT } from '../../../telemetry/log.js';
import { OpenAdmission } from '../../admission.js';
import { type AuditRecord, NO_AUDIT } from '../../audit-trail.js';
import { CallSlots } from '../../call-slots.js';
import { Cancellation } from '../../caller.js';
import { Pipeline } from '../../pipeline.js';
import { Seal } from '../../seal.js';
import { AgentDispatcher } from '../dispatcher.js';
import { buildRouter } from './ask-which-agent.js';

const ann = callerNamed('ann');
const agents = ['weather', 'travel'].map(
  (name) =>
    new StaticAgent(
      name,
      cardOf(name, { skills: [{ id: 'do', name, description: `All about ${name}`, tags: [name] }] }),
    ),
);

let data: string;
let state: State;
let dispatcher: AgentDispatcher;

beforeAll(async () => {
  data = mkdtempSync(join(tmpdir(), 'parley-desk-'));
  state = await openState({ data });
  dispatcher = dispatcherWith(new Pipeline([]), () => dispatcher);
});

function dispatcherWith(pipeline: Pipeline, itself: () => AgentDispatcher): AgentDispatcher {
  const records = agentRecords(state, { taskTtl: 60_000, shared: false });
  return new AgentDispatcher({
    agents: directoryOf(...agents),
    admission: new OpenAdmission(() => true),
    pipeline,
    records,
    seal: new Seal(state.keyring),
    limits: {
      parts: 100,
      artifacts: 100,
      history: 100,
      taskSize: 1_000_000,
      tasks: 1_000,
      streams: 10,
      streamsPerCaller: 10,
      followed: 10,
      maxHops: 4,
    },
    timeouts: { call: 5_000 },
    instance: 'here',
    log: SILENT,
    router: buildRouter({ cards: cardsOf(agents), records, gateway: itself }),
  });
}

afterAll(async () => {
  await dispatcher.close();
  await state.close();
  rmSync(data, { recursive: true, force: true });
});

let counter = 0;
const message = (text: string, more: Partial<Message> = {}): JsonObject => ({
  message: { messageId: `m${++counter}`, role: 'ROLE_USER', parts: [{ text }], ...more },
});

const call = (request: JsonObject, operation: Operation, caller = ann, at = dispatcher) =>
  at.handle(caller, {
    agent: undefined,
    operation,
    request: { value: request },
    dialect: VERSIONS[0],
    exchange: { cancellation: new Cancellation(), extensions: [], forward: {} },
  });

async function ask(
  request: JsonObject,
  operation: Operation = 'SendMessage',
  caller = ann,
  at = dispatcher,
): Promise<JsonObject> {
  const answer = await call(request, operation, caller, at);
  if (answer.kind !== 'result') throw new Error('unexpected stream');
  return answer.result.value as JsonObject;
}

describe('the routing agent behind the dispatcher (G-4, G-5)', () => {
  test('a message that fits no agent causes a question, and goes to the agent that the answer names', async () => {
    const { task } = (await ask(message('hello'))) as { task: Task };
    expect(task.status.state).toBe('TASK_STATE_INPUT_REQUIRED');
    // The question is stored like any other task, and only its caller can read it.
    expect(await ask({ id: task.id }, 'GetTask')).toMatchObject({ status: { state: 'TASK_STATE_INPUT_REQUIRED' } });
    await expect(ask({ id: task.id }, 'GetTask', callerNamed('bob'))).rejects.toMatchObject({
      reason: 'task_not_found',
    });
    const answered = (await ask(message('travel', { taskId: task.id }))) as { task: Task };
    expect(answered.task).toMatchObject({
      id: task.id,
      contextId: task.contextId,
      status: { state: 'TASK_STATE_COMPLETED', message: { parts: [{ text: 'travel' }] } },
      metadata: { [ROUTE]: { agent: 'travel' } },
    });
    await expect(ask(message('weather', { taskId: task.id }))).rejects.toMatchObject({
      reason: 'unsupported_operation',
    });
  });

  test('a question and its answer work on a stream too', async () => {
    const events: StreamResponse[] = [];
    const read = async (request: JsonObject) => {
      const answer = await call(request, 'SendStreamingMessage');
      for await (const { value } of answer.kind === 'stream' ? answer.events : []) {
        events.push(value);
        if (value.task?.status.state === 'TASK_STATE_INPUT_REQUIRED') break;
      }
    };
    await read(message('hello'));
    const id = events[0]?.task?.id ?? '';
    events.length = 0;
    await read(message('weather please', { taskId: id }));
    const last = events.at(-1);
    expect(last?.task?.status.state ?? last?.statusUpdate?.status.state).toBe('TASK_STATE_COMPLETED');
  });

  test('S-24: an unknown task causes neither a question nor a new task', async () => {
    for (const text of ['hello', 'weather']) {
      await expect(ask(message(text, { taskId: 'nowhere' }))).rejects.toMatchObject({ reason: 'task_not_found' });
    }
  });

  test('a message that fits an agent goes directly to it', async () => {
    expect(await ask(message('the weather in Oslo'))).toMatchObject({ message: { parts: [{ text: 'weather' }] } });
  });

  test('S23, S24: the call to the agent that an answer names is limited and recorded in the audit trail', async () => {
    const trail: AuditRecord[] = [];
    const pipeline = new Pipeline([
      callAudit({
        trail: { ...NO_AUDIT, record: (record) => trail.push(record) },
        hash: undefined,
        excludes: () => false,
      }),
      rateLimits({
        limits: [
          { per: ['server'], requests: 1, interval: 3_600_000, applies: ({ target }) => target?.server === 'travel' },
        ],
        counter: { incr: async (_, n) => n },
        now: () => 0,
        replicas: () => 1,
        away: () => {},
        overloaded: () => undefined,
      }),
      callLimits(new CallSlots({ bytes: 1e9, bytesPerCaller: 1e9, perCaller: 1, perSession: undefined, perServer: 1 })),
    ]);
    const limited: AgentDispatcher = dispatcherWith(pipeline, () => limited);
    const states: string[] = [];
    for (let i = 0; i < 2; i++) {
      const { task } = (await ask(message('hello'), 'SendMessage', ann, limited)) as { task: Task };
      const answer = ask(message('travel', { taskId: task.id }), 'SendMessage', ann, limited);
      states.push(
        await answer.then(
          (value) => (value as { task: Task }).task.status.state,
          (error) => error.reason,
        ),
      );
    }
    await limited.close();
    expect(states[0]).toBe('TASK_STATE_COMPLETED');
    expect(states[1]).not.toBe('TASK_STATE_COMPLETED');
    expect(trail.filter((record) => 'server' in record && record.server === 'travel')).toMatchObject([
      { kind: 'call', caller: 'ann', outcome: 'ok', decision: 'allowed' },
      { kind: 'call', caller: 'ann', outcome: 'error', decision: 'denied', rule: 'rate_limited' },
    ]);
  });
});
