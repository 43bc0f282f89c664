import { describe, expect, it } from 'vitest';
import { Cancellation } from '../../../core/caller.js';
import { CredentialError } from '../server-errors.js';
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
  });
  const open = (): Promise<FakeSession> => {
    const session = new FakeSession();
    opened.push(session);
    return Promise.resolve(session);
  };
  /** Starts a call that holds its session until the test ends it. */
  const hold = (opens = open) => {
    const cancellation = new Cancellation();
    let end = (): void => {};
    const until = new Promise<void>((resolve) => {
      end = resolve;
    });
    const started = leases.use(cancellation, opens, (session) => Promise.resolve({ value: session, until }));
    return { started, end: () => end(), cancellation };
  };
  return { leases, opened, hold };
};

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('calls that wait for a session', () => {
  it('get sessions in order of arrival', async () => {
    const { leases, opened, hold } = pool();
    const first = hold();
    const session = await first.started;
    const second = hold();
    const third = hold();
    await settled();
    expect(leases.waiting).toBe(2);
    first.end();
    expect(await second.started).toBe(session);
    second.end();
    expect(await third.started).toBe(session);
    expect(opened).toHaveLength(1);
  });

  it('are limited in number', async () => {
    const { hold } = pool();
    await hold().started;
    hold().started.catch(() => {});
    hold().started.catch(() => {});
    await expect(hold().started).rejects.toMatchObject({
      reason: 'overloaded',
      detail: { outcome: 'not_executed', data: { server: 'old' } },
    });
  });

  it('leave the queue when they are cancelled', async () => {
    const { leases, hold } = pool();
    const first = hold();
    await first.started;
    const gone = hold();
    const last = hold();
    gone.cancellation.cancel();
    await expect(gone.started).rejects.toMatchObject({ reason: 'cancelled' });
    expect(leases.waiting).toBe(1);
    first.end();
    await last.started;
  });

  it('fail after the time limit', async () => {
    const { leases, hold } = pool({ patience: 10 });
    await hold().started;
    await expect(hold().started).rejects.toMatchObject({ reason: 'upstream_timeout' });
    expect(leases.waiting).toBe(0);
  });

  it('end when the pool closes; a session in use ends with its call', async () => {
    const { leases, opened, hold } = pool();
    const first = hold();
    await first.started;
    const waiting = hold();
    waiting.started.catch(() => {});
    await leases.close();
    await expect(waiting.started).rejects.toMatchObject({ reason: 'upstream_unavailable' });
    await expect(hold().started).rejects.toMatchObject({ reason: 'upstream_unavailable' });
    first.end();
    await settled();
    await settled();
    expect(opened[0]!.ended).toBe(true);
  });

  it('get a new session if the released session has ended', async () => {
    const { opened, hold } = pool();
    const first = hold();
    (await first.started).ended = true;
    const session = new FakeSession();
    const second = hold(() => Promise.resolve(session));
    first.end();
    // The call that needs the session opens it.
    expect(await second.started).toBe(session);
    expect(opened).toHaveLength(1);
  });

  it('get the session of a call that is cancelled while it is opened', async () => {
    const { leases, hold } = pool();
    const session = new FakeSession();
    let opened = (): void => {};
    const slow = new Promise<FakeSession>((resolve) => {
      opened = () => resolve(session);
    });
    const gone = hold(() => slow);
    const next = hold();
    await settled();
    expect(leases.waiting).toBe(1);
    gone.cancellation.cancel();
    await expect(gone.started).rejects.toMatchObject({ reason: 'cancelled', detail: { outcome: 'not_executed' } });
    opened();
    expect(await next.started).toBe(session);
  });

  it('get a session although the call before them lacks a credential to open one', async () => {
    const { opened, hold } = pool();
    const first = hold();
    (await first.started).ended = true;
    const lacking = hold(() => Promise.reject(new CredentialError('upstream_unauthorized', 'Link your account')));
    const next = hold();
    first.end();
    await expect(lacking.started).rejects.toThrow('Link your account');
    expect(await next.started).toBe(opened[1]);
  });
});
