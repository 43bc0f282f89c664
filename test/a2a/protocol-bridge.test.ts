/** A2A agents as MCP tools (a2a.md 4.1): agents on the SDK of every version, called by SDK clients of both eras. */
import { AjvJsonSchemaValidator } from '@modelcontextprotocol/sdk/validation/ajv';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { accept, answersTo, asked, FORM, LegacyClient, textOf, WITH_TASKS } from '../era-bridge/support/clients.js';
import { eventually, type Message, sleep } from '../era-bridge/support/wire.js';
import type { EraClient, Json } from '../eras/peers.js';
import { FILE_BYTES, FILE_URL, LIST } from '../fixtures/a2a/behaviours.js';
import { mark } from './case.js';
import {
  agents,
  changing,
  closeWorld,
  contentOf,
  gateway,
  modern,
  NAMES,
  openWorld,
  stateAt,
  stateOf,
  structuredOf,
  type Tool,
  taskIds,
  toolsOf,
  withClient,
} from './protocol-bridge-world.js';
import { ADA, BOB } from './testbed.js';

const URLS = { elicitation: { form: {}, url: {} } };
const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

beforeAll(openWorld);
afterAll(closeWorld);

describe('the list', () => {
  test('has a tool for every skill and one for plain messages, even if an agent is down', async () => {
    const names = toolsOf(await modern().request('tools/list')).map(({ name }) => name);
    for (const agent of [...NAMES, 'careful'])
      expect(names).toEqual(expect.arrayContaining([`${agent}__echo`, `${agent}__story`, `${agent}__send_message`]));
    expect(names.filter((name) => /^(hidden|gone)__/.test(name))).toEqual([]);
    const own = toolsOf(await modern({}, ADA, '/mcp/one').request('tools/list'));
    expect(own.map(({ name }) => name)).toEqual(['echo', 'story', 'send_message']);
    expect(own[0]).toMatchObject({
      title: 'Echo',
      inputSchema: { type: 'object', properties: { message: { type: 'string' }, taskId: { type: 'string' } } },
      outputSchema: { type: 'object', required: ['state'] },
      annotations: { openWorldHint: true },
    });
    expect(own[0]!['description']).toContain('echo good morning');
  });

  test('changes with the card, for clients of every revision', async () => {
    const change = async (client: EraClient): Promise<void> => {
      await client.watchLists();
      await client.request('tools/list');
      await eventually(
        async () => (await client.request('tools/list'))['tools'] as Tool[],
        (tools) => tools.some(({ name }) => name === 'fresh'),
        30_000,
      );
      await eventually(
        () => client.notifications.map(({ method }) => method),
        (methods) => methods.includes('notifications/tools/list_changed'),
      );
    };
    const watching = (['2025-06-18', '2025-11-25', '2026-07-28'] as const).map((revision) =>
      withClient(revision, { path: '/mcp/changing' }, change),
    );
    await sleep(500);
    changing.skills = [...changing.skills, { id: 'fresh', name: 'New', description: 'Is new.', tags: [] }];
    await Promise.all(watching);
  });
});

