import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ProtocolError } from '../../protocol/errors.js';
import { RawObject } from '../../protocol/jsonrpc/raw.js';
import type { ClientCapabilities, ListKind } from '../../protocol/mcp/model.js';
import { SILENT } from '../../telemetry/log.js';
import type { Caller } from '../caller.js';
import { complete, type Outcome } from '../gateway.js';
import type { ListNews, Upstream, WatchEvent } from '../upstream.js';
import { type CapabilitySet, capabilitySet, NO_CAPABILITIES, namesOf } from './capability-set.js';
import { CatalogServer } from './catalog-server.js';
import { ALL_TOOLS } from './tool-rules.js';

const PATIENCE = 1_000;

/** A server that is silent or fails until the test lets it answer. */
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
      rules: ALL_TOOLS,
      patience: PATIENCE,
      announce: (kind) => this.announced.push(kind),
      log: SILENT,
    });
  }

  private async describe(): Promise<object> {
    this.attempts++;
    if (this.state === 'silent') await new Promise<void>((resolve) => this.waiting.push(resolve));
    if (this.state === 'failing') throw new ProtocolError('upstream_unavailable', 'The server is gone');
    return { capabilities: { tools: {} } };
  }

  become(state: 'silent' | 'failing' | 'up'): void {
    this.state = state;
    for (const go of this.waiting.splice(0)) go();
  }

  /** The time that a caller waits for the server's part of a list, and the result. */
  async list(): Promise<{ waited: number; got: string }> {
    const began = performance.now();
    const { part, missing } = await this.server.part('tools/list', NO_CAPABILITIES, false);
    const got = part?.snapshot.items.map(({ key }) => key).join() ?? missing?.reason ?? 'nothing';
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
  it('causes one wait that all callers share', async () => {
    const first = stand.list();
    await vi.advanceTimersByTimeAsync(600);
    const second = stand.list();
    await vi.advanceTimersByTimeAsync(600);
    expect(await first).toEqual({ waited: PATIENCE, got: 'the server has not answered yet' });
    expect(await second).toEqual({ waited: 400, got: 'the server has not answered yet' });
    expect(await stand.list()).toEqual({ waited: 0, got: 'the server has not answered yet' });
    expect(stand.attempts).toBe(1);
  });

  it('does not delay a caller that asks a second after the start', async () => {
    void stand.server.warm();
    await vi.advanceTimersByTimeAsync(PATIENCE);
    expect((await stand.list()).waited).toBe(0);
  });

  it('is announced once its lists are known', async () => {
    const list = stand.list();
    await vi.advanceTimersByTimeAsync(PATIENCE);
    await list;
    expect(stand.announced).toEqual([]);
    stand.become('up');
    await vi.advanceTimersByTimeAsync(0);
    expect(stand.announced).toEqual(['toolsListChanged']);
    expect(await stand.list()).toEqual({ waited: 0, got: 'a' });
  });

  it('is not announced if no caller got an answer without it', async () => {
    stand.become('up');
    await stand.server.warm();
    expect(stand.announced).toEqual([]);
  });

  it('and fails is reported at once with a reason, tried again, and announced when it answers', async () => {
    stand.become('failing');
    expect(await stand.list()).toEqual({ waited: 0, got: 'The server is gone' });
    await vi.advanceTimersByTimeAsync(60_000);
    const { attempts } = stand;
    expect(attempts).toBeGreaterThan(3);
    expect(attempts).toBeLessThan(12);
    stand.become('up');
    await vi.advanceTimersByTimeAsync(120_000);
    expect(stand.announced).toEqual(['toolsListChanged']);
  });

  it('and also hangs at the second attempt causes one short wait', async () => {
    stand.become('failing');
    await stand.list();
    stand.become('silent');
    await vi.advanceTimersByTimeAsync(2_000);
    const list = stand.list();
    await vi.advanceTimersByTimeAsync(PATIENCE);
    expect((await list).waited).toBeLessThanOrEqual(100);
    expect((await stand.list()).waited).toBe(0);
  });

  it('delays a caller whose view shows only this server', async () => {
    const alone = stand.server.partAlone('tools/list', NO_CAPABILITIES, false);
    await vi.advanceTimersByTimeAsync(10 * PATIENCE);
    stand.become('up');
    expect((await alone).part?.snapshot.items).toHaveLength(1);
  });
});

/** A server that shows the tool `asks` only to clients with roots, in a separate session. */
class Choosy {
  readonly asked: string[] = [];
  readonly announced: [ListKind, CapabilitySet | undefined][] = [];
  news: (capabilities: ClientCapabilities) => ListNews = () => 'pushed';
  hold: Promise<void> | undefined;
  tools = ['plain'];
  more = ['asks'];
  deliver: (event: WatchEvent) => void = () => {};
  readonly server = new CatalogServer({
    upstream: {
      name: 's',
      describe: async () => ({ capabilities: { tools: { listChanged: true } } }),
      request: (caller: Caller) => this.list(caller),
      keepWatching: async (_: unknown, deliver: (event: WatchEvent) => void) => {
        this.deliver = deliver;
      },
      listNews: (_: unknown, capabilities: ClientCapabilities) => this.news(capabilities),
      health: () => ({ status: 'up', speaks: [] }),
    } as unknown as Upstream,
    rules: ALL_TOOLS,
    patience: PATIENCE,
    announce: (kind, set) => this.announced.push([kind, set]),
    log: SILENT,
  });

