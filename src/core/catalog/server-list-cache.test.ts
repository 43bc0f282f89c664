import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ProtocolError } from '../../protocol/errors.js';
import { RawObject } from '../../protocol/jsonrpc/raw.js';
import { GATEWAY } from '../caller.js';
import { complete, failed, type Outcome } from '../gateway.js';
import type { ListNews, Upstream } from '../upstream.js';
import { Listing } from './server-list-cache.js';

const MINUTE = 60_000;

/** A listing of a server whose answers the test controls. */
class Stand {
  tools = ['a'];
  ttlMs: number | undefined;
  news: ListNews = 'polled';
  asked = 0;
  announcements = 0;
  private hold: Promise<void> | undefined;
  private broken = false;
  readonly listing = new Listing({
    upstream: { name: 's', request: () => this.answer() } as unknown as Upstream,
    method: 'tools/list',
    caller: GATEWAY,
    news: () => this.news,
    changed: () => {
      this.announcements++;
    },
    warn: () => {},
  });

  private async answer(): Promise<Outcome> {
    this.asked++;
    const tools = this.tools.map((name) => ({ name, inputSchema: { type: 'object' } }));
    await this.hold;
    if (this.broken) return failed(new ProtocolError('upstream_unavailable', 'The server is gone'));
    return complete(RawObject.from({ tools, ...(this.ttlMs !== undefined && { ttlMs: this.ttlMs }) }));
  }

  /** Holds back all answers from now on. Returns the function that sends them. */
  block(): () => void {
    let release = (): void => {};
    this.hold = new Promise((resolve) => {
      release = () => {
        this.hold = undefined;
        resolve();
      };
    });
    return release;
  }

  fail(broken = true): void {
    this.broken = broken;
  }

  async names(): Promise<string[]> {
    return (await this.listing.load()).items.map(({ key }) => key);
  }

  /** The names that a caller sees after waiting at most `patience`. */
  async seen(patience = 1_000): Promise<string[] | undefined> {
    return (await this.listing.within(patience))?.items.map(({ key }) => key);
  }
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] });
});
afterEach(() => {
  vi.useRealTimers();
});

describe('a list is read again', () => {
  it.each<[string, number | undefined, ListNews, number]>([
    ['when the TTL of its server is over', 5_000, 'polled', 5_000],
    ['when the TTL is over, even if its server announces changes', 5_000, 'pushed', 5_000],
    ['every minute if its server neither gives a TTL nor announces changes', undefined, 'polled', MINUTE],
    ['after ten minutes if its server announces changes', undefined, 'pushed', 10 * MINUTE],
    ['after ten minutes if its server gives a TTL of 0 but announces changes', 0, 'pushed', 10 * MINUTE],
    ['once a second if its server allows no caching', 0, 'polled', 1_000],
    ['after an hour if its server is stopped', 5_000, 'paused', 60 * MINUTE],
  ])('%s', async (_, ttlMs, news, interval) => {
    const stand = new Stand();
    Object.assign(stand, { ttlMs, news });
    await stand.names();
    await vi.advanceTimersByTimeAsync(interval - 1);
    await Promise.all([stand.names(), stand.names()]);
    expect(stand.asked).toBe(1);
    await vi.advanceTimersByTimeAsync(2);
    await Promise.all([stand.names(), stand.names()]);
    expect(stand.asked).toBe(2);
  });

  it('once when its server announces a change', async () => {
    const stand = new Stand();
    stand.news = 'pushed';
    await stand.names();
    stand.tools = ['b'];
    stand.listing.invalidate();
    expect(await stand.names()).toEqual(['b']);
    await stand.names();
    expect(stand.asked).toBe(2);
    expect(stand.announcements).toBe(0);
  });

  it('after the current read, if the change came during that read', async () => {
    const stand = new Stand();
    const release = stand.block();
    const first = stand.names();
    stand.tools = ['a', 'b'];
    stand.listing.invalidate();
    const second = stand.names();
    release();
    expect(await first).toEqual(['a']);
    expect(await second).toEqual(['a', 'b']);
    expect(stand.asked).toBe(2);
  });

  it('when a change may have gone unnoticed, unless a read is under way', async () => {
    const stand = new Stand();
    stand.news = 'pushed';
    const release = stand.block();
    const first = stand.names();
    stand.listing.lapse();
    release();
    await first;
    await stand.names();
    expect(stand.asked).toBe(1);
    stand.listing.lapse();
    await stand.names();
    expect(stand.asked).toBe(2);
  });

  it('but not for further pages, unless a change was announced', async () => {
    const stand = new Stand();
    stand.ttlMs = 1_000;
    await stand.names();
    await vi.advanceTimersByTimeAsync(2_000);
    await stand.listing.load(true);
    expect(stand.asked).toBe(1);
    stand.listing.invalidate();
    await stand.listing.load(true);
    expect(stand.asked).toBe(2);
  });
});

