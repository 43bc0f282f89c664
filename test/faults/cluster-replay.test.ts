/** Case 14: unknown, expired and foreign event ids at replicas that did not make the stream. */
import { Redis } from 'ioredis';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { ALICE, BOB, CLUSTERS, type Replica, type Replicas, startEngines } from '../cluster/support/replicas.js';
import { progressOf, upTo } from '../cluster/support/session.js';
import { CountedServer } from '../cluster/support/upstream.js';
import type { Message } from '../era-bridge/support/wire.js';
import { LEGACY, Session } from '../input/support/speak.js';
import { type Event, EventStream, eventually } from '../input/support/wire.js';
import { escaped } from '../input/support/world.js';

type Headers = Readonly<Record<string, string>>;

const CASES = CLUSTERS.flatMap((engine) => [2, 3].map((count) => [count, engine] as const));
const GARBAGE = [
  ...['', '0', 's999.1', 's0.-1', '-r0.1', 'r0.1', 'ev:*:*.1', '__proto__.1', 'constructor.1', '../../etc/passwd'],
  ...["' OR 1=1 --", `${'a'.repeat(61)}-r0.1`, 'x'.repeat(10_000), '9'.repeat(400)],
];

const bearer = (token: string): Headers => ({ authorization: `Bearer ${token}` });
const idOf = (event: Event | undefined): string => event!.id!;
const heardFrom = (...streams: EventStream[]): Message[] => streams.flatMap(({ messages }) => messages as Message[]);
const streamOf = (id: string): string => id.replace(/\.\d+$/, '');

const seqOf = (event: Event | undefined): number => Number(idOf(event).replace(/^.*\./, ''));

/** Makes ids in the format of `id` that no client ever received. */
const unknown = (id: string): string[] => {
  const stream = streamOf(id);
  const others = [stream.replace(/r\d+$/, 'r99'), stream.replace(/r(\d+)$/, 's$1'), `x${stream}`, stream.toUpperCase()];
  return [`${stream}.999999`, `${stream}.500`, `${stream}.-1`, `${id}.1`, stream, ...others.map((name) => `${name}.3`)];
};

