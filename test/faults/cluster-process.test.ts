/** Cases 25 and 27 for stdio servers: there is one owner at a time, also after failures of the owner or the engine. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { Program } from '../cluster/support/program.js';
import { ALICE, CLUSTERS, type Replica, type Replicas, startEngines } from '../cluster/support/replicas.js';
import { ModernClient, textOf } from '../era-bridge/support/clients.js';
import { eventually, type Message } from '../era-bridge/support/wire.js';
import { sleep } from './rounds.js';

const LEASE = 3_000;
const NOTICED = LEASE + 1_000;
const RECOVERED = 5_000;

const CASES = CLUSTERS.flatMap((engine) => [2, 3].map((count) => [count, engine] as const));

describe.each(CASES)('a stdio server shared by %i replicas over %s', (count, engine) => {
  let engines: Replicas;
  let program: Program;
  let owner: Replica;
  let other: Replica;

  beforeAll(async () => {
    engines = await startEngines(engine);
  });
  afterEach(async () => {
    await engines.reset();
    program.remove();
  });
  afterAll(() => engines?.stop());

  const call = (at: Replica, name: string, args: object): Promise<Message> =>
    new ModernClient(at.mcp, {}, ALICE).call(`local__${name}`, args as Record<string, unknown>);

  const startReplicas = async (): Promise<Replica[]> => {
    program = new Program();
    const replicas = await engines.start(count, { servers: { local: program.settings } });
    for (const replica of replicas) expect(textOf(await call(replica, 'echo', { text: 'warm' }))).toBe('warm');
    const [first, ...more] = await program.owners(replicas);
    expect(more).toEqual([]);
    owner = first!;
    other = replicas.find((replica) => replica !== owner)!;
    return replicas;
  };

  test('25: the owner is frozen: the call ends once, the next one runs at another replica, and one process remains', async () => {
    const replicas = await startReplicas();
    const before = program.started;
    const running = call(other, 'slow', { key: 'held', milliseconds: 6_000 });
    await eventually(
      () => program.runs('held'),
      (count) => count === 1,
    );
    owner.freeze();
    const frozen = performance.now();
    const lost = await running;
    expect(lost.error).toMatchObject({ code: -32603, data: { reason: 'upstream_error', outcome: 'unknown' } });
    expect(performance.now() - frozen).toBeLessThan(NOTICED);
    expect(textOf(await call(other, 'echo', { text: 'elsewhere' }))).toBe('elsewhere');
    expect(program.started).toBeGreaterThan(before);
    await sleep(Math.max(0, 10_000 - (performance.now() - frozen)));
    owner.thaw();
    expect(textOf(await call(owner, 'echo', { text: 'thawed' }))).toBe('thawed');
    await eventually(
      () => program.owners(replicas),
      (owners) => owners.length === 1,
    );
    const [now] = await program.owners(replicas);
    expect(now!.pid).not.toBe(owner.pid);
    expect(program.runs('held')).toBe(1);
    for (const replica of replicas) expect(textOf(await call(replica, 'echo', { text: 'all' }))).toBe('all');
  });

  test('27, 28: the bus is down: the owner serves until its lease ends, then all replicas refuse, and later all recover', async () => {
    const replicas = await startReplicas();
    const before = program.started;
    const bus = engines.redis ?? engines.postgres;
    const killed = performance.now();
    await bus.kill();
    try {
      // No other replica can take over yet.
      expect(textOf(await call(owner, 'echo', { text: 'within the lease' }))).toBe('within the lease');
      await eventually(
        () => call(owner, 'echo', { text: 'late' }).then(textOf),
        (text) => /cannot be reached at the moment/.test(text),
      );
      expect(performance.now() - killed).toBeLessThan(LEASE + 1_000);
      for (const replica of replicas) {
        const refused = await call(replica, 'echo', { text: 'nobody' });
        expect(refused.result).toMatchObject({ isError: true });
        expect(textOf(refused)).toMatch(/cannot be reached at the moment/);
      }
      await eventually(
        () => program.owners(replicas),
        (owners) => owners.length === 0,
      );
    } finally {
      await bus.restart();
    }
    const mended = performance.now();
    for (const replica of replicas)
      await eventually(
        () => call(replica, 'echo', { text: 'again' }).then(textOf),
        (text) => text === 'again',
      );
    expect(performance.now() - mended).toBeLessThan(RECOVERED);
    expect(await program.owners(replicas)).toHaveLength(1);
    expect(program.started).toBe(before + 1);
  });
});
