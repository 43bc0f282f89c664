import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ProtocolError } from '../../protocol/errors.js';
import { RawObject } from '../../protocol/jsonrpc/raw.js';
import type { ListKind } from '../../protocol/mcp/model.js';
import { complete } from '../gateway.js';
import type { Upstream } from '../upstream.js';
import { CatalogServer } from './server.js';

const PATIENCE = 1_000;

/** A server that is away until it is told to answer. */
class Stand {
  private state: 'silent' | 'failing' | 'up' = 'silent';
  private waiting: (() => void)[] = [];
  attempts = 0;
  readonly announced: ListKind[] = [];
  readonly server: CatalogServer;

  constructor() {
    const upstream = {
      name: 's',
      describe: () => this.describe(),
      request: async () => complete(RawObject.from({ tools: [{ name: 'a', inputSchema: {} }] })),
      keepWatching: async () => {},
      listNews: () => 'polled',
      health: () => ({ status: 'unknown', speaks: [] }),
    } as unknown as Upstream;
    this.server = new CatalogServer({
      upstream,
      patience: PATIENCE,
      announce: (kind) => this.announced.push(kind),
      log: { debug: () => {}, warn: () => {} },
    });
  }

  private async describe(): Promise<object> {
    this.attempts++;
    if (this.state === 'silent') await new Promise<void>((resolve) => this.waiting.push(resolve));
    if (this.state === 'failing') throw new ProtocolError('upstream_unavailable', 'It is gone');
    return { capabilities: { tools: {} } };
  }

  become(state: 'silent' | 'failing' | 'up'): void {
    this.state = state;
    for (const go of this.waiting.splice(0)) go();
  }

  /** How long a caller waits for the server's part of a list, and what the caller gets. */
  async list(): Promise<{ waited: number; got: string }> {
    const began = performance.now();
    const part = await this.server.part('tools/list', false);
    const got = !part ? 'nothing' : 'snapshot' in part ? part.snapshot.items.map(({ key }) => key).join() : part.reason;
    return { waited: performance.now() - began, got };
  }
}

let stand: Stand;
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] });
  stand = new Stand();
});
afterEach(() => {
  stand.server.close();
  vi.useRealTimers();
});

describe('a server that has not answered yet', () => {
  it('is waited for once, by all callers together', async () => {
    const first = stand.list();
    await vi.advanceTimersByTimeAsync(600);
    const second = stand.list();
    await vi.advanceTimersByTimeAsync(600);
    expect(await first).toEqual({ waited: PATIENCE, got: 'it has not answered yet' });
    expect(await second).toEqual({ waited: 400, got: 'it has not answered yet' });
    expect(await stand.list()).toEqual({ waited: 0, got: 'it has not answered yet' });
    expect(stand.attempts).toBe(1);
  });

  it('is not waited for by a caller that comes a second after the start', async () => {
    void stand.server.warm();
    await vi.advanceTimersByTimeAsync(PATIENCE);
    expect((await stand.list()).waited).toBe(0);
  });

  it('is announced when its lists are there, and not before', async () => {
    const list = stand.list();
    await vi.advanceTimersByTimeAsync(PATIENCE);
    await list;
    expect(stand.announced).toEqual([]);
    stand.become('up');
    await vi.advanceTimersByTimeAsync(0);
    expect(stand.announced).toEqual(['toolsListChanged']);
    expect(await stand.list()).toEqual({ waited: 0, got: 'a' });
  });

  it('is not announced to callers that never missed it', async () => {
    stand.become('up');
    await stand.server.warm();
    expect(stand.announced).toEqual([]);
  });

  it('that fails is named with its reason at once, tried again unasked, and announced', async () => {
    stand.become('failing');
    expect(await stand.list()).toEqual({ waited: 0, got: 'It is gone' });
    await vi.advanceTimersByTimeAsync(60_000);
    const { attempts } = stand;
    expect(attempts).toBeGreaterThan(3);
    expect(attempts).toBeLessThan(12);
    stand.become('up');
    await vi.advanceTimersByTimeAsync(120_000);
    expect(stand.announced).toEqual(['toolsListChanged']);
  });

  it('and hangs at the second attempt too costs a moment, once', async () => {
    stand.become('failing');
    await stand.list();
    stand.become('silent');
    await vi.advanceTimersByTimeAsync(2_000);
    const list = stand.list();
    await vi.advanceTimersByTimeAsync(PATIENCE);
    expect((await list).waited).toBeLessThanOrEqual(100);
    expect((await stand.list()).waited).toBe(0);
  });

  it('is waited for by a caller that sees nothing else', async () => {
    const alone = stand.server.partAlone('tools/list', false);
    await vi.advanceTimersByTimeAsync(10 * PATIENCE);
    stand.become('up');
    expect((await alone)?.snapshot.items).toHaveLength(1);
  });
});
