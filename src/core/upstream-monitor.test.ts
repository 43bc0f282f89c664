import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { forOperators, type Monitored, type Offer, type StateChange, UpstreamMonitor } from './upstream-monitor.js';

class Fake implements Monitored {
  status: 'unknown' | 'up' | 'down' = 'unknown';
  detail: string | undefined;
  cause: string | undefined;
  offered: Offer = { known: false };
  upstream = {};

  constructor(
    readonly name: string,
    readonly kind: 'server' | 'agent' = 'server',
  ) {}

  health() {
    const { status, detail, cause } = this;
    return { status, ...(detail !== undefined && { detail }), ...(cause !== undefined && { cause }) };
  }

  offer(): Offer {
    return this.offered;
  }

  up(count: number): void {
    this.status = 'up';
    this.offered = { known: true, count };
  }

  down(detail: string): void {
    this.status = 'down';
    this.detail = detail;
  }
}

/** The time of day at which the monotonic clock is 0. */
const MIDNIGHT = 1_900_000_000_000;

let now: number;
let upstreams: Fake[];
let monitor: UpstreamMonitor;
let changes: StateChange[];
beforeEach(() => {
  now = 1_000;
  upstreams = [new Fake('weather'), new Fake('files')];
  monitor = new UpstreamMonitor({ upstreams: () => upstreams, now: () => now, wall: () => MIDNIGHT + now });
  changes = [];
  monitor.onChange((change) => changes.push(change));
  monitor.sample();
});
afterEach(() => {
  monitor.close();
  vi.useRealTimers();
});

const after = (milliseconds: number): void => {
  now += milliseconds;
  monitor.sample();
};

test('the state of one upstream is read without the others, and a change of that state is reported once', () => {
  const others = vi.spyOn(upstreams[1]!, 'health');
  upstreams[0]!.up(3);
  now += 20;
  expect(monitor.stateOf(upstreams[0]!)).toEqual({
    ...{ kind: 'server', name: 'weather', state: 'up', since: MIDNIGHT + 1_020, count: 3, took: 20 },
  });
  expect(others).not.toHaveBeenCalled();
  after(30);
  expect(changes.map(({ name, state }) => [name, state])).toEqual([['weather', 'up']]);
  const added = new Fake('added');
  expect(monitor.stateOf(added)).toMatchObject({ name: 'added', state: 'starting' });
  upstreams.push(added);
  expect(monitor.states()).toHaveLength(3);
});

test('a server is "starting" until it has answered and its tools are known', () => {
  expect(monitor.states()).toEqual([
    { kind: 'server', name: 'weather', state: 'starting', since: MIDNIGHT + 1_000 },
    { kind: 'server', name: 'files', state: 'starting', since: MIDNIGHT + 1_000 },
  ]);
  upstreams[0]!.status = 'up';
  after(100);
  expect(changes).toEqual([]);
  upstreams[0]!.up(3);
  after(100);
  expect(changes).toEqual([
    {
      kind: 'server',
      name: 'weather',
      state: 'up',
      since: MIDNIGHT + 1_200,
      count: 3,
      took: 200,
      before: 'starting',
      lasted: 200,
      age: 200,
      recovered: false,
    },
  ]);
});

test('a change to "down" has the reason, and a recovery has the length of the outage', () => {
  upstreams[0]!.up(3);
  after(10);
  upstreams[0]!.down('connection refused');
  after(60_000);
  after(500);
  upstreams[0]!.up(3);
  after(11_500);
  expect(changes.slice(1)).toEqual([
    expect.objectContaining({ state: 'down', before: 'up', problem: 'connection refused', lasted: 60_000 }),
    expect.objectContaining({ state: 'up', before: 'down', lasted: 12_000, recovered: true, count: 3, took: 10 }),
  ]);
  expect(changes[2]).not.toHaveProperty('problem');
});

test('a server that is down from the start and then comes up counts as new, not as recovered', () => {
  upstreams[0]!.down('connection refused');
  after(100);
  upstreams[0]!.up(3);
  after(400);
  expect(changes).toEqual([
    expect.objectContaining({ state: 'down', recovered: false }),
    expect.objectContaining({ state: 'up', before: 'down', recovered: false, lasted: 400, age: 500 }),
  ]);
});

