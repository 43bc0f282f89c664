/**
 * Case 30: the event loop of a replica is blocked, as a plugin might do, while it serves calls and owns a process.
 * A block shorter than its lease has no effect; a longer one fences it like a frozen replica, and it recovers.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { Program } from '../cluster/support/program.js';
import { ALICE, CLUSTERS, type Replica, type Replicas, startEngines } from '../cluster/support/replicas.js';
import { progressOf, Session, upTo } from '../cluster/support/session.js';
import { Traffic } from '../cluster/support/traffic.js';
import { CountedServer } from '../cluster/support/upstream.js';
import { ModernClient, textOf } from '../era-bridge/support/clients.js';
import { type Exchange, eventually, type Message, sleep } from '../era-bridge/support/wire.js';
import { escaped } from '../input/support/world.js';
import { Clock } from './clock.js';

const CALLS = 10;
const TICKS = 60;
const RECOVERED = 5_000;

const CASES = [
  [2, 2_000],
  [2, 5_000],
  [3, 2_000],
  [3, 5_000],
] as const;

describe.each(CLUSTERS)('replicas over %s', (engine) => {
  let engines: Replicas;
  let counted: CountedServer;
  let program: Program;
  let clock: Clock;

  beforeAll(async () => {
    [engines, counted] = await Promise.all([startEngines(engine), new CountedServer().start()]);
  });
  afterEach(async () => {
    await engines.reset();
    program.remove();
    clock.remove();
  });
  afterAll(async () => {
    await engines?.stop();
    await counted?.close();
  });

  const call = (at: Replica, name: string, args: object): Promise<Message> =>
    new ModernClient(at.mcp, {}, ALICE).call(name, args as Record<string, unknown>);

  test.each(CASES)('one of %i replicas is blocked for %i ms', async (count, blockMs) => {
    const key = (what: string | number): string => `${what} ${engine} ${count} ${blockMs}`;
    clock = new Clock(blockMs);
    program = new Program();
    const servers = { counted: { url: counted.url }, local: program.settings };
    const options = Array.from({ length: count }, () => ({ env: clock.env }));
    const replicas = await engines.start(count, { servers }, options);
    for (const replica of replicas) expect(textOf(await call(replica, 'local__echo', { text: 'warm' }))).toBe('warm');
    const [busy] = await program.owners(replicas);
    const others = replicas.filter((replica) => replica !== busy);
    const [other] = others;
    const last = others.at(-1)!;

    // Calls that run at the blocked replica: some are read at another replica, one at the blocked replica.
    const streams: { session: Session; id: number; key: string; heard: Message[]; exchange: Exchange }[] = [];
    for (let i = 0; i < CALLS; i++) {
      const session = await Session.open(busy!);
      const args = { key: key(i), count: TICKS, every: 200 };
      const { id, exchange } = session.call(busy!, 'counted__ticks', args, true);
      await exchange.until(({ params }) => params?.progress === 1);
      exchange.abort();
      await exchange.ended;
      const rest = session.listen(i % 2 ? other! : last, exchange.lastEventId!);
      rest.lastEventId = exchange.lastEventId;
      streams.push({ session, id, key: key(i), heard: [...exchange.messages], exchange: rest });
    }
    const direct = await Session.open(busy!);
    const own = direct.call(busy!, 'counted__ticks', { key: key('own'), count: TICKS, every: 200 }, true);
    await own.exchange.until(({ params }) => params?.progress === 1);
    const slow = call(other!, 'local__slow', { key: key('slow'), milliseconds: blockMs + 1_500 });
    await eventually(
      () => program.runs(key('slow')),
      (runs) => runs === 1,
    );
    const started = program.started;
    const traffic = new Traffic(others, 'counted__quick');

    process.kill(busy!.pid, 'SIGUSR2');
    const began = performance.now();
    await sleep(blockMs);
    const answered = await eventually(
      () =>
        call(busy!, 'counted__quick', { key: key('back') }).then(
          (message) => textOf(message) === `${key('back')} done`,
          () => false,
        ),
      (well) => well,
      RECOVERED,
    );
    expect(answered).toBe(true);
    const back = Math.round(performance.now() - began - blockMs);

    const outcome = await slow;
    for (const streaming of streams) streaming.heard.push(...(await streaming.exchange.ended));
    const said = await own.exchange.ended;
    const worst = await traffic.stop();
    expect(traffic.failures).toEqual([]);

    let cut = 0;
    for (const { session, id, key: of, heard, exchange } of streams) {
      const ends = heard.filter((message) => message.id === id);
      expect(ends).toHaveLength(1);
      expect(heard.at(-1)?.id).toBe(id);
      const seen = progressOf(heard);
      expect(seen).toEqual(upTo(seen.length));
      if (ends[0]!.error) {
        cut++;
        expect(ends[0]!.error.data).toMatchObject({ outcome: 'unknown' });
      } else {
        expect(textOf(ends[0]!)).toBe(`${of} done`);
        expect(seen).toHaveLength(TICKS);
      }
      // Every replica replays the same terminal event.
      for (const replica of replicas) {
        const replay = await session.listen(replica, exchange.lastEventId!.replace(/\d+$/, '2')).ended;
        expect(replay.filter((message) => message.id === id)).toHaveLength(1);
        expect(replay.at(-1)?.id).toBe(id);
        expect(replay.at(-1)?.error === undefined).toBe(ends[0]!.error === undefined);
      }
      expect(counted.runs.filter((run) => run === of)).toHaveLength(1);
    }
    console.log(
      `${engine}, ${count} replicas, blocked for ${blockMs} ms: ${CALLS - cut} calls continued, ${cut} were ended by another; ` +
        `it served requests again ${back} ms later; worst call elsewhere ${Math.round(worst)} ms`,
    );
    expect(progressOf(said)).toEqual(upTo(TICKS));
    expect(said.filter(({ id }) => id === own.id)).toHaveLength(1);
    expect(program.runs(key('slow'))).toBe(1);
    if (blockMs < 3_000) {
      // Shorter than the lease: no replica was declared dead.
      expect(cut).toBe(0);
      expect(textOf(outcome)).toBe(`${key('slow')}: slept`);
      expect(program.started).toBe(started);
    } else if (outcome.error) expect(outcome.error.data).toMatchObject({ outcome: 'unknown' });

    for (const replica of replicas)
      await eventually(
        () => call(replica, 'local__echo', { text: 'after' }).then(textOf),
        (text) => text === 'after',
        RECOVERED,
      );
    await eventually(
      () => program.owners(replicas),
      (owners) => owners.length === 1,
    );
    for (const replica of replicas) {
      expect(replica.dead).toBe(false);
      expect(escaped(replica.log())).toEqual([]);
    }
  });
});
