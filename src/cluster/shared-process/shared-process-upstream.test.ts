/**
 * A process that replicas share: its owner runs the calls of the other replicas, and holds no call whose caller is
 * gone.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { CutBus } from '../../../test/support/faulty-state.js';
import { type Caller, Cancellation } from '../../core/caller.js';
import type { Outcome, ParkedCall } from '../../core/gateway.js';
import type { Upstream, UpstreamCall } from '../../core/upstream.js';
import { ProtocolError } from '../../protocol/errors.js';
import { RawObject } from '../../protocol/jsonrpc/raw.js';
import { NEWEST } from '../../protocol/mcp/revisions/index.js';
import { openState, type State } from '../../state/index.js';
import { SILENT } from '../../telemetry/log.js';
import { Membership } from '../membership.js';
import { ReplicaMessages } from '../replica-messages.js';
import { SharedProcessUpstream } from './shared-process-upstream.js';

/** Long enough that no replica counts as dead on a slow machine. */
const LEASE = { lease: 30_000, renew: 1_000 };
const CALLS = 50;
const SOON = { timeout: 20_000 };

let folder: string;
let state: State;
const stops: (() => unknown)[] = [];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'parley-owned-'));
  state = await openState({ data: folder, sweepMs: 0, pollMs: 100 });
});
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
  await state.close();
  rmSync(folder, { recursive: true, force: true });
});

/** A test double of the upstream that runs the process: every call asks a question. */
class AskingProcess implements Upstream {
  readonly name = 'asking';
  readonly abandoned: string[] = [];
  runs = 0;

  constructor(
    private readonly resume: () => Promise<Outcome>,
    private readonly at: string,
  ) {}

  async output() {
    const line = { at: 0, pid: 1, stream: 'stderr' as const, text: `written at ${this.at}` };
    return { replica: 'alone', state: 'running', lines: [line] };
  }

  async request(): Promise<Outcome> {
    this.runs++;
    const parked: ParkedCall = {
      over: new Promise(() => {}),
      resume: this.resume,
      abandon: (reason) => this.abandoned.push(reason),
    };
    return { kind: 'input_required', inputRequests: undefined, requestState: undefined, parked };
  }
  async describe() {
    return { capabilities: {} } as Awaited<ReturnType<Upstream['describe']>>;
  }
  async watch() {
    return { honoured: {}, close: () => {} };
  }
  async keepWatching(): Promise<void> {}
  listNews() {
    return 'polled' as const;
  }
  rootsChanged(): void {}
  release(): void {}
  health() {
    return { status: 'up' as const, speaks: [] };
  }
  async close(): Promise<void> {}
}

interface Replica {
  readonly upstream: SharedProcessUpstream;
  readonly process: AskingProcess;
  readonly bus: CutBus;
}

async function replica(name: string, resume: () => Promise<Outcome>, heldFor?: number): Promise<Replica> {
  const bus = new CutBus(state.bus);
  const membership = await Membership.join(bus, name, LEASE, () => {});
  const messages = await ReplicaMessages.open(bus, membership, SILENT, { watchEvery: 50 });
  const process = new AskingProcess(resume, name);
  const options = { build: () => process, cluster: messages, bus, ...(heldFor !== undefined && { heldFor }) };
  const upstream = new SharedProcessUpstream(options);
  stops.push(
    () => membership.leave(),
    () => messages.close(),
    () => upstream.close(),
  );
  return { upstream, process, bus };
}

const CALLER = { principal: { key: 'alice' }, revision: NEWEST, capabilities: {} } as unknown as Caller;
const call = (): UpstreamCall => ({
  method: 'tools/call',
  params: RawObject.from({ name: 'ask' }),
  wantsProgress: false,
  logLevel: undefined,
  cancellation: new Cancellation(),
  tasks: 'none',
  mirrored: [],
  notify: () => {},
});