  private async list({ capabilities }: Caller): Promise<Outcome> {
    this.asked.push(namesOf(capabilitySet(capabilities)).join() || 'none');
    if (capabilities.roots) await this.hold;
    const names = [...this.tools, ...(capabilities.roots ? this.more : [])];
    return complete(RawObject.from({ tools: names.map((name) => ({ name, inputSchema: { type: 'object' } })) }));
  }

  async shown(
    set: CapabilitySet,
  ): Promise<{ names: string[]; missing: string | undefined; varies: boolean | undefined }> {
    const { part, missing } = await this.server.part('tools/list', set, false);
    return {
      names: part?.snapshot.items.map(({ key }) => key) ?? [],
      missing: missing?.reason,
      varies: part?.varies,
    };
  }
}

describe('a server whose lists depend on capabilities', () => {
  const ROOTS = capabilitySet({ roots: {} });
  const SAMPLING = capabilitySet({ sampling: {} });

  it('has one list per capability set, read once', async () => {
    const choosy = new Choosy();
    expect((await choosy.shown(NO_CAPABILITIES)).names).toEqual(['plain']);
    const both = await Promise.all([choosy.shown(ROOTS), choosy.shown(ROOTS)]);
    expect(both.map(({ names }) => names)).toEqual([
      ['plain', 'asks'],
      ['plain', 'asks'],
    ]);
    expect((await choosy.shown(SAMPLING)).names).toEqual(['plain']);
    expect(choosy.asked).toEqual(['none', 'roots', 'sampling']);
    // A list that depends on the caller must not be in a shared cache.
    expect((await choosy.shown(NO_CAPABILITIES)).varies).toBe(true);
    expect(choosy.announced).toEqual([]);
  });

  it('first shows the list for clients without capabilities, and announces the list for others later', async () => {
    const choosy = new Choosy();
    let release = (): void => {};
    choosy.hold = new Promise((resolve) => {
      release = resolve;
    });
    await choosy.server.warm();
    const first = choosy.shown(ROOTS);
    await vi.advanceTimersByTimeAsync(3_000);
    expect(await first).toMatchObject({ names: ['plain'], missing: expect.stringContaining('roots') });
    expect((await choosy.shown(ROOTS)).names).toEqual(['plain']);
    release();
    await vi.advanceTimersByTimeAsync(0);
    expect(choosy.announced).toEqual([['toolsListChanged', ROOTS]]);
    expect(await choosy.shown(ROOTS)).toMatchObject({ names: ['plain', 'asks'], missing: undefined });
  });

  it('resolves tools in the list of the capability set of the caller', async () => {
    const choosy = new Choosy();
    await choosy.server.warm();
    expect(choosy.server.knownTool('plain', ROOTS)?.key).toBe('plain');
    expect(choosy.asked).toEqual(['none']);
    await expect(choosy.server.tool('asks', NO_CAPABILITIES)).rejects.toMatchObject({ reason: 'tool_not_found' });
    expect((await choosy.server.tool('asks', ROOTS))?.key).toBe('asks');
    await expect(choosy.server.tool('asks', SAMPLING)).rejects.toMatchObject({
      reason: 'missing_capability',
      message: 'Server "s" offers tool "asks" to clients that declare roots',
      detail: { data: { requiredCapabilities: { roots: {} } }, outcome: 'not_executed' },
    });
  });

  it.each<[string, ClientCapabilities | undefined, string[]]>([
    ['of every session', undefined, ['none', 'roots', 'sampling']],
    ['of the session without capabilities', {}, ['none', 'sampling']],
    ['of a session with capabilities', { roots: {} }, ['roots']],
  ])('a change %s makes the lists concerned stale', async (_, capabilities, expected) => {
    const choosy = new Choosy();
    // The server sends no notifications for the lists of clients with sampling.
    choosy.news = ({ sampling }) => (sampling ? 'polled' : 'pushed');
    const sets = [NO_CAPABILITIES, ROOTS, SAMPLING];
    for (const set of sets) await choosy.shown(set);
    choosy.asked.length = 0;
    choosy.deliver({ kind: 'toolsListChanged', ...(capabilities && { for: capabilities }) });
    for (const set of sets) await choosy.shown(set);
    expect(choosy.asked).toEqual(expected);
    const told = capabilities?.roots ? ROOTS : undefined;
    expect(choosy.announced).toEqual([['toolsListChanged', told]]);
  });

  it('is not started to read a list that equals the list for clients without capabilities', async () => {
    const choosy = new Choosy();
    choosy.more = [];
    for (const set of [NO_CAPABILITIES, ROOTS]) await choosy.shown(set);
    choosy.news = ({ roots }) => (roots ? 'paused' : 'pushed');
    choosy.tools = ['new'];
    choosy.deliver({ kind: 'toolsListChanged', for: {} });
    expect((await choosy.shown(ROOTS)).names).toEqual(['new']);
    expect(choosy.asked).toEqual(['none', 'roots', 'none']);
    expect((await choosy.shown(ROOTS)).varies).toBe(false);
  });
});
