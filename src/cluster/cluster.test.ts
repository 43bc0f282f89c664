/** Messages and streams between replicas. The faulty bus fails at random: before an operation, or after it. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { FaultyBus } from '../../test/support/faulty-state.js';
import { Cancellation } from '../core/caller.js';
import { ReplicaGone } from '../core/cluster.js';
import { LOG_LIMITS, LoggedStream } from '../inbound/mcp/session/event-log.js';
import type { EventSink, Resumable } from '../inbound/mcp/session/shared-streams.js';
import { ProtocolError } from '../protocol/errors.js';
import type { JsonValue } from '../protocol/jsonrpc/raw.js';
import { type Bus, openState, type State } from '../state/index.js';
import { SILENT } from '../telemetry/log.js';
import { Membership } from './membership.js';
import { ReplicaMessages } from './replica-messages.js';
import { BusStreams } from './session-streams/shared-session-streams.js';

const LEASE = { lease: 600, renew: 150 };
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

describe.each(['sound', 'faulty'])('replicas on a %s bus', (kind) => {
  let folder: string;
  let state: State;
  let seed = 1;
  const stops: (() => unknown)[] = [];

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'parley-cluster-'));
    state = await openState({ data: folder, sweepMs: 0, pollMs: 100 });
  });
  afterEach(async () => {
    for (const stop of stops.splice(0).reverse()) await stop();
    await state.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const bus = (): Bus =>
    kind === 'sound' ? state.bus : new FaultyBus(state.bus, { seed: seed++, before: 0.05, after: 0.05 });

  const replica = async (
    name: string,
  ): Promise<{ membership: Membership; messages: ReplicaMessages; streams: BusStreams }> => {
    const own = bus();
    const membership = await Membership.join(own, name, LEASE, () => {});
    const messages = await ReplicaMessages.open(own, membership, SILENT, { watchEvery: 50 });
    stops.push(
      () => membership.leave(),
      () => messages.close(),
    );
    return { membership, messages, streams: new BusStreams(own, membership, SILENT, messages) };
  };

  /** While the bus is away, a request is refused at once. The test repeats the request, as a client would. */
  const insist = async <T>(ask: () => Promise<T>): Promise<T> => {
    for (;;) {
      try {
        return await ask();
      } catch (error) {
        if (!(error instanceof ProtocolError) || error.reason !== 'overloaded') throw error;
        await sleep(1);
      }
    }
  };

  test('events that are sent before an answer arrive before the answer, in order and once', async () => {
    const [a, b] = [await replica('a'), await replica('b')];
    b.messages.handle('count', async (payload, asked) => {
      for (let i = 1; i <= 20; i++) asked.emit(i);
      return { to: payload };
    });
    await Promise.all(
      Array.from({ length: 20 }, async (_, n) => {
        let events: JsonValue[] = [];
        const answer = await insist(() => {
          events = [];
          return a.messages.ask('b', 'count', n, { onEvent: (event) => events.push(event) });
        });
        expect(answer).toEqual({ to: n });
        expect(events).toEqual(Array.from({ length: 20 }, (__, i) => i + 1));
      }),
    );
  });

  test('an error keeps its reason and data, and a cancellation reaches the running work', async () => {
    const [a, b] = [await replica('a'), await replica('b')];
    b.messages.handle('refuse', async () => {
      throw new ProtocolError('task_not_found', 'Unknown task', { data: { taskId: 't' } });
    });
    await expect(insist(() => a.messages.ask('b', 'refuse', null))).rejects.toMatchObject({
      reason: 'task_not_found',
      detail: { data: { taskId: 't' } },
    });
    b.messages.handle(
      'wait',
      (_, asked) => new Promise((resolve) => asked.cancellation.onCancel((why) => resolve(why ?? ''))),
    );
    const cancellation = new Cancellation();
    const answer = insist(() => a.messages.ask('b', 'wait', null, { cancellation }));
    await sleep(100);
    cancellation.cancel('enough');
    expect(await answer).toBe('enough');
  });

  test('every replica but the sender gets a message once', async () => {
    const all = [await replica('a'), await replica('b'), await replica('c')];
    const heard: string[] = [];
    for (const { messages } of all) messages.onTold('news', (value) => heard.push(`${messages.self} ${value}`));
    await sleep(kind === 'sound' ? 0 : 1_000);
    for (let i = 0; i < 10; i++) await all[0]!.messages.tell('news', i);
    await expect.poll(() => heard.length, { timeout: 10_000 }).toBe(20);
    expect(heard.filter((text) => text.startsWith('b'))).toEqual(Array.from({ length: 10 }, (_, i) => `b ${i}`));
  });

  test('a message under a key reaches the replicas that follow the key, and no others', async () => {
    const [a, b, c] = [await replica('a'), await replica('b'), await replica('c')];
    const heard: string[] = [];
    for (const { messages } of [a, b, c]) messages.onTold('news', (value) => heard.push(`${messages.self} ${value}`));
    await b.messages.follow('session one');
    await b.messages.follow('session one');
    await c.messages.follow('session two');
    await sleep(kind === 'sound' ? 0 : 1_000);
    for (let i = 0; i < 5; i++) await insist(() => a.messages.tell('news', i, 'session one'));
    await expect.poll(() => heard.length, { timeout: 10_000 }).toBe(5);
    b.messages.unfollow('session one');
    await insist(() => a.messages.tell('news', 5, 'session one'));
    await expect.poll(() => heard.length, { timeout: 10_000 }).toBe(6);
    b.messages.unfollow('session one');
    await insist(() => a.messages.tell('news', 6, 'session one'));
    await insist(() => a.messages.tell('news', 7));
    await expect.poll(() => heard.length, { timeout: 10_000 }).toBe(8);
    expect(heard).not.toContain('c 0');
    expect(heard.filter((text) => text.endsWith('7')).sort()).toEqual(['b 7', 'c 7']);
  }, 120_000);

  test('a request to a replica that leaves is rejected', async () => {
    const [a, b] = [await replica('a'), await replica('b')];
    b.messages.handle('wait', () => new Promise(() => {}));
    await sleep(2_100);
    const answer = insist(() => a.messages.ask('b', 'wait', null)).catch((error: unknown) => error);
    await sleep(200);
    b.messages.close();
    await b.membership.leave();
    expect(await answer).toBeInstanceOf(ReplicaGone);
  });

  test('another replica reads a growing stream without gaps or duplicates', async () => {
    const [a, b] = [await replica('a'), await replica('b')];
    const name = `${a.streams.prefix()}s1`;
    const copy = a.streams.open('session', name, 7);
    const texts = Array.from({ length: 120 }, (_, i) => `{"n":${i + 1}}`);
    const writing = (async () => {
      for (const text of texts) expect(await copy.append(text)).toBe(true);
      await copy.finish();
    })();
    const reader = await insist(async () => {
      const found = await b.streams.find('session', name, 1).catch((error: unknown) => {
        if (error instanceof ProtocolError && error.reason === 'event_not_found') return undefined;
        throw error;
      });
      if (found) return found;
      await sleep(20);
      throw new ProtocolError('overloaded', 'not there yet');
    });
    const heard: string[] = [];
    await new Promise<void>((resolve) =>
      reader.connect({ event: (id, data) => heard.push(`${id} ${Buffer.concat(data)}`), end: () => resolve() }, 1),
    );
    await writing;
    expect(heard).toEqual(texts.map((text, i) => `${name}.${i + 2} ${text}`));
    expect(await insist(() => b.streams.find('other session', name, 1))).toBeUndefined();
  }, 120_000);
});

