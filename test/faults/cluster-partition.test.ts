/**
 * Cases 25 and 27 for stdio servers, with one replica cut off from the engines (P5): its process stops before another
 * replica starts one, so calls never alternate between two replicas.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { Program } from '../cluster/support/program.js';
import { ALICE, CLUSTERS, type Replica, type Replicas, startEngines } from '../cluster/support/replicas.js';
import { ModernClient, textOf } from '../era-bridge/support/clients.js';
import { eventually } from '../era-bridge/support/wire.js';
import { type FaultProxy, type Faults, startFaultProxy } from '../support/fault-proxy.js';
import { rounds, sleep } from './rounds.js';

const ROUNDS = rounds(3, 1);
/** The lease of an owner, and the time for a recovery on a busy machine, in milliseconds. */
const LEASE = 3_000;
const RECOVERED = 5_000;

const CUTS: readonly [string, Faults][] = [
  ['silently', { blackHole: true }],
  ['by resets', { refuse: true }],
];
const CASES = CLUSTERS.flatMap((engine) => CUTS.map(([how, faults]) => [how, engine, faults] as const));

describe.each(CASES)('the owner of a process is cut off %s from %s', (_how, engine, faults) => {
  let engines: Replicas;
  let proxy: FaultProxy;
  let program: Program;
  let cut: Replica;
  let other: Replica;

  beforeAll(async () => {
    engines = await startEngines(engine);
    proxy = await startFaultProxy({ port: (engines.redis ?? engines.postgres).port });
  });
  afterEach(async () => {
    proxy.set({});
    await engines.reset();
    program.remove();
  });
  afterAll(async () => {
    await engines?.stop();
    await proxy?.close();
  });

  const call = async (at: Replica, key: string): Promise<string> => {
    const answer = await new ModernClient(at.mcp, {}, ALICE).call('local__echo', { text: key, key });
    return answer.error ? `failed: ${answer.error.message}` : textOf(answer);
  };

  const partition = (): void => {
    proxy.set(faults);
    if (faults.refuse) proxy.cutAll('rst');
  };

  /** Calls both replicas continuously until `stop`, which returns their answers. */
  const traffic = (round: number): { stop(): Promise<Map<Replica, string[]>> } => {
    let going = true;
    const said = new Map<Replica, string[]>();
    const run = async (at: Replica, name: string): Promise<void> => {
      const all: string[] = [];
      said.set(at, all);
      for (let i = 0; going; i++) {
        all.push(await call(at, `${name} ${round} ${i}`).catch((error: Error) => `failed: ${error.message}`));
        await sleep(20);
      }
    };
    const running = Promise.all([run(cut, 'cut'), run(other, 'other')]);
    return {
      stop: async () => {
        going = false;
        await running;
        return said;
      },
    };
  };

  test(`${ROUNDS} rounds: calls move to the other process once, and never alternate between the two processes`, async () => {
    program = new Program();
    const servers = { local: program.settings };
    // The replica behind the proxy uses the server first, so it becomes the owner.
    [cut] = (await engines.start(1, { servers }, [], { through: proxy.port })) as [Replica];
    expect(await call(cut, 'warm')).toBe('warm');
    [other] = (await engines.start(1, { servers })) as [Replica];
    expect(await call(other, 'warm')).toBe('warm');

    for (let round = 0; round < ROUNDS; round++) {
      // Each round begins with the replica behind the proxy as the owner.
      while ((await program.owners([cut, other]))[0]?.pid !== cut.pid) {
        await other.close();
        await eventually(
          () => call(cut, 'mine'),
          (text) => text === 'mine',
        );
        [other] = (await engines.start(1, { servers })) as [Replica];
        await eventually(
          () => call(other, 'there'),
          (text) => text === 'there',
        );
      }
      const [before, startedBefore] = [program.entries().length, program.started];
      const { stop } = traffic(round);
      await sleep(500);
      partition();
      const began = performance.now();
      await eventually(
        () => program.started,
        (started) => started > startedBefore,
        10 * LEASE,
      );
      const taken = performance.now() - began;
      // Calls at the replica that is cut off stay refused.
      await sleep(1_000);
      expect(await call(cut, `refused ${round}`)).toMatch(/cannot be reached at the moment/);
      expect(await call(other, `served ${round}`)).toBe(`served ${round}`);
      const said = await stop();

      const runs = program
        .entries()
        .slice(before)
        .filter(({ kind }) => kind === 'run');
      const pids = runs.map(({ pid }) => pid).filter((pid, i, all) => pid !== all[i - 1]);
      expect(pids).toHaveLength(2);
      expect(new Set(pids).size).toBe(2);
      // No call ran twice, and every answered call ran.
      const keys = runs.map(({ key }) => key);
      expect(new Set(keys).size).toBe(keys.length);
      for (const text of [...said.values()].flat())
        if (!text.startsWith('failed') && !/cannot be reached|moves to another/.test(text))
          expect(keys).toContain(text);
      console.log(`${engine}: the other replica took over ${Math.round(taken)} ms after the cut; ${runs.length} runs`);

      proxy.set({});
      const mended = performance.now();
      await eventually(
        () => call(cut, `whole ${round}`),
        (text) => text === `whole ${round}`,
      );
      expect(performance.now() - mended).toBeLessThan(RECOVERED);
      await eventually(
        () => program.owners([cut, other]),
        (owners) => owners.length === 1,
      );
    }
  }, 240_000);
});
