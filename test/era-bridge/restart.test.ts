/** The state of tasks after the process that ran them was killed. */
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { HttpFixture } from '../fixtures/era-bridge/http.mjs';
import { Tasks } from '../fixtures/era-bridge/tasks.mjs';
import { type RunningGateway, startGateway } from '../support/gateway.js';
import { accept, answersTo, FORM, LegacyClient, ModernClient, textOf, WITH_TASKS } from './support/clients.js';
import { eventually } from './support/wire.js';
import { runsOf, tokenOf, tokensFor } from './support/world.js';

let data: string;
let fixture: HttpFixture;
let gateway: RunningGateway;

const start = (): Promise<RunningGateway> =>
  startGateway(
    {
      servers: { core: { url: fixture.url, revision: '2025-11-25' } },
      auth: tokensFor(['alice', 'bob']),
      log: { level: 'warn' },
    },
    { data },
  );

beforeAll(async () => {
  data = await mkdtemp(join(tmpdir(), 'parley-restart-'));
  fixture = await new HttpFixture({ tasks: () => new Tasks() }).start();
  gateway = await start();
});
afterAll(async () => {
  await gateway?.close();
  await fixture?.close();
  await rm(data, { recursive: true, force: true });
});

const modern = (name = 'alice'): ModernClient =>
  new ModernClient(`${gateway.url}/mcp`, { ...FORM, ...WITH_TASKS }, tokenOf(name));

test('kill -9 while tasks run: they have failed with a reason, nothing runs again, and results of finished tasks are kept', async () => {
  const working = (await modern().call('core__slow', { key: 'working', milliseconds: 60_000 })).result.taskId as string;
  const asking = (await modern().call('core__ask', { key: 'asking' })).result.taskId as string;
  const promoted = (await modern().call('core__ask_two', { key: 'promoted' })).result.taskId as string;
  const finished = (await modern().call('core__slow', { key: 'finished', milliseconds: 10 })).result.taskId as string;
  const parked = await new ModernClient(`${gateway.url}/mcp`, FORM, tokenOf('alice')).call('core__chatter', {
    key: 'parked',
  });
  await eventually(
    async () => (await modern().request('tasks/get', { taskId: finished })).result.status,
    (status) => status === 'completed',
  );
  await eventually(
    () => fixture.entries.filter(({ kind }) => kind === 'run').length,
    (runs) => runs === 5,
  );

  gateway.process.kill('SIGKILL');
  await once(gateway.process, 'exit');
  await gateway.close();
  gateway = await start();

  for (const taskId of [working, asking, promoted]) {
    const { result } = await modern().request('tasks/get', { taskId });
    expect(result).toMatchObject({
      status: 'failed',
      statusMessage: expect.stringMatching(/^The gateway .*(restart|gone)/),
      error: { code: -32603, data: { outcome: 'unknown' } },
    });
    expect(result.inputRequests).toBeUndefined();
    expect((await modern().request('tasks/cancel', { taskId })).error).toBeUndefined();
    expect((await modern().request('tasks/update', { taskId, inputResponses: {} })).error).toBeUndefined();
    expect((await modern('bob').request('tasks/get', { taskId })).error?.code).toBe(-32602);
  }
  const kept = (await modern().request('tasks/get', { taskId: finished })).result;
  expect(kept).toMatchObject({ status: 'completed', result: { content: [{ text: 'finished: slept' }] } });

  const legacy = await LegacyClient.open(`${gateway.url}/mcp`, '2025-11-25', FORM, { token: tokenOf('alice') });
  const listed = (await legacy.request('tasks/list')).result.tasks as { taskId: string; status: string }[];
  expect(Object.fromEntries(listed.map(({ taskId, status }) => [taskId, status]))).toEqual({
    [working]: 'failed',
    [asking]: 'failed',
    [promoted]: 'failed',
    [finished]: 'completed',
  });
  expect((await legacy.request('tasks/result', { taskId: working })).error).toMatchObject({
    code: -32603,
    message: expect.stringMatching(/^The gateway .*(restart|gone)/),
  });
  expect(textOf(await legacy.request('tasks/result', { taskId: finished }))).toBe('finished: slept');
  expect((await legacy.request('tasks/cancel', { taskId: working })).error?.code).toBe(-32602);
  await legacy.end();

  const late = await new ModernClient(`${gateway.url}/mcp`, FORM, tokenOf('alice')).call(
    'core__chatter',
    { key: 'parked' },
    {
      inputResponses: answersTo(parked, accept({ answer: 'yes' })),
      requestState: parked.result.requestState,
    },
  );
  expect([-32602, -32603]).toContain(late.error?.code);
  for (const key of ['working', 'asking', 'promoted', 'finished', 'parked'])
    expect(runsOf(fixture.entries, key)).toBe(1);
});

test('a task whose lifetime is over is cancelled at its server', async () => {
  const legacy = await LegacyClient.open(`${gateway.url}/mcp`, '2025-11-25', FORM, { token: tokenOf('alice') });
  const created = await legacy.call('core__ask_two', { key: 'brief' }, { task: { ttl: 700 } });
  const { taskId } = created.result.task;
  await eventually(
    async () => (await legacy.request('tasks/get', { taskId })).result?.status,
    (status) => status === 'input_required',
  );
  await eventually(
    () => fixture.entries.filter(({ kind, key }) => kind === 'answered' && key === 'brief'),
    (answers) => answers.length === 2,
  );
  expect(fixture.entries.filter(({ kind, key }) => kind === 'answered' && key === 'brief')).toMatchObject([
    { result: { action: 'cancel' } },
    { result: { action: 'cancel' } },
  ]);
  const late = await legacy.request('tasks/get', { taskId });
  expect(late.error?.code ?? late.result.status).toSatisfy((seen: unknown) => seen === -32602 || seen === 'failed');
  await legacy.end();
});
