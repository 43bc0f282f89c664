import { describe, expect, test } from 'vitest';
import type { Cluster } from './cluster.js';
import { ALONE } from './cluster.js';
import { LiveTail, type TailFilter, type TailLine } from './live-tail.js';

const follow = (tail: LiveTail, filter: TailFilter = {}, room = Number.POSITIVE_INFINITY) => {
  const seen: TailLine[] = [];
  const dropped: number[] = [];
  const limit = { room };
  const stop = tail.follow(filter, {
    take: (line, missed) => {
      if (seen.length >= limit.room) return false;
      if (missed > 0) dropped.push(missed);
      seen.push(line);
      return true;
    },
  });
  return { seen, dropped, stop: stop!, limit };
};

const CALLS: TailLine[] = [
  { caller: 'ada', server: 'units', tool: 'convert', outcome: 'ok' },
  { caller: 'bob', server: 'clock', tool: 'now', outcome: 'error' },
  { caller: 'ada', agent: 'planner', outcome: 'ok' },
  { caller: '~acme#eve', method: 'tools/list', outcome: 'cancelled' },
];

describe('the live tail', () => {
  test.each([
    [{}, [0, 1, 2, 3]],
    [{ server: 'pl*' }, [2]],
    [{ tool: 'con*' }, [0]],
    [{ caller: 'bob' }, [1]],
    [{ outcome: 'error' }, [1]],
    [{ only: 'ada' }, [0, 2]],
    [{ only: 'ada', caller: 'bob' }, []],
    [{ tenant: '~acme#' }, [3]],
    [{ reaches: (name: string) => name === 'clock' }, [1, 3]],
  ] as const)('with the filter %j passes the lines %j', (filter, expected) => {
    const tail = new LiveTail();
    const { seen } = follow(tail, filter);
    for (const line of CALLS) tail.publish(line);
    expect(seen).toEqual(expected.map((index) => CALLS[index]));
  });

  test('drops lines of a slow follower, counts them and reports them', () => {
    const tail = new LiveTail();
    const slow = follow(tail, {}, 1);
    const quick = follow(tail);
    for (const line of CALLS) tail.publish(line);
    expect([slow.seen.length, quick.seen.length, tail.droppedInAll]).toEqual([1, 4, 3]);
    slow.limit.room = 10;
    tail.publish(CALLS[0]!);
    expect(slow.dropped).toEqual([3]);
    expect(slow.seen).toHaveLength(2);
  });

  test('is inactive without followers and bounds their number', () => {
    const tail = new LiveTail();
    expect(tail.active()).toBe(false);
    const first = follow(tail);
    expect(tail.active()).toBe(true);
    for (let index = 1; index < 100; index++) follow(tail);
    expect(tail.follow({}, { take: () => true })).toBeUndefined();
    first.stop();
    expect(tail.follow({}, { take: () => true })).toBeDefined();
    tail.close();
    expect(tail.active()).toBe(false);
  });

  test('delivers the lines of other replicas once there is a follower', async () => {
    const [a, b] = twoReplicas();
    const [here, there] = [new LiveTail(a), new LiveTail(b)];
    there.publish(CALLS[0]!);
    const { seen } = follow(here, { caller: 'ada' });
    expect(there.active()).toBe(true);
    for (const line of CALLS) there.publish(line);
    await expect.poll(() => seen).toEqual([CALLS[0], CALLS[2]].map((line) => ({ ...line, replica: 'b' })));
    here.close();
    there.close();
  });

  test('S3: counts only the dropped lines that the follower may see, also those of another replica', async () => {
    const [a, b] = twoReplicas();
    const [here, there] = [new LiveTail(a), new LiveTail(b)];
    const all = follow(here);
    const ada = follow(here, { only: 'ada' });
    const acme = follow(here, { tenant: '~acme#' });
    const line = (caller: string): TailLine => ({ caller, server: 'units', outcome: 'ok' });
    for (let n = 0; n < 500; n++) there.publish(line('bob'));
    for (const [caller, count] of [
      ['bob', 30],
      ['ada', 4],
      ['~acme#eve', 2],
    ] as const)
      for (let n = 0; n < count; n++) there.publish(line(caller));
    await expect.poll(() => all.seen.length).toBe(500);
    for (const caller of ['ada', '~acme#eve']) there.publish(line(caller));
    await expect.poll(() => all.seen.length).toBe(502);
    expect([all.dropped, ada.dropped, acme.dropped]).toEqual([[36], [4], [2]]);
    here.close();
    there.close();
  });
});

/** Two replicas whose messages arrive at once. */
function twoReplicas(): [Cluster, Cluster] {
  const listeners = { a: new Map<string, (payload: never) => void>(), b: new Map<string, (payload: never) => void>() };
  const replica = (self: 'a' | 'b', other: 'a' | 'b'): Cluster => ({
    ...ALONE,
    self,
    tell: async (subject, payload) => listeners[other].get(subject)?.(payload as never),
    onTold: (subject, listener) => {
      listeners[self].set(subject, listener as never);
      return () => listeners[self].delete(subject);
    },
  });
  return [replica('a', 'b'), replica('b', 'a')];
}