describe.each(CASES)('ids of events at %i replicas over %s', (count, engine) => {
  let engines: Replicas;
  let counted: CountedServer;
  let replicas: Replica[];
  let a: Replica;
  let others: Replica[];

  beforeAll(async () => {
    [engines, counted] = await Promise.all([startEngines(engine), new CountedServer().start()]);
    replicas = await engines.start(count, { servers: { counted: { url: counted.url } } });
    [a, ...others] = replicas as [Replica, ...Replica[]];
  });
  afterEach(() => {
    for (const replica of replicas) {
      expect(replica.dead).toBe(false);
      expect(escaped(replica.log())).toEqual([]);
    }
  });
  afterAll(async () => {
    await engines?.stop();
    await counted?.close();
  });

  const open = (version = '2025-11-25', token = ALICE): Promise<Session> => Session.open(a.mcp, version, bearer(token));

  const call = (at: Replica, { headers }: Session, key: string, args: object, id = 1): Promise<EventStream> => {
    const params = { name: 'counted__ticks', arguments: { key, ...args }, _meta: { progressToken: id } };
    return EventStream.open(at.mcp, {
      method: 'POST',
      headers,
      body: { jsonrpc: '2.0', id, method: 'tools/call', params },
    });
  };

  const run = async (...of: Parameters<typeof call>): Promise<Event[]> => {
    const stream = await call(...of);
    await stream.end(60_000);
    return stream.events;
  };

  const get = (at: Replica, headers: Headers, last: string): Promise<EventStream> =>
    EventStream.open(at.mcp, { headers: { ...headers, accept: 'text/event-stream', 'last-event-id': last } });

  const replay = async (at: Replica, headers: Headers, last: string): Promise<Event[] | undefined> => {
    const stream = await get(at, headers, last);
    await stream.end();
    const refused = stream.messages.some((message) => (message as Message).error?.data?.reason === 'event_not_found');
    return stream.status === 200 && !refused ? stream.events : undefined;
  };

  /** The ids that are not refused as expected, with the answer to each. */
  const served = async (
    at: Replica,
    headers: Headers,
    ids: string[],
    reason = 'event_not_found',
  ): Promise<string[]> => {
    const look = async (last: string): Promise<string[]> => {
      const stream = await get(at, headers, last);
      await stream.end(5_000).catch(() => stream.close());
      const shown = `${last.slice(0, 60)}: HTTP ${stream.status} ${stream.ended} ${stream.text.slice(0, 200)}`;
      // A live session never gets 404. An id that names its request is refused with an error answer to that request.
      const refused = stream.status === 200 && stream.messages.length === 1;
      if (!refused && stream.status !== (reason === 'session_not_found' ? 404 : 400)) return [shown];
      const { error } = (refused ? stream.messages[0] : JSON.parse(stream.text)) as Message;
      return error?.code === -32000 && error.data.reason === reason ? [] : [shown];
    };
    return (await Promise.all(ids.map(look))).flat();
  };

  /** Expects that every event of a finished stream can be resumed from, at every replica except its maker. */
  const expectResumable = async (headers: Headers, events: Event[]): Promise<void> => {
    for (const at of others) {
      const rests = await Promise.all(events.map((event) => replay(at, headers, idOf(event))));
      expect(rests).toEqual(events.map((_, i) => events.slice(i + 1)));
    }
  };

  /** Makes all streams expire, as after their lifetime without new events. */
  const expireAll = async (): Promise<void> => {
    if (engines.redis) {
      const redis = new Redis(engines.redis.url);
      const keys = await redis.keys('*s:{*}ev:*');
      expect(keys).not.toEqual([]);
      for (const key of keys) await redis.pexpire(key, 1);
      redis.disconnect();
      return;
    }
    const client = new pg.Client({ connectionString: engines.db });
    await client.connect();
    const { rowCount } = await client.query(
      "UPDATE streams SET expires_at = expires_at - ttl WHERE stream LIKE '{replica:%}ev:%' AND expires_at > ttl",
    );
    await client.end();
    expect(rowCount).toBeGreaterThan(0);
  };

  test.each(LEGACY.slice(1))('14: %s: unknown, foreign and malformed ids are refused', async (version) => {
    const [mine, other, bobs] = await Promise.all([open(version), open(version), open(version, BOB)]);
    const foreign = await Promise.all([
      run(a, other, 'of the other session', { count: 5 }),
      run(others[0]!, other, 'of the other session, made here', { count: 5 }, 2),
      run(a, bobs, 'of bob', { count: 5 }),
    ]);
    const key = `mine ${engine} ${count} ${version}`;
    const cut = await call(a, mine, key, { count: 80, every: 50 });
    await cut.until(({ messages }) => messages.length >= 3);
    const last = idOf(cut.events.at(-1));
    const heard = heardFrom(cut);
    cut.close();
    const resumed = await Promise.all(others.map((at) => get(at, mine.headers, last)));
    const ids = [...foreign.flat().map(idOf), ...unknown(last), ...GARBAGE];
    const [stolen, gone] = [{ ...mine.headers, ...bearer(BOB) }, 'session_not_found'];
    const said = others.flatMap((at) => [
      served(at, mine.headers, ids),
      ...[other, bobs].map(({ headers }) => served(at, headers, [last])),
      served(at, stolen, [last], gone),
    ]);
    expect((await Promise.all(said)).flat()).toEqual([]);
    for (const stream of resumed) {
      expect(stream.status).toBe(200);
      await stream.end();
      const all = [...heard, ...heardFrom(stream)];
      expect(progressOf(all)).toEqual(upTo(80));
      expect(all.filter(({ id }) => id === 1)).toHaveLength(1);
      expect(all.at(-1)?.result.content[0].text).toBe(`${key} done`);
      expect(stream.text).not.toMatch(/of the other session|of bob/);
    }
    expect(counted.runs.filter((ran) => ran === key)).toHaveLength(1);
    await expectResumable(other.headers, foreign[0]);
    await expectResumable(bobs.headers, foreign[2]);
  });

  test('14: an id of one stream of a session resumes that stream and no other', async () => {
    const mine = await open();
    const [first, second] = await Promise.all([
      run(a, mine, 'first', { count: 5 }, 1),
      run(a, mine, 'second', { count: 30 }, 2),
    ]);
    await expectResumable(mine.headers, first);
    await expectResumable(mine.headers, second);
    // Event numbers that only the second stream has. The first number after the end of the first stream is tested
    // elsewhere.
    const beyond = second.slice(first.length + 1).map((event) => `${streamOf(idOf(first[0]))}.${seqOf(event)}`);
    for (const at of others) expect(await served(at, mine.headers, beyond)).toEqual([]);
  });

  test('14: the numbers before the first event and after the last event of a finished stream are unknown', async () => {
    const mine = await open();
    const events = await run(a, mine, 'bounds', { count: 5 });
    const ids = [0, events.length + 1].map((seq) => `${streamOf(idOf(events[0]))}.${seq}`);
    for (const at of replicas) expect(await served(at, mine.headers, ids)).toEqual([]);
  });

  test.each([
    // Slow enough that the gateway drops no progress.
    ['events', { count: 1_200, every: 4 }],
    ['bytes', { count: 80, every: 0, size: 20_000 }],
  ])('14: ids beyond the bound on %s are refused, the rest is replayed without a gap', async (name, args) => {
    const mine = await open();
    const events = await run(a, mine, `many ${name}`, args);
    expect(events.map(seqOf)).toEqual(upTo(events.length));
    expect(events.length).toBeGreaterThan(args.count);
    const some = events.filter((_, i) => i % Math.ceil(args.count / 40) === 0 || i > args.count - 3);
    for (const at of others) {
      const rests = await Promise.all(some.map((event) => replay(at, mine.headers, idOf(event))));
      const kept = rests.findIndex((rest) => rest !== undefined);
      expect(kept).toBeGreaterThan(0);
      expect(rests.slice(kept)).toEqual(some.slice(kept).map((event) => events.slice(seqOf(event))));
      expect(await served(at, mine.headers, some.slice(0, kept).map(idOf))).toEqual([]);
    }
  });

  test('14: if the copy on the bus has expired, the events come from the maker, which keeps them for longer', async () => {
    const mine = await open();
    const events = await run(a, mine, 'old', { count: 5 });
    await expectResumable(mine.headers, events);
    await expireAll();
    await expectResumable(mine.headers, events);
  });

  test('14: a stream that expires while it is read ends for its readers, and every replica replays the rest', async () => {
    const mine = await open();
    const key = `expires ${engine} ${count}`;
    const cut = await call(a, mine, key, { count: 40, every: 100 });
    await cut.until(({ messages }) => messages.length >= 3);
    const heard = heardFrom(cut);
    cut.close();
    const readers = await Promise.all(others.map((at) => get(at, mine.headers, idOf(cut.events.at(-1)))));
    await Promise.all(readers.map((reader) => reader.until(({ messages }) => messages.length >= 5)));
    await expireAll();
    await Promise.all(readers.map((reader) => reader.end()));
    await eventually(() => counted.over.includes(key), Boolean);
    for (const [i, reader] of readers.entries()) {
      const rest = await get(others[i]!, mine.headers, idOf(reader.events.at(-1)));
      await rest.end();
      const all = [...heard, ...heardFrom(reader, rest)];
      expect(progressOf(all)).toEqual(upTo(40));
      expect(all.filter(({ id }) => id === 1)).toHaveLength(1);
    }
    expect(counted.runs.filter((ran) => ran === key)).toHaveLength(1);
  });
});
