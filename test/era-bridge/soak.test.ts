/**
 * Many parked calls (mcp.md 4.4): every call gets exactly one answer, every handler runs once, and no state is left
 * over. `npm run test:soak` makes 500 calls, other runs 100; `SOAK_CALLS` and `SOAK_SEED` set other values.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Entry, HttpFixture } from '../fixtures/era-bridge/http.mjs';
import { accept, answersTo, ModernClient, textOf } from './support/clients.js';
import { callerNames, endingOf, live, plan, type Seen } from './support/soak.js';
import { eventually } from './support/wire.js';
import { fixtureProcesses, startWorld, tokenOf, tokensFor, type World } from './support/world.js';

const CALLS = Number(process.env['SOAK_CALLS'] ?? 100);
const SEED = Number(process.env['SOAK_SEED'] ?? 20260728);
const CALLERS = 50;
const POOL = 8;
const SERVERS: [string, number][] = [
  ['plain', 3],
  ['resumable', 3],
  ['older', 2],
  ['pipe', 2],
];
/** How long the gateway for expiring calls keeps them parked, in milliseconds. The other gateway waits far longer. */
const HASTE = 3_000;

const planned = plan(CALLS, CALLERS, SEED, SERVERS);
const expiring = planned.filter(({ fate }) => fate === 'expire').length;

let patient: World;
let hasty: World;
let seen: Seen[];

const start = (maxParked: number, parkTtl: string): Promise<World> =>
  startWorld({
    http: { plain: {}, resumable: { eventIds: true }, older: { transport: 'sse' } },
    stdio: { pipe: { pool: POOL } },
    config: {
      auth: tokensFor(callerNames(CALLERS)),
      bridge: { maxParked, maxParkedPerCaller: maxParked, maxParkedPerServer: maxParked, parkTtl },
    },
  });

const entries = (): Entry[] => [...patient.entries(), ...hasty.entries()];
const fixtures = (): HttpFixture[] => [patient, hasty].flatMap((world) => Object.values(world.fixtures));

beforeAll(async () => {
  [patient, hasty] = await Promise.all([start(CALLS, '10m'), start(expiring, `${HASTE}ms`)]);
  const answered = (key: string): boolean =>
    patient.entries().some((entry) => entry.kind === 'answered' && entry.key === key);
  seen = await Promise.all(
    planned.map((call) => {
      const { at } = call.fate === 'expire' ? hasty : patient;
      return live(call, { url: at, answered, parkTtl: HASTE });
    }),
  );
}, 600_000);

afterAll(() => Promise.all([patient?.close(), hasty?.close()]));

const withFate = (...fates: Seen['fate'][]): Seen[] => seen.filter(({ fate }) => fates.includes(fate));

test(`${CALLS} calls of ${CALLERS} callers show no fault`, () => {
  expect(
    seen
      .filter(({ faults }) => faults.length > 0)
      .map(({ key, server, fate, faults }) => ({ key, server, fate, faults })),
  ).toEqual([]);
});

test('every call whose caller waits gets exactly one answer, and it is its own', () => {
  const said = withFate('accept', 'decline', 'cancel', 'rounds', 'missing', 'twice', 'differently');
  expect(said.map(({ ends }) => ends.length)).toEqual(said.map(() => 1));
  expect(said.map(({ ends }) => textOf(ends[0]!))).toEqual(said.map((call) => endingOf(call)));
});

test('a second, different answer is refused with -32602 while the server works on the first one', () => {
  const refused = withFate('differently').map(({ refused: [reply] }) => reply?.error?.code);
  expect(refused).toEqual(refused.map(() => -32602));
});

test('an answer to an expired question is refused with -32602', () => {
  const late = withFate('expire').map(({ ends }) => ends.map(({ error }) => error?.code));
  expect(late).toEqual(late.map(() => [-32602]));
});

test('every handler ran exactly once', () => {
  const runs = new Map<string, number>();
  for (const { kind, key } of entries()) if (kind === 'run') runs.set(key!, (runs.get(key!) ?? 0) + 1);
  expect(seen.filter(({ key }) => runs.get(key) !== 1).map(({ key, fate }) => [key, fate, runs.get(key)])).toEqual([]);
  expect(runs.size).toBe(CALLS);
});

