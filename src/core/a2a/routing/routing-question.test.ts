import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { callerNamed, cardOf, cardsOf, directoryOf, StaticAgent } from '../../../../test/support/static-agent.js';
import { agentRecords } from '../../../app/a2a-records.js';
import { VERSIONS } from '../../../protocol/a2a/dialect.js';
import { type Message, type Operation, ROUTE, type StreamResponse, type Task } from '../../../protocol/a2a/model.js';
import type { JsonObject } from '../../../protocol/jsonrpc/raw.js';
import { openState, type State } from '../../../state/index.js';
import { SILENT } from '../../../telemetry/log.js';
import { OpenAdmission } from '../../admission.js';
import { Cancellation } from '../../caller.js';
import { Pipeline } from '../../pipeline.js';
import { Seal } from '../../seal.js';
import { AgentDispatcher } from '../dispatcher.js';
import { buildRouter } from './routing-question.js';

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
  const records = agentRecords(state, { taskTtl: 60_000, shared: false });
  dispatcher = new AgentDispatcher({
    agents: directoryOf(...agents),
    admission: new OpenAdmission(() => true),
    pipeline: new Pipeline([]),
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
      maxHops: 4,
    },
    timeouts: { call: 5_000 },
    instance: 'here',
    log: SILENT,
    router: buildRouter({ cards: cardsOf(agents), records, gateway: () => dispatcher }),
  });
});

afterAll(async () => {
  await dispatcher.close();
  await state.close();
  rmSync(data, { recursive: true, force: true });
});

let counter = 0;
const message = (text: string, more: Partial<Message> = {}): JsonObject => ({
  message: { messageId: `m${++counter}`, role: 'ROLE_USER', parts: [{ text }], ...more },
});

const call = (request: JsonObject, operation: Operation, caller = ann) =>
  dispatcher.handle(caller, {
    agent: undefined,
    operation,
    request: { value: request },
    dialect: VERSIONS[0],
    exchange: { cancellation: new Cancellation(), extensions: [], forward: {} },
  });

async function ask(request: JsonObject, operation: Operation = 'SendMessage', caller = ann): Promise<JsonObject> {
  const answer = await call(request, operation, caller);
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

  test('the same on a stream', async () => {
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
});