describe('a stream without a copy on the bus', () => {
  let folder: string;
  let state: State;
  const stops: (() => unknown)[] = [];

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'parley-cluster-'));
    state = await openState({ data: folder, sweepMs: 0, pollMs: 100 });
  });
  afterEach(async () => {
    for (const stop of stops.splice(0).reverse()) await stop();
    await state.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const replica = async (
    name: string,
    bus: Bus = state.bus,
  ): Promise<{ leave(): Promise<void>; streams: BusStreams }> => {
    const membership = await Membership.join(bus, name, LEASE, () => {});
    const messages = await ReplicaMessages.open(bus, membership, SILENT, { watchEvery: 50 });
    const leave = async (): Promise<void> => {
      messages.close();
      await membership.leave();
    };
    stops.push(leave);
    return { leave, streams: new BusStreams(bus, membership, SILENT, messages) };
  };

  const read = (stream: Resumable, after: number): { heard: string[]; ended: Promise<unknown>; sink: EventSink } => {
    const heard: string[] = [];
    let end = (_: unknown): void => {};
    const ended = new Promise((resolve) => {
      end = resolve;
    });
    const sink: EventSink = { event: (id, data) => heard.push(`${id} ${Buffer.concat(data)}`), end };
    stream.connect(sink, after);
    return { heard, ended, sink };
  };
  const text = (n: number): Buffer[] => [Buffer.from(`event ${n}`)];

  test('is read from the replica that makes it while it grows; a later reader takes the place of an earlier one', async () => {
    const [a, b] = [await replica('a'), await replica('b')];
    const stream = new LoggedStream('a-0-s0', LOG_LIMITS);
    a.streams.serve((session, id) => (session === 'mine' && id === stream.id ? stream : undefined));
    for (let n = 1; n <= 3; n++) stream.append(text(n));
    expect(await b.streams.find('other', stream.id, 1)).toBeUndefined();
    expect(await b.streams.find('mine', 'a-0-s1', 1)).toBeUndefined();
    expect(await b.streams.find('mine', stream.id, 4)).toBeUndefined();
    const left = read((await b.streams.find('mine', stream.id, 3))!, 3);
    await expect.poll(() => stream.connected).toBe(true);
    const again = (await b.streams.find('mine', stream.id, 0))!;
    // The second reader has ended the connection of the first one.
    await left.ended;
    const { heard, ended } = read(again, 0);
    await expect.poll(() => heard.length).toBe(3);
    for (let n = 4; n <= 50; n++) {
      stream.append(text(n));
      if (n % 10 === 0) await sleep(20);
    }
    stream.finish();
    await ended;
    expect(heard).toEqual(Array.from({ length: 50 }, (_, i) => `a-0-s0.${i + 1} event ${i + 1}`));
    expect(left.heard).toEqual([]);
  });

  test('costs few reads of the bus if a caller invents event ids, and streams of other callers are found', async () => {
    const a = await replica('a');
    let reads = 0;
    const counting = new Proxy(state.bus, {
      get: (bus, name) => {
        if (name === 'tail') reads++;
        const member: unknown = Reflect.get(bus, name);
        return typeof member === 'function' ? member.bind(bus) : member;
      },
    });
    const b = await replica('b', counting);
    a.streams.serve(() => undefined);
    const forged = Array.from({ length: 40 }, (_, n) => b.streams.find('mine', `a-0-r${n}`, 5, 'mallory'));
    const late = `${a.streams.prefix()}r0`;
    const found = b.streams.find('hers', late, 1, 'ada');
    await expect.poll(() => reads).toBeGreaterThan(40 + 4);
    a.streams.open('hers', late, 1);
    expect(await found).toBeDefined();
    expect(await Promise.all(forged)).toEqual(forged.map(() => undefined));
    // Every lookup reads once. Only a few lookups wait, each for up to two seconds, and read again.
    expect(reads).toBeLessThan(40 + 6 * 21);
  });

  test('is disconnected at the replica that makes it when the client disconnects from the other replica', async () => {
    const [a, b] = [await replica('a'), await replica('b')];
    const stream = new LoggedStream('a-0-s0', LOG_LIMITS);
    a.streams.serve(() => stream);
    stream.append(text(1));
    const found = (await b.streams.find('mine', stream.id, 1))!;
    const { sink } = read(found, 1);
    await expect.poll(() => stream.connected).toBe(true);
    found.disconnect(sink);
    await expect.poll(() => stream.connected).toBe(false);
  });

  test('ends for its readers when its maker leaves, and is not found afterwards', async () => {
    const [a, b] = [await replica('a'), await replica('b')];
    await sleep(2_100);
    const stream = new LoggedStream('a-0-s0', LOG_LIMITS);
    a.streams.serve(() => stream);
    stream.append(text(1));
    const { heard, ended } = read((await b.streams.find('mine', stream.id, 0))!, 0);
    await expect.poll(() => heard.length).toBe(1);
    await a.leave();
    await ended;
    await expect.poll(() => b.streams.find('mine', stream.id, 0)).toBeUndefined();
  });
});