test('a call whose caller disconnected is cancelled at its server', async () => {
  const expected = withFate('disconnect').map(({ key }) => key);
  const cancelled = (): string[] => entries().flatMap(({ kind, key }) => (kind === 'cancelled' ? [key!] : []));
  await eventually(cancelled, (keys) => expected.every((key) => keys.includes(key)));
  const others = withFate('accept', 'decline', 'cancel', 'rounds', 'missing', 'twice', 'differently');
  expect(others.filter(({ key }) => cancelled().includes(key))).toEqual([]);
});

test('the gateway answers an expired question with a cancel, once', async () => {
  const answersOf = ({ key: expired }: Seen): unknown[] =>
    entries().flatMap(({ kind, key, result }) => (kind === 'answered' && key === expired ? [result] : []));
  // The caller gets the refusal before the server has read the cancel.
  await eventually(
    () => withFate('expire').every((call) => answersOf(call).length > 0),
    (all) => all,
    30_000,
  ).catch(() => {});
  const late = withFate('expire').map((call) => ({ server: call.server, key: call.key, answers: answersOf(call) }));
  const wrong = late.filter(({ answers }) => JSON.stringify(answers) !== '[{"action":"cancel"}]');
  expect(wrong).toEqual([]);
});

test('no call, question or reply is left open at the servers', async () => {
  const left = () => fixtures().map(({ busy, open }) => ({ ...busy, reply: open.reply }));
  const nothing = left().map(() => ({ runs: 0, questions: 0, reply: 0 }));
  await eventually(left, (now) => JSON.stringify(now) === JSON.stringify(nothing), 30_000).catch(() => {});
  expect(left()).toEqual(nothing);
});

test('sessions come from the pools and are not opened per call, and no process is left over', async () => {
  for (const { gateway, fixtures: all } of [patient, hasty]) {
    // Calls that ask nothing share one more session.
    expect(all['older']!.sessions.size).toBeLessThanOrEqual(4 + 1);
    await eventually(
      () => fixtureProcesses(gateway.pid),
      (count) => count <= POOL + 1,
    );
  }
});

test('the gateways have released all parked calls: the maximum number can be parked again', async () => {
  const names = callerNames(CALLERS);
  const fill = async (world: World, count: number) => {
    const calls = Array.from({ length: count }, (_, n) => ({
      client: new ModernClient(world.at('plain'), undefined, tokenOf(names[n % CALLERS]!)),
      args: { key: `again-${n}` },
    }));
    const parked = await Promise.all(calls.map(({ client, args }) => client.call('ask', args)));
    expect(parked.filter(({ result }) => result?.resultType !== 'input_required')).toEqual([]);
    return calls.map((call, n) => ({ ...call, parked: parked[n]! }));
  };
  await fill(hasty, expiring);
  const calls = await fill(patient, CALLS);
  expect(textOf(await calls[0]!.client.call('ask', { key: 'beyond' }))).toMatch(/wait for answers/);
  const ended = await Promise.all(
    calls.map(({ client, args, parked }) =>
      client.call('ask', args, {
        inputResponses: answersTo(parked, accept({ answer: 'yes' })),
        requestState: parked.result.requestState,
      }),
    ),
  );
  expect(ended.map(textOf)).toEqual(calls.map(({ args }) => `${args.key}: yes`));
});

test('the gateways logged no fault, and when they stop, all sessions and processes end', async () => {
  for (const { gateway } of [patient, hasty]) {
    const lines = gateway.log().split('\n');
    expect(lines.filter((line) => /unhandled|uncaught|failed in the gateway/i.test(line))).toEqual([]);
    expect(await gateway.close()).toBe(0);
    expect(await fixtureProcesses(gateway.pid)).toBe(0);
  }
  for (const fixture of fixtures()) {
    await eventually(
      () => fixture.open.general,
      (count) => count === 0,
    );
    expect([...fixture.sessions.keys()]).toEqual([]);
  }
});