describe('callers are notified', () => {
  it('of a list that was missing from their answer', async () => {
    const stand = new Stand();
    const release = stand.block();
    const [first, second] = [stand.seen(), stand.seen()];
    await vi.advanceTimersByTimeAsync(1_000);
    expect([await first, await second]).toEqual([undefined, undefined]);
    expect(stand.announcements).toBe(0);
    release();
    await stand.names();
    expect(stand.announcements).toBe(1);
  });

  it('of a list that arrives after they got an outdated list', async () => {
    const stand = new Stand();
    stand.news = 'pushed';
    await stand.names();
    const release = stand.block();
    stand.tools = ['b'];
    stand.listing.invalidate();
    const seen = stand.seen();
    await vi.advanceTimersByTimeAsync(1_000);
    expect(await seen).toEqual(['a']);
    release();
    await stand.names();
    expect(stand.announcements).toBe(1);
  });

  it('of a change that the server did not announce, but not after a read without a change', async () => {
    const stand = new Stand();
    await stand.names();
    expect(stand.announcements).toBe(0);
    await vi.advanceTimersByTimeAsync(MINUTE);
    const { items } = stand.listing.snapshot!;
    await stand.names();
    expect(stand.announcements).toBe(0);
    expect(stand.listing.snapshot!.items).toBe(items);
    stand.tools = ['b'];
    await vi.advanceTimersByTimeAsync(MINUTE);
    await stand.names();
    expect(stand.announcements).toBe(1);
  });
});

describe('a server that does not answer', () => {
  it('causes one wait that all callers share', async () => {
    const stand = new Stand();
    const release = stand.block();
    const began = performance.now();
    const waiting = [stand.seen()];
    await vi.advanceTimersByTimeAsync(700);
    waiting.push(stand.seen());
    await vi.advanceTimersByTimeAsync(300);
    await Promise.all(waiting);
    expect(performance.now() - began).toBe(1_000);
    expect(await stand.seen()).toBeUndefined();
    expect(performance.now() - began).toBe(1_000);
    expect(stand.asked).toBe(1);
    release();
    await stand.names();
    expect(await stand.seen()).toEqual(['a']);
  });

  it('does not replace the previous list', async () => {
    const stand = new Stand();
    await stand.names();
    await vi.advanceTimersByTimeAsync(MINUTE);
    stand.fail();
    expect(await stand.seen()).toEqual(['a']);
    await expect(stand.names()).rejects.toThrow('The server is gone');
    stand.fail(false);
    expect(await stand.names()).toEqual(['a']);
  });
});

describe('the TTL for callers', () => {
  it.each<[number | undefined, ListNews, number]>([
    [5_000, 'polled', 5_000],
    [undefined, 'polled', 60_000],
    [undefined, 'pushed', 60_000],
    [0, 'pushed', 60_000],
    [0, 'polled', 0],
    [-1, 'polled', 0],
  ])('for a ttl of %s, %s, is %i ms', async (ttlMs, news, ttl) => {
    const stand = new Stand();
    Object.assign(stand, { ttlMs, news });
    await stand.names();
    expect(stand.listing.ttl).toBe(ttl);
    stand.listing.invalidate();
    expect(stand.listing.ttl).toBe(0);
  });
});