describe.each(NAMES)('a call of the agent %s', (agent) => {
  test('returns the artifact, and reports progress', async () => {
    await withClient('2025-11-25', {}, async (client) => {
      const steps: Json[] = [];
      const word = mark();
      const answer = await client.call(
        `${agent}__echo`,
        { message: `steps ${word}` },
        { onprogress: (step) => steps.push(step) },
      );
      expect(contentOf(answer)).toEqual([{ type: 'text', text: `steps ${word}` }]);
      expect(structuredOf(answer)).toMatchObject({ state: 'completed', text: `steps ${word}` });
      expect(steps.length).toBeGreaterThan(0);
      const numbers = steps.map(({ progress }) => Number(progress));
      expect(numbers).toEqual([...numbers].sort((a, b) => a - b));
      if (agent !== 'plain') expect(steps.map(({ message }) => message)).toContain('step 2');
    });
  });

  test('accepts and returns files and data', async () => {
    const client = modern();
    const given = await client.call(`${agent}__send_message`, {
      message: 'parts',
      data: { a: [1] },
      files: [
        { base64: PNG, mimeType: 'image/png', name: 'dot.png' },
        { uri: FILE_URL, mimeType: 'application/pdf', name: 'report.pdf' },
        { base64: Buffer.from('words').toString('base64'), mimeType: 'text/plain', name: 'words.txt' },
      ],
    });
    expect(given.result.content).toMatchObject([
      { type: 'text', text: '{"a":[1]}' },
      { type: 'image', data: PNG, mimeType: 'image/png' },
      { type: 'resource_link', uri: FILE_URL, name: 'report.pdf', mimeType: 'application/pdf' },
      { type: 'resource', resource: { mimeType: 'text/plain', text: 'words' } },
    ]);
    expect(given.result.structuredContent).toMatchObject({ state: 'completed', data: [{ a: [1] }] });
    const files = await client.call(`${agent}__send_message`, { message: 'files' });
    expect(files.result.content[0]).toMatchObject({ type: 'resource', resource: { blob: FILE_BYTES } });
    const list = await client.call(`${agent}__send_message`, { message: 'list' });
    const tools = toolsOf(await modern({}, ADA, `/mcp/${agent}`).request('tools/list'));
    const fits = new AjvJsonSchemaValidator().getValidator(tools[0]!['outputSchema'] as object);
    for (const { result } of [given, files, list])
      expect(fits(result.structuredContent)).toMatchObject({ valid: true });
    expect(list.result.structuredContent.data).toEqual([LIST]);
  });

  test('that fails is a tool error; a direct reply is a result', async () => {
    const client = modern();
    const failed = await client.call(`${agent}__echo`, { message: 'fail' });
    expect(failed.result).toMatchObject({ isError: true, structuredContent: { state: 'failed' } });
    expect(textOf(failed)).toBe('It broke.');
    const rejected = await client.call(`${agent}__echo`, { message: 'reject' });
    expect(rejected.result).toMatchObject({ isError: true });
    expect(textOf(rejected)).toBe('I would rather not.');
    const word = mark();
    const hello = await client.call(`${agent}__send_message`, { message: `hello ${word}` });
    expect(textOf(hello)).toBe(`hello back: hello ${word}`);
    expect(hello.result.isError).toBeUndefined();
  });

  test('without elicitation returns the question, and a call with the task id answers it', async () => {
    const client = modern();
    const first = await client.call(`${agent}__echo`, { message: 'ask' });
    expect(first.result.structuredContent).toMatchObject({ state: 'input-required', text: 'Which colour?' });
    expect(first.result.isError).toBeUndefined();
    const { taskId } = first.result.structuredContent;
    const second = await client.call(`${agent}__echo`, { message: 'more', taskId });
    expect(second.result.structuredContent).toMatchObject({ state: 'input-required', text: 'And which size?', taskId });
    const stranger = await modern({}, BOB).call(`${agent}__echo`, { message: 'large', taskId });
    expect(JSON.stringify(stranger)).toMatch(/not.found|unknown task/i);
    const third = await client.call(`${agent}__echo`, { message: 'large', taskId });
    expect(third.result.structuredContent).toMatchObject({ state: 'completed', text: 'you said: large', taskId });
  });

  describe.each(['2025-06-18', '2025-11-25', '2026-07-28'] as const)('from a client of %s', (revision) => {
    test('finishes a task of several turns', async () => {
      const questions: Json[] = [];
      const answer = (params: Json): Json => {
        questions.push(params);
        return { action: 'accept', content: { response: questions.length === 1 ? 'more' : 'large' } };
      };
      const capabilities = { elicitation: revision === '2025-06-18' ? {} : { form: {} } };
      const result = await withClient(revision, { capabilities, answer }, (client) =>
        client.call(`${agent}__echo`, { message: 'ask' }),
      );
      expect(questions.map(({ message }) => message)).toEqual(['Which colour?', 'And which size?']);
      expect(structuredOf(result)).toMatchObject({ state: 'completed', text: 'you said: large' });
    });
  });

  test('from a client with tasks finishes a task of several turns (TSKX-07)', async () => {
    const client = modern({ ...FORM, ...WITH_TASKS });
    const created = await client.call(`${agent}__echo`, { message: 'ask' });
    expect(created.result).toMatchObject({ resultType: 'task' });
    const { taskId } = created.result;
    const look = async (): Promise<Message> => client.request('tasks/get', { taskId });
    const keys = new Set<string>();
    for (const response of ['more', 'large']) {
      const waiting = await eventually(
        look,
        ({ result }) =>
          result.status === 'input_required' && Object.keys(result.inputRequests).every((key) => !keys.has(key)),
      );
      const [key] = Object.keys(waiting.result.inputRequests);
      keys.add(key!);
      await client.request('tasks/update', { taskId, inputResponses: { [key!]: accept({ response }) } });
    }
    const done = await eventually(look, ({ result }) => result.status === 'completed');
    expect(done.result.result.structuredContent).toMatchObject({ state: 'completed', text: 'you said: large' });
  });
});

