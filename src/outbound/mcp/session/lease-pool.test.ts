import { describe, expect, it } from 'vitest';
import { Cancellation } from '../../../core/caller.js';
import { type Leased, LeasePool } from './lease-pool.js';

class FakeSession implements Leased {
  ended = false;
  lastUsed = 0;
  quiet = (): Promise<boolean> => Promise.resolve(true);
  close = (): Promise<void> => {
    this.ended = true;
    return Promise.resolve();
  };
}

const pool = (options: { max?: number; maxWaiting?: number; patience?: number } = {}) => {
  const opened: FakeSession[] = [];
  const leases = new LeasePool<FakeSession>({
    name: 'old',
    max: 1,
    maxWaiting: 2,
    patience: 60_000,
    ...options,
    open: () => {
      const session = new FakeSession();
      opened.push(session);
      return Promise.resolve(session);
    },
  });
  return { leases, opened };
};

/** A call that holds its session until it is told to end. */
function holding(leases: LeasePool<FakeSession>, cancellation = new Cancellation()) {
  let end = (): void => {};
  const until = new Promise<void>((resolve) => {
    end = resolve;
  });
  const started = leases.use(cancellation, (session) => Promise.resolve({ value: session, until }));
  return { started, end: () => end(), cancellation };
}

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('calls that wait for a session', () => {
  it('get it in the order in which they came', async () => {
    const { leases, opened } = pool();
    const first = holding(leases);
    const session = await first.started;
    const second = holding(leases);
    const third = holding(leases);
    await settled();
    expect(leases.waiting).toBe(2);
    first.end();
    expect(await second.started).toBe(session);
    second.end();
    expect(await third.started).toBe(session);
    expect(opened).toHaveLength(1);
  });

  it('are bounded', async () => {
    const { leases } = pool();
    await holding(leases).started;
    holding(leases).started.catch(() => {});
    holding(leases).started.catch(() => {});
    await expect(holding(leases).started).rejects.toMatchObject({
      reason: 'overloaded',
      detail: { outcome: 'not_executed', data: { server: 'old' } },
    });
  });

  it('leave when they are cancelled', async () => {
    const { leases } = pool();
    const first = holding(leases);
    await first.started;
    const gone = holding(leases);
    const last = holding(leases);
    gone.cancellation.cancel();
    await expect(gone.started).rejects.toMatchObject({ reason: 'cancelled' });
    expect(leases.waiting).toBe(1);
    first.end();
    await last.started;
  });

  it('wait no longer than they may', async () => {
    const { leases } = pool({ patience: 10 });
    await holding(leases).started;
    await expect(holding(leases).started).rejects.toMatchObject({ reason: 'upstream_timeout' });
    expect(leases.waiting).toBe(0);
  });

  it('end with the pool, and so does a session in use when its call is over', async () => {
    const { leases, opened } = pool();
    const first = holding(leases);
    await first.started;
    const waiting = holding(leases);
    waiting.started.catch(() => {});
    await leases.close();
    await expect(waiting.started).rejects.toMatchObject({ reason: 'upstream_unavailable' });
    await expect(holding(leases).started).rejects.toMatchObject({ reason: 'upstream_unavailable' });
    first.end();
    await settled();
    await settled();
    expect(opened[0]!.ended).toBe(true);
  });

  it('get a new session where the one before has ended', async () => {
    const { leases, opened } = pool();
    const first = holding(leases);
    (await first.started).ended = true;
    const second = holding(leases);
    first.end();
    expect(await second.started).toBe(opened[1]);
  });
});