test('a replica keeps no state about replicas that are gone', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'parley-cluster-'));
  const state = await openState({ data: folder, sweepMs: 0, pollMs: 100 });
  const enter = async (name: string): Promise<{ membership: Membership; messages: ReplicaMessages }> => {
    const membership = await Membership.join(state.bus, name, LEASE, () => {});
    const idle = { outgoingIdle: 500, senderIdle: 500 };
    return {
      membership,
      messages: await ReplicaMessages.open(state.bus, membership, SILENT, { watchEvery: 50, ...idle }),
    };
  };
  const stays = await enter('stays');
  stays.messages.handle('greet', async (name) => name);
  for (let i = 0; i < 20; i++) {
    const { membership, messages } = await enter(`brief-${i}`);
    expect(await messages.ask('stays', 'greet', i)).toBe(i);
    await messages.tell('news', i);
    messages.close();
    await membership.leave();
  }
  await expect.poll(() => stays.messages.remembered, { timeout: 10_000 }).toEqual({ outgoing: 0, senders: 0 });
  // A replica that comes later gets answers as before.
  const { membership, messages } = await enter('late');
  expect(await messages.ask('stays', 'greet', 'one')).toBe('one');
  await expect.poll(() => stays.messages.remembered, { timeout: 10_000 }).toEqual({ outgoing: 0, senders: 0 });
  expect(await messages.ask('stays', 'greet', 'two')).toBe('two');
  for (const one of [messages, stays.messages]) one.close();
  await Promise.all([membership.leave(), stays.membership.leave()]);
  await state.close();
  rmSync(folder, { recursive: true, force: true });
});