test('a server whose list cannot be read is up, with the problem', () => {
  upstreams[0]!.status = 'up';
  upstreams[0]!.offered = { known: true, problem: 'its tools/list failed' };
  after(10);
  expect(monitor.states()[0]).toEqual({
    kind: 'server',
    name: 'weather',
    state: 'up',
    since: MIDNIGHT + 1_010,
    took: 10,
    problem: 'its tools/list failed',
  });
});

test('a server that was up does not return to "starting" while its state is unknown', () => {
  upstreams[0]!.up(3);
  after(10);
  upstreams[0]!.status = 'unknown';
  upstreams[0]!.offered = { known: false };
  after(10);
  expect(monitor.states()[0]).toMatchObject({ state: 'up' });
  expect(changes).toHaveLength(1);
});

test('a server that is added later is reported, and one that is removed is dropped', () => {
  upstreams = [new Fake('late')];
  after(10);
  upstreams[0]!.up(1);
  after(25);
  expect(changes).toEqual([expect.objectContaining({ name: 'late', state: 'up', took: 25 })]);
  expect(monitor.states()).toHaveLength(1);
});

test('a state has the time of its beginning, which later samples do not move', () => {
  upstreams[0]!.down('connection refused');
  after(100);
  after(5_000);
  expect(monitor.states()[0]).toMatchObject({ state: 'down', since: MIDNIGHT + 1_100 });
  upstreams[0]!.up(3);
  after(900);
  expect(monitor.states()[0]).toMatchObject({ state: 'up', since: MIDNIGHT + 7_000 });
});

test('a server with changed settings is "starting", whatever its earlier state was', () => {
  upstreams[0]!.down('connection refused');
  after(60_000);
  upstreams = [new Fake('weather'), upstreams[1]!];
  after(500);
  expect(monitor.states()[0]).toEqual({
    ...{ kind: 'server', name: 'weather', state: 'starting', since: MIDNIGHT + 61_500 },
  });
  upstreams[0]!.up(2);
  after(40);
  expect(changes.slice(1)).toEqual([
    expect.objectContaining({ state: 'up', before: 'starting', recovered: false, took: 40, age: 40 }),
  ]);
});

test('operators get the cause of a problem, and callers do not', () => {
  upstreams[0]!.down('its process exited with code 1');
  upstreams[0]!.cause = '`node x.mjs` exited with code 1: Error: no database';
  upstreams[1]!.down('cannot be reached: `node y.mjs` exited with code 2; see its output');
  upstreams[1]!.cause = '`node y.mjs` exited with code 2';
  after(10);
  const [weather, files] = monitor.states();
  expect(weather?.problem).toBe('its process exited with code 1');
  expect(forOperators(weather!).problem).toBe('`node x.mjs` exited with code 1: Error: no database');
  expect(forOperators(files!).problem).toBe('cannot be reached: `node y.mjs` exited with code 2; see its output');
});

test('an agent and a server of the same name have separate states', () => {
  upstreams = [new Fake('twin'), new Fake('twin', 'agent')];
  upstreams[1]!.up(2);
  after(10);
  expect(monitor.states().map(({ kind, state }) => [kind, state])).toEqual([
    ['server', 'starting'],
    ['agent', 'up'],
  ]);
});

describe('settled()', () => {
  beforeEach(() => {
    // The count of timers would include the `setImmediate` calls of the test runner.
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  });

  test('resolves when every upstream has answered or failed', async () => {
    monitor.start();
    let done = false;
    void monitor.settled(60_000).then(() => {
      done = true;
    });
    upstreams[0]!.up(1);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(done).toBe(false);
    upstreams[1]!.down('no such command');
    await vi.advanceTimersByTimeAsync(1_000);
    expect(done).toBe(true);
    expect(vi.getTimerCount()).toBe(1);
  });

  test('resolves after the given time if servers do not answer', async () => {
    monitor.start();
    const waited = monitor.settled(2_000);
    await vi.advanceTimersByTimeAsync(2_000);
    await waited;
    expect(monitor.states().map(({ state }) => state)).toEqual(['starting', 'starting']);
  });

  test('resolves at once if nothing is starting, and when the monitor closes', async () => {
    const waited = monitor.settled(60_000);
    monitor.close();
    await waited;
    upstreams = [];
    await monitor.settled(60_000);
    expect(vi.getTimerCount()).toBe(0);
  });
});
