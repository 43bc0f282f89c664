/** Parked calls, tasks and processes: one replica holds them, all replicas reach them, and no tool runs twice. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { accept, answersTo, asked, FORM, ModernClient, textOf, WITH_TASKS } from '../era-bridge/support/clients.js';
import { eventually, type Message, sleep } from '../era-bridge/support/wire.js';
import { HttpFixture } from '../fixtures/era-bridge/http.mjs';
import { Program } from './support/program.js';
import { ALICE, CLUSTERS, type Replica, type Replicas, startEngines } from './support/replicas.js';
import { Session } from './support/session.js';

/** The lease of a replica, and one second to detect its end. */
const NOTICED = 3_000 + 1_000;

describe.each(CLUSTERS)('calls held by one of three replicas over %s', (engine) => {
  const program = new Program();
  let engines: Replicas;
  let asking: HttpFixture;
  /** Its replies can be resumed, so any replica can resume a call that is parked there. */
  let resumable: HttpFixture;
  let a: Replica;
  let b: Replica;
  let c: Replica;

  beforeAll(async () => {
    [engines, asking, resumable] = await Promise.all([
      startEngines(engine),
      new HttpFixture({ revision: '2025-11-25' }).start(),
      new HttpFixture({ revision: '2025-11-25', eventIds: true }).start(),
    ]);
    const servers = {
      asking: { url: asking.url, revision: '2025-11-25' },
      resumable: { url: resumable.url, revision: '2025-11-25' },
      local: program.settings,
    };
    [a, b, c] = (await engines.start(3, { servers })) as [Replica, Replica, Replica];
  });
  afterAll(async () => {
    await engines?.stop();
    await Promise.all([asking?.close(), resumable?.close()]);
    program.remove();
  });

  const client = (at: Replica, capabilities: object = FORM): ModernClient =>
    new ModernClient(at.mcp, capabilities as Record<string, unknown>, ALICE);

  const retry = (at: Replica, name: string, args: Record<string, unknown>, before: Message, answer: string) =>
    client(at).call(name, args, {
      inputResponses: answersTo(before, accept({ answer })),
      requestState: before.result.requestState,
    });

  const runs = (key: string): number =>
    program.runs(key) +
    [...asking.entries, ...resumable.entries].filter((entry) => entry.kind === 'run' && entry.key === key).length;

  const owners = (): Promise<Replica[]> => program.owners([a, b, c]);

  test('a call parked at A is resumed through B, for several rounds, and its tool runs once (BR-13)', async () => {
    const args = { key: 'parked', rounds: 2 };
    const first = await client(a).call('asking__ask', args);
    expect(Object.keys(asked(first))).toHaveLength(1);
    const second = await retry(b, 'asking__ask', args, first, 'one');
    const last = await retry(c, 'asking__ask', args, second, 'two');
    expect(textOf(last)).toBe('parked: one, two');
    expect(runs('parked')).toBe(1);
    const late = await retry(b, 'asking__ask', args, first, 'one');
    expect(late.error?.data).toMatchObject({ reason: 'invalid_state' });
    expect(runs('parked')).toBe(1);
  });

  test('a resumable parked call is stored sealed, and only while it waits', async () => {
    const args = { key: 'sealed', rounds: 2 };
    const first = await client(a).call('resumable__ask', args);
    const rows = await engines.stored('parked_calls');
    expect(rows).toContain('alice');
    expect(rows).not.toMatch(/sealed question|elicitation|resumable/);
    const second = await retry(b, 'resumable__ask', args, first, 'one');
    expect(textOf(await retry(a, 'resumable__ask', args, second, 'two'))).toBe('sealed: one, two');
    expect(await engines.stored('parked_calls')).toBe('[]');
    expect(runs('sealed')).toBe(1);
  });

  test('a task that runs at A is read, answered, cancelled and awaited through B', async () => {
    const withTasks = { ...FORM, ...WITH_TASKS };
    const created = await client(a, withTasks).call('asking__ask', { key: 'task' });
    expect(created.result.resultType).toBe('task');
    const { taskId } = created.result;
    const at = (replica: Replica, method: string, params: object = {}): Promise<Message> =>
      client(replica, withTasks).request(method, { taskId, ...params });
    const waiting = await eventually(
      () => at(b, 'tasks/get'),
      ({ result }) => result.status === 'input_required',
    );
    const [key] = Object.keys(waiting.result.inputRequests);
    expect(
      (await at(b, 'tasks/update', { inputResponses: { [key!]: accept({ answer: 'by B' }) } })).error,
    ).toBeUndefined();
    const done = await eventually(
      () => at(c, 'tasks/get'),
      ({ result }) => result.status === 'completed',
    );
    expect(done.result.result.content[0].text).toBe('task: by B');
    expect(runs('task')).toBe(1);

    const session = await Session.open(a);
    const task = { ttl: 60_000 };
    const start = async (key: string, milliseconds: number): Promise<string> =>
      (await session.request(a, 'tools/call', { name: 'asking__slow', arguments: { key, milliseconds }, task })).result
        .task.taskId;
    const slow = await start('slow', 1_500);
    expect((await session.request(b, 'tasks/get', { taskId: slow })).result.status).toBe('working');
    expect(textOf(await session.request(b, 'tasks/result', { taskId: slow }))).toBe('slow: slept');
    const doomed = await start('doomed', 60_000);
    expect((await session.request(b, 'tasks/cancel', { taskId: doomed })).result.status).toBe('cancelled');
    expect((await session.request(a, 'tasks/get', { taskId: doomed })).result.status).toBe('cancelled');
  });

  test('a stdio server has one process among all replicas, and every replica reaches it', async () => {
    const said = await Promise.all(
      [a, b, c].map((replica, i) => client(replica).call('local__echo', { text: `from ${i}` })),
    );
    expect(said.map(textOf)).toEqual(['from 0', 'from 1', 'from 2']);
    expect(await owners()).toHaveLength(1);
    // A question of the process crosses to the caller's replica, and the answer crosses back.
    const owner = (await owners())[0]!;
    const [near, far] = [a, b, c].filter((replica) => replica !== owner) as [Replica, Replica];
    const args = { key: 'piped' };
    const question = await client(near).call('local__ask', args);
    expect(textOf(await retry(far, 'local__ask', args, question, 'through two'))).toBe('piped: through two');
    expect(runs('piped')).toBe(1);
    expect((await owners()).map(({ pid }) => pid)).toEqual([owner.pid]);
  });

  test('the death of a replica ends each of its calls with one typed error, and nothing runs again (BR-16)', async () => {
    await client(b).call('local__echo', { text: 'warm' });
    const owner = (await owners())[0]!;
    const [near, far] = [a, b, c].filter((replica) => replica !== owner) as [Replica, Replica];
    const parked = await client(owner).call('asking__ask', { key: 'orphan' });
    const carried = await client(owner).call('resumable__ask', { key: 'carried', rounds: 2 });
    const created = await client(owner, { ...FORM, ...WITH_TASKS }).call('asking__ask', { key: 'orphaned task' });
    const running = client(near).call('local__slow', { key: 'in flight', milliseconds: 30_000 });
    const session = await Session.open(near);
    const general = session.listen(near);
    await general.opened;
    await eventually(
      () => runs('in flight'),
      (count) => count === 1,
    );
    const before = program.started;

    await owner.kill();
    const killed = performance.now();
    const since = (): number => performance.now() - killed;
    const [lost, retried] = await Promise.all([
      running.then((answer) => ({ answer, at: since() })),
      retry(far, 'asking__ask', { key: 'orphan' }, parked, 'too late').then((answer) => ({ answer, at: since() })),
    ]);
    expect(lost.answer.error).toMatchObject({ code: -32603, data: { reason: 'upstream_error', outcome: 'unknown' } });
    expect(retried.answer.error).toMatchObject({
      code: -32603,
      data: { reason: 'upstream_error', outcome: 'unknown' },
    });
    expect(Math.max(lost.at, retried.at)).toBeLessThan(NOTICED);
    // A parked call at a server with resumable replies continues once, at the replica that gets the answer.
    const args = { key: 'carried', rounds: 2 };
    const next = await retry(far, 'resumable__ask', args, carried, 'one');
    expect(textOf(await retry(near, 'resumable__ask', args, next, 'two'))).toBe('carried: one, two');
    const twice = await retry(near, 'resumable__ask', args, carried, 'one');
    expect(twice.error).toBeDefined();
    expect(runs('carried')).toBe(1);
    const task = await client(far, WITH_TASKS).request('tasks/get', { taskId: created.result.taskId });
    expect(task.result).toMatchObject({ status: 'failed', error: { data: { outcome: 'unknown' } } });
    expect(task.result.statusMessage).toMatch(/gone/);

    expect(textOf(await client(near).call('local__echo', { text: 'again' }))).toBe('again');
    await general.until(({ method }) => method === 'notifications/tools/list_changed');
    general.abort();
    const now = await owners();
    expect(now).toHaveLength(1);
    expect(now).not.toContain(owner);
    await sleep(200);
    expect(program.started).toBeGreaterThan(before);
    for (const key of ['orphan', 'orphaned task', 'in flight']) expect(runs(key)).toBe(1);
  });
});
