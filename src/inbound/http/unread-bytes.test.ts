import { afterEach, describe, expect, it } from 'vitest';
import { Client, closeAll, get, serve, sleep, until } from '../../../test/support/raw-http-clients.js';
import { SETTINGS } from './listener.js';
import { UnreadBytes } from './unread-bytes.js';

class Slow {
  cut = false;

  constructor(public unread: number) {}

  destroy(): void {
    this.cut = true;
  }
}

function stand(bytes: number, stall = 1_000) {
  const clock = { now: 0 };
  const told: string[] = [];
  const all = new UnreadBytes(
    { bytes, stall },
    (count, why) => void told.push(`${count} ${why}`),
    () => clock.now,
  );
  const add = (unread: number): Slow => {
    const reader = new Slow(unread);
    clock.now++;
    all.waits(reader);
    return reader;
  };
  return { clock, told, all, add };
}

describe('bytes that wait for slow readers', () => {
  it('are allowed within their limit', () => {
    const { all, add, told } = stand(1_000);
    const readers = [add(400), add(600)];
    expect(readers.map(({ cut }) => cut)).toEqual([false, false]);
    expect([all.bytes, told]).toEqual([1_000, []]);
  });

  it('beyond the limit, the oldest reader is disconnected', () => {
    const { all, add, told } = stand(1_000);
    const readers = [add(400), add(400), add(400)];
    expect(readers.map(({ cut }) => cut)).toEqual([true, false, false]);
    expect([all.bytes, told]).toEqual([800, ['1 limit']]);
  });

  it('do not include bytes that were read in the meantime', () => {
    const { all, add } = stand(1_000);
    const [first, second] = [add(400), add(400)];
    second.unread = 0;
    const third = add(400);
    expect([first, second, third].map(({ cut }) => cut)).toEqual([false, false, false]);
    expect(all.bytes).toBe(800);
  });

  it('beyond the limit, a reader that reads nothing is disconnected before one that reads slowly', () => {
    const { all, add, clock } = stand(1_000);
    const [first, second] = [add(400), add(400)];
    clock.now = 500;
    first.unread = 399;
    all.check();
    add(400);
    expect([first.cut, second.cut]).toEqual([false, true]);
  });

  it('may exceed the limit for a single response', () => {
    const { add } = stand(1_000);
    const [small, large] = [add(10), add(5_000)];
    expect([small.cut, large.cut]).toEqual([true, false]);
    expect(add(10).cut).toBe(false);
    expect(large.cut).toBe(true);
  });

  it('are dropped if the reader reads nothing for too long', () => {
    const { all, add, clock, told } = stand(1_000);
    const [dead, alive] = [add(10), add(10)];
    clock.now = 900;
    alive.unread = 9;
    all.check();
    clock.now = 1_500;
    all.check();
    expect([dead.cut, alive.cut, told]).toEqual([true, false, ['1 stall']]);
    all.gone(alive);
    expect(all.bytes).toBe(0);
  });

  it('are no longer counted after the response', () => {
    const { all, add } = stand(1_000);
    const reader = add(10);
    all.gone(reader);
    all.gone(reader);
    expect(all.bytes).toBe(0);
  });
});

describe('a listener whose clients do not read', () => {
  afterEach(closeAll);
  const LARGE = 8_000_000;
  const limits = { ...SETTINGS.limits, unread: 3 * LARGE };
  const large = Buffer.alloc(LARGE, 97);

  it.each(['whole', 'as a stream'])('buffers no more than its limit for all of them: %s', async (how) => {
    const outcomes: boolean[] = [];
    const { port, listener, told } = await serve(
      (req, res) => {
        res.onClose(() => outcomes.push(res.finished));
        if (req.target === '/small') res.sendText(200, [], 'small');
        else if (how === 'whole') res.send(200, [], [large]);
        else {
          res.open(200, []);
          for (let at = 0; at < LARGE; at += 500_000) res.write([large.subarray(at, at + 500_000)]);
          res.end();
        }
      },
      { limits },
    );
    const slow: Client[] = [];
    for (let i = 0; i < 12; i++) {
      const client = await Client.open(port);
      client.socket.pause();
      client.send(get('/large'));
      slow.push(client);
      await until(() => listener.unread.bytes <= limits.unread && listener.count >= 1);
    }
    await until(() => outcomes.length >= 6);
    expect(listener.unread.bytes).toBeLessThanOrEqual(limits.unread);
    expect(told[0]).toMatchObject({ message: expect.stringContaining('limits.unread') });
    // Other clients are served, and a remaining client that reads gets the whole response.
    const other = (await Client.open(port)).send(get('/small'));
    expect((await other.reply()).body).toBe('small');
    const last = slow.at(-1)!;
    last.socket.resume();
    expect((await last.reply()).body.length).toBe(LARGE);
    await sleep(10);
    expect(slow[0]!.size).toBe(0);
    slow[0]!.socket.resume();
    await slow[0]!.end();
    expect(slow[0]!.replies).toEqual([]);
  });
});
