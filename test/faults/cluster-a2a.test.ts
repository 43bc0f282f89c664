/** Cases 23 to 25, 28 and 29 for agent tasks: the tasks and deliveries of a failed replica continue at another. */
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import {
  connectTo,
  deliveredNumbers,
  faultsOf,
  Listener,
  NOTICED,
  numbers,
  piecesOf,
  piecesWritten,
  settingsFor,
  startAgents,
  storedTask,
} from '../cluster/support/a2a.js';
import { CLUSTERS, type Replica, type Replicas, startEngines } from '../cluster/support/replicas.js';
import { eventually } from '../era-bridge/support/wire.js';
import type { RunningAgent } from '../fixtures/a2a/agent.js';
import type { Client } from '../fixtures/a2a/client.js';
import { sleep } from './rounds.js';

const say = (text: string) => ({ parts: [{ text }] });
/** Lease of a delivery that was neither acknowledged nor failed, in milliseconds. */
const DELIVERY_LEASE = 30_000;

/** Receives notifications, and can delay its answers. */
class Receiver {
  readonly got: { path: string; id: string; body: string; at: number }[] = [];
  answers = true;
  private readonly held = new Set<ServerResponse>();
  private readonly server: Server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => {
      body += chunk.toString();
    });
    request.on('end', () => {
      const id = String(request.headers['webhook-id']);
      this.got.push({ path: request.url ?? '', id, body, at: performance.now() });
      if (this.answers) response.writeHead(204).end();
      else this.held.add(response);
    });
  });

  async start(): Promise<this> {
    await new Promise<void>((resolve) => this.server.listen(0, '127.0.0.1', resolve));
    return this;
  }

  url(path: string): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}${path}`;
  }

  ids(path: string): string[] {
    return this.got.filter((one) => one.path === path).map(({ id }) => id);
  }

  bodies(path: string): string[] {
    return this.got.filter((one) => one.path === path).map(({ body }) => body);
  }

  close(): Promise<unknown> {
    this.server.closeAllConnections();
    return new Promise((resolve) => this.server.close(resolve));
  }
}

describe.each(CLUSTERS)('tasks of two replicas over %s', (engine) => {
  let engines: Replicas;
  let agents: RunningAgent[];
  let receiver: Receiver;
  let a: Replica;
  let b: Replica;

  beforeAll(async () => {
    [engines, agents] = await Promise.all([startEngines(engine), startAgents('one-rpc', 'one-plain', 'three-rpc')]);
  });
  beforeEach(async () => {
    receiver = await new Receiver().start();
  });
  afterEach(async () => {
    await engines.reset();
    await receiver.close();
  });
  afterAll(async () => {
    await engines?.stop();
    await Promise.all((agents ?? []).map((agent) => agent.close()));
  });

  const startBoth = async (): Promise<void> => {
    [a, b] = (await engines.start(2, settingsFor(agents))) as [Replica, Replica];
  };

  const streaming = async (client: Client, text: string, pieces = 3): Promise<Listener> => {
    const listener = new Listener(client.stream(say(text)));
    await eventually(
      () => listener.pieces.length,
      (count) => count >= pieces,
    );
    return listener;
  };

  const subscribed = async (client: Client, id: string): Promise<Listener> => {
    const listener = new Listener(client.subscribe(id));
    await eventually(
      () => listener.events.length,
      (count) => count > 0,
    );
    expect(listener.events[0]?.kind).toBe('task');
    return listener;
  };

  /** Waits until every sequence number up to the stored one was delivered; checks the order of first arrivals. */
  const deliveredAll = async (path: string, id: string): Promise<void> => {
    const { seq } = await storedTask(engines.db, id);
    const heard = await eventually(
      () => deliveredNumbers(receiver.ids(path)),
      (found) => found.includes(seq),
      DELIVERY_LEASE + 15_000,
    );
    const first = heard[0]!;
    expect(heard).toEqual(Array.from({ length: seq - first + 1 }, (_, i) => first + i));
    expect(receiver.bodies(path).at(-1)).toContain('COMPLETED');
  };

  test.each(['one-rpc', 'one-plain', 'three-rpc'])(
    '24: the replica that follows a task of %s is killed: subscriptions, reads and notifications continue at the other replica',
    async (agent) => {
      await startBoth();
      const [at, there] = await Promise.all([connectTo(a, agent), connectTo(b, agent)]);
      const path = `/killed/${agent}`;
      const own = await streaming(at, 'count 80 200');
      // No client follows this task: it is brought up to date and read later.
      const alone = await streaming(at, 'count 20 200');
      await at.setPush(own.id, { id: 'p', url: receiver.url(path), token: 't' });
      const other = await subscribed(there, own.id);
      await eventually(
        () => receiver.ids(path).length,
        (count) => count >= 2,
      );
      await a.kill();
      const killed = performance.now();
      const told = own.pieces.length;
      const later = await subscribed(there, own.id);
      await eventually(
        () => other.pieces.length,
        (count) => count >= told + 5,
        NOTICED,
      );
      console.log(`${engine}, ${agent}: continued ${Math.round(performance.now() - killed)} ms after the kill`);
      const seen = piecesOf(await there.get(own.id)).length;
      expect(seen).toBeGreaterThan(told);
      const third = await subscribed(there, own.id);
      for (const listener of [other, later, third]) {
        await listener.ended;
        expect(listener.error).toBeUndefined();
        expect(listener.last).toBe('completed');
        expect(listener.late).toBe(0);
        expect(listener.pieces).toEqual(numbers(80));
      }
      for (const { id, pieces } of [
        { id: own.id, pieces: 80 },
        { id: alone.id, pieces: 20 },
      ]) {
        const task = await there.get(id);
        expect(task.state).toBe('completed');
        expect(piecesOf(task)).toEqual(numbers(pieces));
        const stored = await storedTask(engines.db, id);
        expect(faultsOf(stored)).toEqual([]);
        expect(piecesWritten(stored)).toEqual(numbers(pieces));
      }
      await deliveredAll(path, own.id);
    },
  );

  test('24: notifications of a task without streams are sent by the other replica', async () => {
    await startBoth();
    const path = '/handed';
    const at = await connectTo(a, 'one-rpc');
    const sent = await at.send({
      ...say('slow 4000 handed'),
      returnImmediately: true,
      push: { id: 'p', url: receiver.url(path), token: 't' },
    });
    await a.kill();
    const there = await connectTo(b, 'one-rpc');
    // The push of the agent to the dead replica fails; the other replica polls the task.
    await eventually(() => receiver.bodies(path).some((body) => body.includes('COMPLETED')), Boolean, 60_000);
    expect((await there.get(sent.task!.id)).state).toBe('completed');
    expect(faultsOf(await storedTask(engines.db, sent.task!.id))).toEqual([]);
  });

  test('24, 29: a replica is killed during deliveries: the other one delivers in order, with the same ids', async () => {
    [a] = (await engines.start(1, settingsFor(agents))) as [Replica];
    const at = await connectTo(a, 'one-rpc');
    receiver.answers = false;
    const tasks = await Promise.all(
      [1, 2, 3].map(async (n) => {
        const listener = await streaming(at, 'count 12 50', 1);
        await at.setPush(listener.id, { id: 'p', url: receiver.url(`/held/${n}`), token: 't' });
        await listener.ended;
        return { n, listener };
      }),
    );
    await eventually(
      () => receiver.got.length,
      (count) => count >= 3,
    );
    const begun = receiver.got.map(({ id }) => id);
    [b] = (await engines.start(1, settingsFor(agents))) as [Replica];
    await a.kill();
    receiver.answers = true;
    for (const { n, listener } of tasks) {
      expect(listener.last).toBe('completed');
      await deliveredAll(`/held/${n}`, listener.id);
    }
    // Deliveries that were under way are repeated with the same id.
    for (const id of begun) expect(receiver.got.filter((one) => one.id === id).length).toBeGreaterThanOrEqual(2);
  });

  test('25: a follower frozen for 10 s is fenced: no duplicates, nothing after the end, and its readers get every event', async () => {
    await startBoth();
    const [at, there] = await Promise.all([connectTo(a, 'one-rpc'), connectTo(b, 'one-rpc')]);
    const over = await streaming(at, 'count 30 200');
    const going = await streaming(at, 'count 90 200');
    await at.setPush(over.id, { id: 'p', url: receiver.url('/over'), token: 't' });
    await at.setPush(going.id, { id: 'p', url: receiver.url('/going'), token: 't' });
    const others = await Promise.all([over, going].map(({ id }) => subscribed(there, id)));
    a.freeze();
    const frozen = performance.now();
    await eventually(
      async () => (await there.get(over.id)).state,
      (state) => state === 'completed',
      NOTICED,
    );
    await others[0]!.ended;
    const written = await storedTask(engines.db, over.id);
    expect(faultsOf(written)).toEqual([]);
    await sleep(Math.max(0, 10_000 - (performance.now() - frozen)));
    const taken = await storedTask(engines.db, going.id);
    a.thaw();
    await sleep(3_000);
    // The thawed replica neither takes the task back nor writes the events it received.
    expect((await storedTask(engines.db, going.id)).follower).toBe(taken.follower);
    for (const listener of [over, going, ...others]) {
      await listener.ended;
      expect(listener.error).toBeUndefined();
      expect(listener.last).toBe('completed');
      expect(listener.late).toBe(0);
    }
    expect(others.map(({ pieces }) => pieces)).toEqual([numbers(30), numbers(90)]);
    expect([over, going].map(({ pieces }) => pieces)).toEqual([numbers(30), numbers(90)]);
    expect(await storedTask(engines.db, over.id)).toEqual(written);
    const end = await storedTask(engines.db, going.id);
    expect(faultsOf(end)).toEqual([]);
    expect(piecesWritten(end)).toEqual(numbers(90));
    for (const client of [at, there]) {
      expect(piecesOf(await client.get(over.id))).toEqual(numbers(30));
      expect(piecesOf(await client.get(going.id))).toEqual(numbers(90));
    }
    await deliveredAll('/over', over.id);
    await deliveredAll('/going', going.id);
  });

  test('28: the database is down for 5 s during streams: they continue or end with one error, and no event is lost', async () => {
    await startBoth();
    const [at, there] = await Promise.all([connectTo(a, 'one-rpc'), connectTo(b, 'one-rpc')]);
    const short = await streaming(at, 'count 15 200');
    const long = await streaming(at, 'count 60 200');
    await at.setPush(short.id, { id: 'p', url: receiver.url('/short'), token: 't' });
    await at.setPush(long.id, { id: 'p', url: receiver.url('/long'), token: 't' });
    const other = await subscribed(there, long.id);
    const asked = (await at.send(say('ask before'))).task!;
    await engines.postgres.kill();
    const refused = await at.send(say('echo in between')).then(
      () => undefined,
      (error: Error) => error,
    );
    expect(refused?.message).toMatch(/try again/i);
    await sleep(5_000);
    await engines.postgres.restart();
    for (const [listener, pieces] of [
      [short, 15],
      [long, 60],
      [other, 60],
    ] as const) {
      await listener.ended;
      expect(listener.late).toBe(0);
      if (listener.error) expect(listener.error.message).toMatch(/try again/i);
      else {
        expect(listener.last).toBe('completed');
        expect(listener.pieces).toEqual(numbers(pieces));
      }
    }
    console.log(
      `${engine}: ${[short, long, other].filter(({ error }) => error).length} of 3 streams ended with an error`,
    );
    for (const [client, replica] of [
      [at, a],
      [there, b],
    ] as const) {
      for (const [listener, pieces] of [
        [short, 15],
        [long, 60],
      ] as const) {
        const task = await eventually(
          () => client.get(listener.id),
          ({ state }) => state === 'completed',
          20_000,
        );
        expect(piecesOf(task)).toEqual(numbers(pieces));
      }
      expect((await client.get(asked.id)).state).toBe('input-required');
      expect(replica.dead).toBe(false);
    }
    expect((await there.send({ ...say('blue'), taskId: asked.id })).task!.state).toBe('completed');
    for (const [path, { id }] of [
      ['/short', short],
      ['/long', long],
    ] as const) {
      const stored = await storedTask(engines.db, id);
      expect(faultsOf(stored)).toEqual([]);
      expect(piecesWritten(stored)).toEqual(numbers(path === '/short' ? 15 : 60));
      await deliveredAll(path, id);
    }
  });
});