test("a client with 2025-11-25's own tasks finishes a task of several turns", async () => {
  const client = await LegacyClient.open(
    `${gateway.url}/mcp`,
    '2025-11-25',
    { elicitation: { form: {} } },
    { token: ADA },
  );
  const words = ['more', 'large'];
  client.answer = ({ method }) => (method === 'elicitation/create' ? accept({ response: words.shift() }) : undefined);
  const created = await client.call('one__echo', { message: 'ask' }, { task: { ttl: 60_000 } });
  const { taskId } = created.result.task;
  const done = await client.request('tasks/result', { taskId });
  expect(done.result.structuredContent).toMatchObject({ state: 'completed', text: 'you said: large' });
  const failing = await client.call('one__echo', { message: 'fail' }, { task: { ttl: 60_000 } });
  const failed = await client.request('tasks/result', { taskId: failing.result.task.taskId });
  expect(failed.result).toMatchObject({ isError: true });
  await client.end();
});

describe('a conversation', () => {
  test('continues within a session, and in another session by the argument contextId', async () => {
    const ids = await withClient('2025-11-25', {}, async (client) => {
      const contexts: unknown[] = [];
      for (const message of ['echo a', 'hello b', 'echo c'])
        contexts.push(structuredOf(await client.call('one__echo', { message }))['contextId']);
      return contexts;
    });
    expect(new Set(ids).size).toBe(1);
    const client = modern();
    const again = await client.call('one__echo', { message: 'echo d', contextId: ids[0] });
    expect(again.result.structuredContent.contextId).toBe(ids[0]);
    const other = await client.call('one__echo', { message: 'echo e' });
    expect(other.result.structuredContent.contextId).not.toBe(ids[0]);
  });

  test('that needs a sign-in asks for a visit to the page of the agent, or returns its instructions', async () => {
    const url = 'https://login.example.org/start';
    const client = modern(URLS);
    const waiting = await client.call('one__echo', { message: `login ${url}` });
    const [question] = Object.values(asked(waiting));
    expect(question).toMatchObject({ method: 'elicitation/create', params: { mode: 'url', url } });
    const { requestState } = waiting.result;
    const inputResponses = answersTo(waiting, { action: 'accept' });
    const done = await client.call('one__echo', { message: `login ${url}` }, { requestState, inputResponses });
    expect(done.result.structuredContent).toMatchObject({ state: 'completed' });
    const confirm = await client.call('one__echo', { message: 'login' });
    // A form never asks for a secret (ELI-03).
    expect(Object.values(asked(confirm))[0]!.params).toMatchObject({
      mode: 'form',
      requestedSchema: { properties: {} },
    });
    const told = await modern().call('one__echo', { message: 'login' });
    expect(told.result.structuredContent).toMatchObject({ state: 'auth-required', text: 'Please sign in.' });
    const visited = await withClient(
      '2025-11-25',
      { capabilities: URLS, answer: () => ({ action: 'accept' }) },
      (old) => old.call('one__echo', { message: `login ${url}` }),
    );
    expect(stateOf(visited)).toBe('completed');
  });

  test('that the user declines informs the agent; a cancel ends the task', async () => {
    const client = modern(FORM);
    const args = { message: 'ask' };
    const first = await client.call('one__echo', args);
    const declined = await client.call('one__echo', args, {
      requestState: first.result.requestState,
      inputResponses: answersTo(first, { action: 'decline' }),
    });
    expect(declined.result.structuredContent.state).toBe('completed');
    expect(agents.one.heard.at(-1)!.parts).toMatchObject([{ data: { action: 'decline' } }]);
    const second = await client.call('one__echo', args);
    const cancelled = await client.call('one__echo', args, {
      requestState: second.result.requestState,
      inputResponses: answersTo(second, { action: 'cancel' }),
    });
    expect(cancelled.result).toMatchObject({ isError: true, structuredContent: { state: 'canceled' } });
  });
});

