import { afterEach, describe, expect, it } from 'vitest';
import { sleep } from '../../core/timing.js';
import type { Child, ExitInfo, StdioCommand } from './child-process.js';
import type { StdioError } from './stdio-error.js';
import { Supervisor } from './supervisor.js';
import type { Clock, Lease, Open, SupervisorOptions } from './supervisor-types.js';

/** A clock that advances only by hand. The processes are real, so `settle` waits for them. */
class FakeClock implements Clock {
  time = 0;
  #timers: { at: number; run: () => void }[] = [];
  now = () => this.time;
  after = (ms: number, run: () => void) => {
    const timer = { at: this.time + ms, run };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  };
  advance(ms: number): void {
    const end = this.time + ms;
    for (;;) {
      const next = this.#timers.filter((timer) => timer.at <= end).sort((a, b) => a.at - b.at)[0];
      if (next === undefined) break;
      this.#timers = this.#timers.filter((timer) => timer !== next);
      this.time = Math.max(this.time, next.at);
      next.run();
    }
    this.time = end;
  }
}

class Session {
  readonly messages: string[] = [];
  readonly exits: ExitInfo[] = [];
  child!: Child;
  constructor(readonly key: string) {}
  message = (line: Buffer) => void this.messages.push(line.toString());
  exit = (info: ExitInfo) => void this.exits.push(info);
}

const READY = `console.log('{"ready":1}');`;
const ECHO = `${READY} process.stdin.pipe(process.stdout);`;

/** Ready after the first message of the child. */
const open: Open<Session> = async (start, { key, signal }) => {
  const session = new Session(key);
  session.child = start(session);
  await until(() => session.messages.length > 0 || signal.aborted);
  signal.throwIfAborted();
  return session;
};

async function until(test: () => boolean): Promise<void> {
  const end = Date.now() + 20_000;
  while (!test()) {
    if (Date.now() > end) throw new Error(`timed out waiting for: ${test}`);
    await sleep(5);
  }
}

const settle = () => sleep(80);

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

const node = (code: string): StdioCommand => ({ command: process.execPath, args: ['-e', code] });

const made: Supervisor<Session>[] = [];

function supervise(command: StdioCommand, options: Partial<SupervisorOptions<Session>> = {}) {
  const clock = new FakeClock();
  let starts = 0;
  const counted: Open<Session> = (start, context) => {
    starts++;
    return (options.open ?? open)(start, context);
  };
  const supervisor = new Supervisor<Session>({
    name: 'test',
    command,
    child: { maxLine: 1_000_000, grace: { eofMs: 300, termMs: 300 } },
    clock,
    random: () => 0.5,
    ...options,
    open: counted,
  });
  made.push(supervisor);
  return { supervisor, clock, starts: () => starts, state: () => supervisor.health().state };
}

async function failure(promise: Promise<unknown>): Promise<StdioError> {
  try {
    await promise;
  } catch (error) {
    return error as StdioError;
  }
  throw new Error('expected a rejection');
}

/** Whether the promise is still pending. */
async function pending(promise: Promise<unknown>): Promise<boolean> {
  await settle();
  return Promise.race([promise.then(() => false), Promise.resolve(true)]);
}

afterEach(async () => {
  await Promise.all(made.splice(0).map((supervisor) => supervisor.close()));
});

