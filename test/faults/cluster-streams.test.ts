/** Cases 23 to 25: streaming clients of two and three replicas while one of them is killed or frozen. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { ALICE, CLUSTERS, type Replica, type Replicas, startEngines } from '../cluster/support/replicas.js';
import { progressOf, Session, upTo } from '../cluster/support/session.js';
import { CountedServer } from '../cluster/support/upstream.js';
import { FORM, ModernClient, WITH_TASKS } from '../era-bridge/support/clients.js';
import { type Exchange, eventually, type Message } from '../era-bridge/support/wire.js';
import { HttpFixture } from '../fixtures/era-bridge/http.mjs';
import { rounds, sleep } from './rounds.js';

const CLIENTS = rounds(60, 15);
const NOTICED = 3_000 + 1_000;

interface Streaming {
  readonly session: Session;
  readonly id: number;
  readonly key: string;
  readonly heard: Message[];
  exchange: Exchange;
}

const CASES = CLUSTERS.flatMap((engine) => [2, 3].map((count) => [count, engine] as const));

describe.each(CASES)(`${CLIENTS} streaming clients of %i replicas over %s`, (count, engine) => {
  let engines: Replicas;
  let counted: CountedServer;
  let asking: HttpFixture;
  let a: Replica;
  let b: Replica;
  /** The third replica if there is one, otherwise B. */
  let c: Replica;

  beforeAll(async () => {
    [engines, counted, asking] = await Promise.all([
      startEngines(engine),
      new CountedServer().start(),
      new HttpFixture({ revision: '2025-11-25' }).start(),
    ]);
  });
  afterEach(async () => {
    counted.hurried = () => false;
    await engines.reset();
  });
  afterAll(async () => {
    await engines?.stop();
    await Promise.all([counted?.close(), asking?.close()]);
  });

  const startReplicas = async (): Promise<void> => {
    const servers = { counted: { url: counted.url }, asking: { url: asking.url, revision: '2025-11-25' } };
    const replicas = (await engines.start(count, { servers })) as [Replica, Replica, Replica?];
    [a, b] = replicas;
    c = replicas[2] ?? b;
  };

  /** A call that runs at A; from the third event on it is read at another replica. */
  const stream = async (key: string, ticks: number, at: Replica): Promise<Streaming> => {
    const session = await Session.open(a);
    const { id, exchange } = session.call(a, 'counted__ticks', { key, count: ticks, every: 200 }, true);
    await exchange.until(({ params }) => params?.progress === 2);
    const streaming: Streaming = { session, id, key, heard: [], exchange };
    await move(streaming, at);
    return streaming;
  };

  /** Cuts the connection and resumes at another replica with the last event id. */
  const move = async (streaming: Streaming, to: Replica): Promise<void> => {
    const { exchange, session, heard } = streaming;
    exchange.abort();
    await exchange.ended;
    heard.push(...exchange.messages);
    const next = session.listen(to, exchange.lastEventId!);
    next.lastEventId = exchange.lastEventId;
    streaming.exchange = next;
    await next.opened;
    if (next.status !== 200) throw new Error(`HTTP ${next.status}: ${JSON.stringify(await next.ended)}`);
  };

  const streamAll = (name: string, ticks: number, ...at: Replica[]): Promise<Streaming[]> =>
    Promise.all(Array.from({ length: CLIENTS }, (_, i) => stream(`${name} ${count} ${i}`, ticks, at[i % at.length]!)));

  const finish = async (streaming: Streaming): Promise<void> => {
    streaming.heard.push(...(await streaming.exchange.ended));
  };

  const answers = ({ heard, id }: Streaming): Message[] => heard.filter((message) => message.id === id);

  test('23 S1-78: the serving replica is killed: 0 events lost, 0 duplicated, all resumed, each tool ran once', async () => {
    await startReplicas();
    const all = await streamAll('served', 40, b);
    await sleep(1_000);
    await b.kill();
    const left = [a, c].filter((replica) => !replica.dead);
    await Promise.all(all.map((streaming, i) => move(streaming, left[i % left.length]!)));
    await Promise.all(all.map(finish));
    for (const streaming of all) {
      expect(progressOf(streaming.heard)).toEqual(upTo(40));
      expect(answers(streaming)).toHaveLength(1);
      expect(answers(streaming)[0]?.result.content[0].text).toBe(`${streaming.key} done`);
      expect(counted.runs.filter((key) => key === streaming.key)).toHaveLength(1);
    }
  });

  test('24: the owning replica is killed: each call ends once, with a typed error, in lease + 1 s', async () => {
    await startReplicas();
    const all = await streamAll('owned', 200, b, c);
    await sleep(500);
    await a.kill();
    const killed = performance.now();
    const ended = await Promise.all(all.map((streaming) => finish(streaming).then(() => performance.now() - killed)));
    for (const streaming of all) {
      const seen = progressOf(streaming.heard);
      expect(seen).toEqual(upTo(seen.length));
      expect(answers(streaming)).toHaveLength(1);
      expect(answers(streaming)[0]?.error).toMatchObject({
        code: -32603,
        data: { reason: 'upstream_error', outcome: 'unknown' },
      });
      expect(streaming.heard.at(-1)?.id).toBe(streaming.id);
      expect(counted.runs.filter((key) => key === streaming.key)).toHaveLength(1);
    }
    console.log(
      `${engine}, ${count} replicas: ${CLIENTS} calls of a dead replica ended ${Math.round(Math.min(...ended))} to ${Math.round(Math.max(...ended))} ms after it`,
    );
    expect(Math.max(...ended)).toBeLessThan(NOTICED);
    // A repeated request gets the same end.
    const [one] = all as [Streaming];
    const again = one.session.listen(b, one.exchange.lastEventId!.replace(/\d+$/, '2'));
    const replay = await again.ended;
    expect(replay.at(-1)?.error?.data).toMatchObject({ outcome: 'unknown' });
  });

  test('25: a replica frozen for 10 s is fenced: nothing follows the end that another replica wrote', async () => {
    await startReplicas();
    const withTasks = { ...FORM, ...WITH_TASKS };
    const task = await new ModernClient(a.mcp, withTasks, ALICE).call('asking__ask', {
      key: `frozen ${engine} ${count}`,
    });
    const all = await streamAll('frozen', 100, b, c);
    const direct = await Session.open(a);
    const own = direct.call(a, 'counted__ticks', { key: `direct ${count}`, count: 100, every: 200 }, true);
    await own.exchange.until(({ params }) => params?.progress === 3);
    a.freeze();
    const frozen = performance.now();
    const ended = await Promise.all(all.map((streaming) => finish(streaming).then(() => performance.now() - frozen)));
    console.log(
      `${engine}, ${count} replicas: ${CLIENTS} calls of a frozen replica ended ${Math.round(Math.min(...ended))} to ${Math.round(Math.max(...ended))} ms after it`,
    );
    expect(Math.max(...ended)).toBeLessThan(NOTICED);
    const get = (at: Replica): Promise<Message> =>
      new ModernClient(at.mcp, withTasks, ALICE).request('tasks/get', { taskId: task.result.taskId });
    expect((await get(b)).result.status).toBe('failed');
    for (const streaming of all) {
      expect(answers(streaming)).toHaveLength(1);
      expect(answers(streaming)[0]?.error?.data).toMatchObject({ outcome: 'unknown' });
    }
    // Half of the calls are answered during the freeze: the replica reads the answers after it is thawed.
    counted.hurried = (key) => /^frozen .*[02468]$/.test(key);
    await sleep(Math.max(0, 10_000 - (performance.now() - frozen)));
    a.thaw();
    // The replica serves again: calls that no other replica ended continue.
    const said = await own.exchange.ended;
    expect(progressOf(said)).toEqual(upTo(100));
    expect(said.filter(({ id }) => id === own.id)).toHaveLength(1);
    await eventually(
      async () => (await direct.request(a, 'ping')).result,
      (result) => result !== undefined,
    );
    for (const streaming of all) {
      const first = streaming.exchange.lastEventId!.replace(/\d+$/, '2');
      for (const replica of new Set([a, b, c])) {
        const replay = streaming.session.listen(replica, first);
        const messages = await replay.ended;
        const seen = progressOf(messages);
        expect(seen).toEqual(upTo(seen.length + 1).slice(1));
        expect(messages.filter(({ id }) => id === streaming.id)).toHaveLength(1);
        expect(messages.at(-1)?.error?.data).toMatchObject({ outcome: 'unknown' });
      }
      expect(progressOf(streaming.heard)).toEqual(upTo(progressOf(streaming.heard).length));
      expect(counted.runs.filter((key) => key === streaming.key)).toHaveLength(1);
    }
    expect((await get(a)).result.status).toBe('failed');
    for (const replica of [b, c]) expect((await get(replica)).result.status).toBe('failed');
  });
});