describe('a client that leaves', () => {
  test('a modern call: cancels the task of the agent', async () => {
    const exchange = modern().startCall('one__echo', { message: `wait ${mark()}` }, { meta: { progressToken: 'w' } });
    await exchange.until(({ method }) => method === 'notifications/progress');
    const before = await taskIds('one');
    exchange.abort();
    await eventually(
      () => Promise.all(before.map((id) => stateAt('one', id))),
      (states) => !states.includes('TASK_STATE_WORKING') && !states.includes('TASK_STATE_SUBMITTED'),
    );
  });

  test('a legacy call: cancels the task, also while a question is open', async () => {
    const client = await LegacyClient.open(`${gateway.url}/mcp`, '2025-11-25', FORM, { token: ADA });
    const known = new Set(await taskIds('one'));
    const working = client.start('tools/call', { name: 'one__echo', arguments: { message: 'wait' } });
    const fresh = async (): Promise<string[]> => (await taskIds('one')).filter((id) => !known.has(id));
    const [first] = await eventually(fresh, (ids) => ids.length === 1);
    await client.tell('notifications/cancelled', { requestId: working.id });
    await eventually(
      () => stateAt('one', first),
      (state) => state === 'TASK_STATE_CANCELED',
    );
    known.add(first!);
    const asking = client.start('tools/call', { name: 'one__echo', arguments: { message: 'ask' } });
    await eventually(
      () => client.heard.filter(({ method }) => method === 'elicitation/create'),
      (heard) => heard.length === 1,
    );
    const [second] = await fresh();
    await client.tell('notifications/cancelled', { requestId: asking.id });
    await eventually(
      () => stateAt('one', second),
      (state) => state === 'TASK_STATE_CANCELED',
    );
    await client.end();
  });

  test('a cancelled task: cancels the task of the agent, also while it waits', async () => {
    const client = modern({ ...FORM, ...WITH_TASKS });
    for (const message of ['wait', 'ask']) {
      const known = new Set(await taskIds('one'));
      const { taskId } = (await client.call('one__echo', { message })).result;
      const [id] = await eventually(
        async () => (await taskIds('one')).filter((each) => !known.has(each)),
        (ids) => ids.length === 1,
      );
      const status = message === 'ask' ? 'input_required' : 'working';
      await eventually(
        async () => (await client.request('tasks/get', { taskId })).result.status,
        (now) => now === status,
      );
      await client.request('tasks/cancel', { taskId });
      expect((await client.request('tasks/get', { taskId })).result.status).toBe('cancelled');
      await eventually(
        () => stateAt('one', id),
        (state) => state === 'TASK_STATE_CANCELED',
      );
    }
  });
});

test('a repeated answer counts once, and does not answer the next question', async () => {
  const client = modern(FORM);
  const args = { message: 'ask' };
  const first = await client.call('one__echo', args);
  const retry = {
    requestState: first.result.requestState,
    inputResponses: answersTo(first, accept({ response: 'more' })),
  };
  const second = await client.call('one__echo', args, retry);
  const heard = agents.one.heard.length;
  const again = await client.call('one__echo', args, retry);
  expect(asked(again)).toEqual(asked(second));
  expect(agents.one.heard).toHaveLength(heard);
});

test('a call that exceeds its time limit ends together with its task', async () => {
  const late = await modern().call('hasty__echo', { message: 'wait' });
  expect(late.error?.data).toMatchObject({ reason: 'upstream_timeout', outcome: 'unknown' });
  const [id] = await taskIds('hasty');
  await eventually(
    () => stateAt('hasty', id),
    (state) => state === 'TASK_STATE_CANCELED',
  );
});

test('an agent that is down causes a typed error; empty arguments are refused', async () => {
  const client = modern();
  const gone = await client.call('gone__send_message', { message: 'echo' });
  expect(gone.error?.data?.reason).toBe('upstream_unavailable');
  const empty = await client.call('one__echo', {});
  expect(JSON.stringify(empty)).toContain('is required');
  const unknown = await client.call('one__nothing', { message: 'echo' });
  expect(JSON.stringify(unknown)).toContain('tool_not_found');
});

test('an approval policy applies to an agent like to any server', async () => {
  const word = mark();
  const refused = await modern().call('careful__echo', { message: `echo ${word}` });
  expect(refused.result).toMatchObject({ isError: true });
  expect(textOf(refused)).toContain('approval');
  const client = modern(FORM);
  const args = { message: `ask ${word}` };
  const first = await client.call('careful__echo', args);
  expect(Object.keys(asked(first))).toEqual(['parley/approval']);
  expect(agents.one.heard.some(({ parts }) => parts[0]?.text?.includes(word))).toBe(false);
  const { requestState } = first.result;
  const second = await client.call('careful__echo', args, {
    requestState,
    inputResponses: answersTo(first, accept({ approve: true })),
  });
  const third = await client.call('careful__echo', args, {
    requestState: second.result.requestState,
    inputResponses: answersTo(second, accept({ response: 'blue' })),
  });
  expect(third.result.structuredContent).toMatchObject({ state: 'completed', text: 'you said: blue' });
});
