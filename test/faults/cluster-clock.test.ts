/**
 * Case 30: the clock of one of several replicas jumps by an hour, far more than any lifetime. Sessions, tasks and
 * parked calls continue at all replicas, and none of them gets two owners. New ones are valid at all replicas.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { Program } from '../cluster/support/program.js';
import { ALICE, CLUSTERS, type Replica, type Replicas, startEngines } from '../cluster/support/replicas.js';
import { progressOf, Session, upTo } from '../cluster/support/session.js';
import { Traffic } from '../cluster/support/traffic.js';
import { CountedServer } from '../cluster/support/upstream.js';
import { accept, answersTo, FORM, ModernClient, textOf, WITH_TASKS } from '../era-bridge/support/clients.js';
import { eventually, type Message, sleep } from '../era-bridge/support/wire.js';
import { HttpFixture } from '../fixtures/era-bridge/http.mjs';
import { escaped } from '../input/support/world.js';
import { Clock, HOUR } from './clock.js';

const withTasks = { ...FORM, ...WITH_TASKS };

const CASES = [
  [2, 'ahead', HOUR],
  [2, 'back', -HOUR],
  [3, 'ahead', HOUR],
  [3, 'back', -HOUR],
] as const;

describe.each(CLUSTERS)('replicas over %s', (engine) => {
  let engines: Replicas;
  let counted: CountedServer;
  let asking: HttpFixture;
  let resumable: HttpFixture;
  let program: Program;
  let clock: Clock;

  beforeAll(async () => {
    [engines, counted, asking, resumable] = await Promise.all([
      startEngines(engine),
      new CountedServer().start(),
      new HttpFixture({ revision: '2025-11-25' }).start(),
      new HttpFixture({ revision: '2025-11-25', eventIds: true }).start(),
    ]);
  });
  afterEach(async () => {
    await engines.reset();
    program.remove();
    clock.remove();
  });
  afterAll(async () => {
    await engines?.stop();
    await Promise.all([counted?.close(), asking?.close(), resumable?.close()]);
  });

  const client = (at: Replica, capabilities: object = FORM): ModernClient =>
    new ModernClient(at.mcp, capabilities as Record<string, unknown>, ALICE);

  test.each(CASES)('the clock of one of %i replicas jumps %s by an hour', async (count, name, offset) => {
    const key = (what: string): string => `${what} ${engine} ${count} ${name}`;
    clock = new Clock();
    program = new Program();
    const servers = {
      counted: { url: counted.url },
      asking: { url: asking.url, revision: '2025-11-25' },
      resumable: { url: resumable.url, revision: '2025-11-25' },
      local: program.settings,
    };
    const replicas = await engines.start(count, { servers, limits: { pageSize: 3 } }, [{ env: clock.env }]);
    const [a, b] = replicas as [Replica, Replica];
    const c = replicas[2] ?? b;
    const runs = (of: string): number =>
      [...asking.entries, ...resumable.entries].filter((entry) => entry.kind === 'run' && entry.key === of).length;
    const ask = (at: Replica, server: string, what: string, capabilities?: object): Promise<Message> =>
      client(at, capabilities).call(`${server}__ask`, { key: key(what) });
    const resume = (at: Replica, server: string, what: string, question: Message): Promise<Message> =>
      client(at).call(
        `${server}__ask`,
        { key: key(what) },
        {
          inputResponses: answersTo(question, accept({ answer: 'yes' })),
          requestState: question.result.requestState,
        },
      );
    const task = (at: Replica, created: Message, method = 'tasks/get', params: object = {}): Promise<Message> =>
      client(at, withTasks).request(method, { taskId: created.result.taskId, ...params });
    const finish = async (at: Replica, created: Message, what: string): Promise<void> => {
      const waiting = await eventually(
        () => task(at, created),
        ({ result }) => result?.status === 'input_required',
      );
      const [question] = Object.keys(waiting.result.inputRequests);
      await task(at, created, 'tasks/update', { inputResponses: { [question!]: accept({ answer: 'yes' }) } });
      const done = await eventually(
        () => task(c, created),
        ({ result }) => result.status === 'completed',
      );
      expect(done.result.result.content[0].text).toBe(`${key(what)}: yes`);
      expect(runs(key(what))).toBe(1);
    };

    for (const replica of replicas) expect(textOf(await client(replica).call('local__echo', { text: 'w' }))).toBe('w');
    const owners = (await program.owners(replicas)).map(({ pid }) => pid);
    expect(owners).toHaveLength(1);
    const started = program.started;

    // Started before the jump.
    const sessions = [await Session.open(a), await Session.open(b)];
    const streaming = sessions[0]!.call(a, 'counted__ticks', { key: key('stream'), count: 40, every: 200 }, true);
    await streaming.exchange.until(({ params }) => params?.progress === 3);
    const general = sessions[0]!.listen(a);
    await general.opened;
    const parked = { a: await ask(a, 'asking', 'parked a'), b: await ask(b, 'asking', 'parked b') };
    const portable = await ask(a, 'resumable', 'portable');
    const tasks = { a: await ask(a, 'asking', 'task a', withTasks), b: await ask(b, 'asking', 'task b', withTasks) };
    const page = await client(a).request('tools/list');
    expect(page.result.nextCursor).toBeTypeOf('string');
    const traffic = new Traffic(replicas, 'counted__quick');

    clock.jump(offset);
    // Longer than a lease, so that the replica with the wrong time has renewed every lease.
    await sleep(4_000);
    const during = traffic.calls;
    expect(during).toBeGreaterThan(20);

    for (const session of sessions)
      for (const replica of replicas) expect((await session.request(replica, 'ping')).result).toEqual({});
    expect(textOf(await resume(b, 'asking', 'parked a', parked.a))).toBe(`${key('parked a')}: yes`);
    expect(textOf(await resume(a, 'asking', 'parked b', parked.b))).toBe(`${key('parked b')}: yes`);
    expect(textOf(await resume(c, 'resumable', 'portable', portable))).toBe(`${key('portable')}: yes`);
    await finish(b, tasks.a, 'task a');
    await finish(a, tasks.b, 'task b');
    for (const replica of replicas) {
      const next = await client(replica).request('tools/list', { cursor: page.result.nextCursor });
      expect(next.result?.tools, JSON.stringify(next)).not.toHaveLength(0);
    }
    const all = await streaming.exchange.ended;
    expect(progressOf(all)).toEqual(upTo(40));
    expect(all.filter(({ id }) => id === streaming.id)).toHaveLength(1);
    expect(general.messages.filter(({ error }) => error)).toEqual([]);

    // Started after the jump.
    const [late, other] = [await Session.open(a), await Session.open(b)];
    for (const session of [late, other])
      for (const replica of replicas) expect((await session.request(replica, 'ping')).result).toEqual({});
    const made = await ask(a, 'asking', 'late task', withTasks);
    const stamped = Date.parse((await task(b, made)).result.createdAt);
    expect(Math.abs(stamped - Date.now() - offset)).toBeLessThan(60_000);
    await finish(b, made, 'late task');
    const asked = await ask(a, 'resumable', 'late portable');
    expect(textOf(await resume(c, 'resumable', 'late portable', asked))).toBe(`${key('late portable')}: yes`);
    for (const replica of replicas)
      expect(textOf(await client(replica).call('local__echo', { text: 'still' }))).toBe('still');
    expect((await program.owners(replicas)).map(({ pid }) => pid)).toEqual(owners);
    expect(program.started).toBe(started);

    // The clock jumps back.
    clock.jump(0);
    await sleep(1_000);
    for (const session of [...sessions, late, other])
      for (const replica of replicas) expect((await session.request(replica, 'ping')).result).toEqual({});
    expect((await program.owners(replicas)).map(({ pid }) => pid)).toEqual(owners);
    await traffic.stop();
    expect(traffic.failures).toEqual([]);
    for (const of of ['parked a', 'parked b', 'portable', 'late portable']) expect(runs(key(of))).toBe(1);
    expect(counted.runs.filter((run) => run === key('stream'))).toHaveLength(1);
    for (const replica of replicas) expect(escaped(replica.log())).toEqual([]);
    general.abort();
  });
});