describe('Supervisor: on demand', () => {
  it('starts a child on demand, shares it, and reports its state', async () => {
    const { supervisor, starts, state } = supervise(node(ECHO));
    expect(supervisor.health()).toMatchObject({ state: 'idle', pid: undefined, children: 0, restarts: 0 });
    const both = [supervisor.acquire(), supervisor.acquire()];
    expect(state()).toBe('starting');
    const [one, two] = (await Promise.all(both)) as [Lease<Session>, Lease<Session>];
    expect(one.session).toBe(two.session);
    expect(starts()).toBe(1);
    expect(supervisor.health()).toMatchObject({ state: 'running', pid: one.child.pid, children: 1, leases: 2 });
    one.child.send('{"id":1}');
    await until(() => one.session.messages.length === 2);
    one.release();
    one.release();
    expect(supervisor.health().leases).toBe(1);
    two.release();
    expect(supervisor.health().leases).toBe(0);
  });

  it('stops an unused child and starts it again on demand', async () => {
    const { supervisor, clock, state } = supervise(node(ECHO), { idleMs: 1000 });
    const first = await supervisor.acquire();
    clock.advance(5000);
    expect(first.child.alive).toBe(true);
    first.release();
    clock.advance(999);
    const second = await supervisor.acquire();
    expect(second.child).toBe(first.child);
    clock.advance(5000);
    second.release();
    clock.advance(1000);
    await until(() => state() === 'idle' && supervisor.health().children === 0);
    expect(isRunning(first.child.pid)).toBe(false);
    expect(supervisor.health().lastExit).toMatchObject({ expected: true });
    const third = await supervisor.acquire();
    expect(third.child.pid).not.toBe(first.child.pid);
    expect(supervisor.health().restarts).toBe(0);
  });

  it('keeps the configured number of unused children', async () => {
    const { supervisor, clock } = supervise(node(ECHO), { idleMs: 1000, keep: 1 });
    const leases = await Promise.all([
      supervisor.acquire({ exclusive: true }),
      supervisor.acquire({ exclusive: true }),
    ]);
    for (const lease of leases) lease.release();
    clock.advance(1000);
    await until(() => supervisor.health().children === 1);
    clock.advance(10_000);
    await settle();
    expect(supervisor.health()).toMatchObject({ state: 'running', children: 1 });
  });

  it('explains a start that ends with an exit', async () => {
    const { supervisor } = supervise(node(`console.error('KEY is not set'); process.exit(2)`));
    const error = await failure(supervisor.acquire());
    expect(error).toMatchObject({ reason: 'exited', exit: { code: 2 } });
    expect(error.message).toBe(
      `\`${process.execPath} -e "console.error('KEY is not set'); process.exit(2)"\` exited with code 2 while it was ` +
        'starting: KEY is not set; set it in "env" of this server, because the environment of the gateway is not passed on',
    );
    expect(error.summary).toBe('its process exited with code 2 while it was starting: a setting it needs is missing');
    expect(supervisor.output().map(({ stream, text }) => [stream, text])).toEqual([
      ['process', expect.stringMatching(/^started: `/)],
      ['stderr', 'KEY is not set'],
      ['process', 'ended with code 2'],
    ]);
    expect(supervisor.health()).toMatchObject({
      state: 'backoff',
      lastExit: { code: 2 },
      stderrTail: 'KEY is not set\n',
    });
  });

  it('an expendable child may end during the opening, and another one replaces it', async () => {
    const opened: number[] = [];
    const { supervisor, clock, state } = supervise(node(`${ECHO} process.stdin.on('data', () => process.exit(3))`), {
      openMs: 5000,
      open: async (start, { key, become }) => {
        const first = new Session(key);
        first.child = start(first, { expendable: true });
        expect(() => start(first)).toThrow('one child at a time');
        opened.push(first.child.pid);
        clock.advance(3000);
        await until(() => first.messages.length > 0);
        first.child.send('{"id":1}');
        await until(() => first.exits.length > 0);
        expect(first.exits[0]).toMatchObject({ code: 3, failure: { summary: expect.stringContaining('code 3') } });
        const second = new Session(key);
        second.child = start(second);
        clock.advance(3000);
        opened.push(second.child.pid);
        await until(() => second.messages.length > 0);
        become('other');
        return second;
      },
    });
    const lease = await supervisor.acquire({ key: 'first' });
    expect(new Set(opened).size).toBe(2);
    expect(lease.child.pid).toBe(opened[1]);
    expect(supervisor.health()).toMatchObject({ state: 'running', children: 1, restarts: 0, lastError: undefined });
    // The session now has its new key.
    const shared = await supervisor.acquire({ key: 'other' });
    expect(shared.child).toBe(lease.child);
    shared.release();
    lease.release();
    // The end of the second child ends the session.
    lease.child.send('{"id":1}');
    await until(() => state() === 'backoff');
  });

  it('an expendable child has the full time limit', async () => {
    const { supervisor, clock } = supervise(node('process.stdin.resume()'), {
      openMs: 5000,
      open: async (start, { key, signal }) => {
        const session = new Session(key);
        session.child = start(session, { expendable: true });
        clock.advance(5000);
        await until(() => signal.aborted);
        return session;
      },
    });
    expect(await failure(supervisor.acquire())).toMatchObject({ reason: 'timeout' });
  });

  it('names a missing command', async () => {
    const { supervisor, state } = supervise({ command: 'no-such-command-x' });
    expect(await failure(supervisor.acquire())).toMatchObject({ reason: 'not_found' });
    expect(state()).toBe('backoff');
    expect(supervisor.health().lastError).toContain('no-such-command-x');
  });

  it('ends an opening that takes too long, and its child', async () => {
    const { supervisor, clock, state } = supervise(node('setInterval(() => {}, 1000)'), { openMs: 5000 });
    const lease = failure(supervisor.acquire());
    await until(() => supervisor.health().pid !== undefined);
    const pid = supervisor.health().pid ?? 0;
    clock.advance(5000);
    expect(await lease).toMatchObject({ reason: 'timeout' });
    await until(() => !isRunning(pid));
    expect(state()).toBe('backoff');
  });

  it('the signal ends the wait and removes the waiter', async () => {
    const { supervisor } = supervise(node(ECHO), { max: 1 });
    const first = await supervisor.acquire({ exclusive: true });
    const abort = new AbortController();
    const second = failure(supervisor.acquire({ exclusive: true, signal: abort.signal }));
    const third = supervisor.acquire();
    expect(supervisor.health().waiting).toBe(2);
    abort.abort(new Error('enough'));
    expect((await second).message).toBe('enough');
    expect(await pending(third)).toBe(true);
    first.release();
    expect((await third).child).toBe(first.child);
    expect((await failure(supervisor.acquire({ signal: AbortSignal.abort(new Error('before')) }))).message).toBe(
      'before',
    );
  });
});

describe('Supervisor: the pool', () => {
  it('an exclusive lease shares its child with no other; released children keep running', async () => {
    const { supervisor, starts } = supervise(node(ECHO), { max: 3 });
    const shared = await supervisor.acquire();
    const one = await supervisor.acquire({ exclusive: true });
    const two = await supervisor.acquire({ exclusive: true });
    expect(new Set([shared.child, one.child, two.child]).size).toBe(3);
    const third = supervisor.acquire({ exclusive: true });
    expect(await pending(third)).toBe(true);
    const other = await supervisor.acquire();
    expect(other.child).toBe(shared.child);
    one.release();
    expect((await third).child).toBe(one.child);
    two.release();
    for (let call = 0; call < 20; call++) {
      const lease = await supervisor.acquire({ exclusive: true });
      expect(lease.child).toBe(two.child);
      lease.release();
    }
    expect(starts()).toBe(3);
  });

  it('exclusive leases always leave one child for shared use', async () => {
    const { supervisor } = supervise(node(ECHO), { max: 2 });
    const one = await supervisor.acquire({ exclusive: true });
    const two = supervisor.acquire({ exclusive: true });
    expect(await pending(two)).toBe(true);
    const shared = await supervisor.acquire();
    expect(shared.child).not.toBe(one.child);
    one.release();
    expect((await two).child).toBe(one.child);
  });

  it('with one child, shared and exclusive leases are granted in order', async () => {
    const { supervisor, starts } = supervise(node(ECHO), { max: 1 });
    const order: string[] = [];
    const shared = await supervisor.acquire();
    const exclusive = supervisor.acquire({ exclusive: true }).then((lease) => {
      order.push('exclusive');
      return lease;
    });
    const late = supervisor.acquire().then((lease) => {
      order.push('late');
      return lease;
    });
    await settle();
    expect(order).toEqual([]);
    shared.release();
    (await exclusive).release();
    (await late).release();
    expect(order).toEqual(['exclusive', 'late']);
    expect(starts()).toBe(1);
  });

  it('sessions of different keys never share a child, and make room for each other', async () => {
    const { supervisor } = supervise(node(ECHO), { max: 2 });
    const a = await supervisor.acquire({ key: 'a' });
    const b = await supervisor.acquire({ key: 'b' });
    expect(a.child).not.toBe(b.child);
    expect([a.session.key, b.session.key]).toEqual(['a', 'b']);
    const c = supervisor.acquire({ key: 'c' });
    expect(await pending(c)).toBe(true);
    a.release();
    expect((await c).session.key).toBe('c');
    expect(a.child.alive).toBe(false);
    expect(b.child.alive).toBe(true);
    expect(supervisor.health()).toMatchObject({ children: 2, restarts: 0 });
  });

  it('a discarded child is stopped and replaced, without a pause', async () => {
    const { supervisor, state } = supervise(node(ECHO), { max: 1 });
    const bad = await supervisor.acquire({ exclusive: true });
    const next = supervisor.acquire({ exclusive: true });
    bad.discard();
    const good = await next;
    expect(good.child).not.toBe(bad.child);
    expect(bad.session.exits).toMatchObject([{ expected: true }]);
    expect(state()).toBe('running');
  });

  it('never starts more children than its limit', async () => {
    const { supervisor, starts } = supervise(node(ECHO), { max: 3 });
    let most = 0;
    const using = new Map<Child, number>();
    const calls = Array.from({ length: 60 }, async (_, n) => {
      const exclusive = n % 3 === 0;
      const lease = await supervisor.acquire({ exclusive });
      const others = using.get(lease.child) ?? 0;
      if (exclusive) expect(others).toBe(0);
      using.set(lease.child, others + (exclusive ? 1000 : 1));
      expect(using.get(lease.child)).toBeLessThanOrEqual(1000);
      most = Math.max(most, supervisor.health().children);
      await sleep(5);
      using.set(lease.child, (using.get(lease.child) ?? 0) - (exclusive ? 1000 : 1));
      lease.release();
    });
    await Promise.all(calls);
    expect(most).toBeLessThanOrEqual(3);
    expect(starts()).toBeLessThanOrEqual(3);
    expect(supervisor.health()).toMatchObject({ leases: 0, waiting: 0 });
  });

  it('a sibling is a separate process and ends after its use', async () => {
    const { supervisor, starts } = supervise(node(ECHO));
    const session = new Session('');
    const pid = await supervisor.sibling(async (start) => {
      const child = start(session);
      await until(() => session.messages.length === 1);
      expect(supervisor.health()).toMatchObject({ state: 'idle', children: 0 });
      return child.pid;
    });
    await until(() => !isRunning(pid));
    expect(starts()).toBe(0);
    await expect(
      supervisor.sibling(async (start) => {
        start(session);
        throw new Error('no answer');
      }),
    ).rejects.toThrow('no answer');
  });
});

describe('Supervisor: restarts', () => {
  it('STD-09: restarts a child that ended in use, after a pause', async () => {
    const { supervisor, clock, state, starts } = supervise(node(ECHO));
    const first = await supervisor.acquire();
    process.kill(first.child.pid, 'SIGKILL');
    await until(() => first.session.exits.length === 1);
    expect(supervisor.health()).toMatchObject({ state: 'backoff', retryInMs: 1000, lastExit: { signal: 'SIGKILL' } });
    const next = supervisor.acquire();
    clock.advance(999);
    expect(await pending(next)).toBe(true);
    clock.advance(1);
    const second = await next;
    expect(second.child.pid).not.toBe(first.child.pid);
    expect(supervisor.health()).toMatchObject({ state: 'running', restarts: 1, leases: 1 });

    process.kill(second.child.pid, 'SIGKILL');
    await until(() => state() === 'backoff');
    clock.advance(2000);
    await until(() => state() === 'running');
    expect(starts()).toBe(3);
    first.release();
    second.release();
    expect(supervisor.health().leases).toBe(0);
  });

  it('does not restart a child that ended while it was unused', async () => {
    const { supervisor, clock, state, starts } = supervise(node(ECHO));
    const lease = await supervisor.acquire();
    lease.release();
    process.kill(lease.child.pid, 'SIGKILL');
    await until(() => state() === 'backoff');
    clock.advance(1000);
    expect(state()).toBe('idle');
    await settle();
    expect(starts()).toBe(1);
  });

  it('the shortest pause follows a child that served long enough', async () => {
    const { supervisor, clock } = supervise(node(ECHO));
    for (let round = 0; round < 7; round++) {
      const lease = await supervisor.acquire();
      clock.advance(10_000);
      process.kill(lease.child.pid, 'SIGKILL');
      await until(() => supervisor.health().retryInMs === 1000);
      clock.advance(1000);
    }
  });

  it('50 restarts: the pauses grow to a minute, and no process remains', async () => {
    const { supervisor, clock, starts } = supervise(node(`${READY} process.stdin.resume()`), {
      restart: { failAfter: 100 },
    });
    const pauses: number[] = [];
    const pids: number[] = [];
    for (let round = 0; round <= 50; round++) {
      const lease = await supervisor.acquire();
      pids.push(lease.child.pid);
      process.kill(lease.child.pid, 'SIGKILL');
      await until(() => lease.session.exits.length === 1);
      const pause = supervisor.health().retryInMs ?? 0;
      pauses.push(pause);
      clock.advance(pause);
    }
    expect(pauses.slice(0, 7)).toEqual([1000, 2000, 4000, 8000, 16_000, 32_000, 60_000]);
    expect(pauses.slice(7).every((pause) => pause === 60_000)).toBe(true);
    expect(supervisor.health().restarts).toBe(starts() - 1);
    expect(pids.filter(isRunning)).toEqual([]);
  }, 60_000);

  it('a child is not restarted during the pause after five failures, whatever the number of requests', async () => {
    const { supervisor, clock, state, starts } = supervise(node('process.exitCode = 1'));
    const reasons: string[] = [];
    for (let call = 0; call < 50; call++) {
      reasons.push((await failure(supervisor.acquire())).reason);
      if (state() === 'backoff') clock.advance(supervisor.health().retryInMs ?? 0);
    }
    expect(starts()).toBe(5);
    expect(reasons.slice(0, 4)).toEqual(['exited', 'exited', 'exited', 'exited']);
    expect(new Set(reasons.slice(4))).toEqual(new Set(['failed']));
    expect(supervisor.health()).toMatchObject({ state: 'failed', retryInMs: 60_000, restarts: 4 });
    const refused = await failure(supervisor.acquire());
    expect(refused).toMatchObject({ retryAfterMs: 60_000, exit: { code: 1 } });
    expect(refused.message).toMatch(/failed 5 times in a row and is not restarted for 60 s; last error: .*code 1/);
    await expect(supervisor.sibling(async () => {})).rejects.toMatchObject({ reason: 'failed' });

    clock.advance(60_000);
    expect(state()).toBe('failed');
    await settle();
    expect(starts()).toBe(5);
    expect((await failure(supervisor.acquire())).reason).toBe('failed');
    expect(starts()).toBe(6);
  });

  it('leaves the failed state with the first successful start', async () => {
    let works = false;
    const { supervisor, clock, state } = supervise(node(ECHO), {
      open: (start, context) => {
        if (!works) throw new Error('no handshake');
        return open(start, context);
      },
    });
    for (let call = 0; call < 5; call++) {
      await failure(supervisor.acquire());
      if (state() === 'backoff') clock.advance(60_000);
    }
    expect(state()).toBe('failed');
    works = true;
    clock.advance(60_000);
    await supervisor.acquire();
    expect(supervisor.health()).toMatchObject({ state: 'running', lastError: undefined });
  });

  it('automatic restarts that keep failing lead to the failed state', async () => {
    let works = true;
    const { supervisor, clock, state, starts } = supervise(node(ECHO), {
      open: (start, context) => {
        if (!works) throw new Error('no handshake');
        return open(start, context);
      },
    });
    const lease = await supervisor.acquire();
    works = false;
    process.kill(lease.child.pid, 'SIGKILL');
    await until(() => state() === 'backoff');
    for (let n = 2; n <= 5; n++) {
      clock.advance(supervisor.health().retryInMs ?? 0);
      await until(() => starts() === n && state() !== 'starting');
    }
    expect(state()).toBe('failed');
    clock.advance(600_000);
    await settle();
    expect(starts()).toBe(5);
  });

  it('the end of one child does not affect the others', async () => {
    const { supervisor, state } = supervise(node(ECHO));
    const shared = await supervisor.acquire();
    const exclusive = await supervisor.acquire({ exclusive: true });
    process.kill(exclusive.child.pid, 'SIGKILL');
    await until(() => exclusive.session.exits.length === 1);
    expect(state()).toBe('running');
    const again = await supervisor.acquire();
    expect(again.child).toBe(shared.child);
  });
});

describe('Supervisor: close', () => {
  it('stops all children, rejects all requests, and resolves after the last process ended', async () => {
    const { supervisor } = supervise(node(ECHO), { max: 2 });
    const one = await supervisor.acquire();
    const two = await supervisor.acquire({ exclusive: true });
    const waiting = failure(supervisor.acquire({ exclusive: true }));
    await supervisor.close();
    expect((await waiting).reason).toBe('closed');
    expect([one, two].map((lease) => isRunning(lease.child.pid))).toEqual([false, false]);
    expect((await failure(supervisor.acquire())).reason).toBe('closed');
    await expect(supervisor.sibling(async () => {})).rejects.toMatchObject({ reason: 'closed' });
    expect(supervisor.health()).toMatchObject({ children: 0, waiting: 0 });
  });

  it('stops all children also during a start', async () => {
    const { supervisor } = supervise(node('setInterval(() => {}, 1000)'));
    const waiting = failure(supervisor.acquire());
    await until(() => supervisor.health().pid !== undefined);
    const pid = supervisor.health().pid ?? 0;
    await supervisor.close();
    expect(isRunning(pid)).toBe(false);
    expect((await waiting).reason).toBe('closed');
  });

  it('stops all children also before a slow opening has started its child', async () => {
    let resume!: () => void;
    let late: unknown;
    const { supervisor } = supervise(node(ECHO), {
      open: async (start, context) => {
        await new Promise<void>((resolve) => {
          resume = resolve;
        });
        try {
          return await open(start, context);
        } catch (error) {
          late = error;
          throw error;
        }
      },
    });
    const waiting = failure(supervisor.acquire());
    await supervisor.close();
    resume();
    expect((await waiting).reason).toBe('closed');
    await until(() => late !== undefined);
    expect(late).toMatchObject({ reason: 'closed' });
  });
});