/** A owns the process. B sends the calls, and each call waits for an answer. */
async function parkedFromB(
  resume: () => Promise<Outcome> = () => new Promise(() => {}),
  heldFor?: number,
): Promise<{ a: Replica; b: Replica; parked: ParkedCall[] }> {
  const [a, b] = [await replica('a', resume, heldFor), await replica('b', resume, heldFor)];
  await a.upstream.describe();
  const outcomes = await Promise.all(Array.from({ length: CALLS }, () => b.upstream.request(CALLER, call())));
  const parked = outcomes.flatMap((outcome) =>
    outcome.kind === 'input_required' && outcome.parked ? [outcome.parked] : [],
  );
  expect(parked).toHaveLength(CALLS);
  expect(a.process.runs).toBe(CALLS);
  expect(a.upstream.heldCalls).toBe(CALLS);
  return { a, b, parked };
}

test("every replica returns the output of the owner's process", async () => {
  const never = (): Promise<Outcome> => new Promise(() => {});
  const [a, b] = [await replica('a', never), await replica('b', never)];
  // No replica runs the process yet, and a request for its output does not start it.
  expect(await b.upstream.output()).toMatchObject({ replica: 'b' });
  await a.upstream.describe();
  const expected = { replica: 'a', state: 'running', lines: [{ text: 'written at a' }] };
  expect(await a.upstream.output()).toMatchObject(expected);
  expect(await b.upstream.output()).toMatchObject(expected);
});

test('the owner no longer holds a call that its caller abandons', async () => {
  const { a, parked } = await parkedFromB();
  for (const one of parked) one.abandon('nobody answers');
  await expect.poll(() => a.upstream.heldCalls, SOON).toBe(0);
  expect(a.process.abandoned).toEqual(Array.from({ length: CALLS }, () => 'nobody answers'));
});

test('the owner drops a call abandoned during a bus outage once the bus is back', async () => {
  const { a, b, parked } = await parkedFromB();
  b.bus.cut = true;
  for (const one of parked) one.abandon('nobody answers');
  // Longer than the first message waits for the bus.
  await new Promise((resolve) => setTimeout(resolve, 3_000));
  expect(b.bus.refused).toBeGreaterThan(0);
  expect(a.upstream.heldCalls).toBe(CALLS);
  b.bus.cut = false;
  await expect.poll(() => a.upstream.heldCalls, SOON).toBe(0);
  expect(a.process.abandoned).toHaveLength(CALLS);
});

test('a call whose resumption fails is no longer held', async () => {
  const { a, parked } = await parkedFromB(async () => {
    throw new ProtocolError('upstream_error', 'the process is gone');
  });
  const outcomes = await Promise.all(parked.map((one) => one.resume(call(), {})));
  expect(outcomes.map(({ kind }) => kind)).toEqual(Array.from({ length: CALLS }, () => 'error'));
  expect(a.upstream.heldCalls).toBe(0);
});

test('a call that is abandoned while it is resumed is not held again', async () => {
  const again: ((outcome: Outcome) => void)[] = [];
  const { a, parked } = await parkedFromB(() => new Promise((resolve) => again.push(resolve)));
  const resumed = Promise.all(parked.map((one) => one.resume(call(), {})));
  await expect.poll(() => again.length, SOON).toBe(CALLS);
  for (const one of parked) one.abandon('the client is gone');
  await expect.poll(() => a.upstream.heldCalls, SOON).toBe(0);
  for (const resolve of again) resolve(await a.process.request());
  expect((await resumed).map(({ kind }) => kind)).toEqual(Array.from({ length: CALLS }, () => 'error'));
  expect(a.upstream.heldCalls).toBe(0);
  expect(a.process.abandoned).toHaveLength(2 * CALLS);
});

test('a call that nobody answers or abandons ends after its maximum time', async () => {
  const { a } = await parkedFromB(undefined, 1_000);
  await expect.poll(() => a.upstream.heldCalls, SOON).toBe(0);
  expect(a.process.abandoned).toHaveLength(CALLS);
});
