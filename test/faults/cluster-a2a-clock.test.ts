/**
 * Case 30 for agent tasks: the clock of one of two replicas jumps by an hour. A task keeps its only follower at either
 * replica; a notification has one sender, is sent when due and has the right time; tasks of a dead replica with the
 * wrong time are taken over at the right moment.
 */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import {
  connectTo,
  deliveredNumbers,
  faultsOf,
  LEASE,
  Listener,
  NOTICED,
  numbers,
  piecesWritten,
  storedTask,
} from '../cluster/support/a2a.js';
import { CLUSTERS, type Replica, type Replicas, startEngines } from '../cluster/support/replicas.js';
import { eventually } from '../era-bridge/support/wire.js';
import { closeHttp, listen } from '../fixtures/a2a/agent.js';
import type { Client } from '../fixtures/a2a/client.js';
import { escaped } from '../input/support/world.js';
import { Clock, HOUR } from './clock.js';
import { sleep } from './rounds.js';

interface Work {
  pieces: number;
  done: boolean;
  /** The open streams of the task. */
  readonly open: Set<ServerResponse>;
  /** The highest number of streams open at the same time. */
  most: number;
  /** The number of reads and subscriptions after the start of the task. */
  asked: number;
}

const readBody = async (request: IncomingMessage): Promise<string> => {
  let body = '';
  for await (const chunk of request) body += String(chunk);
  return body;
};

/** An agent that continues its tasks on request, sets no timestamps, and counts the followers of each task. */
class CountingAgent {
  readonly tasks = new Map<string, Work>();
  url = '';
  private server!: Server;

  async start(): Promise<this> {
    const { server, url } = await listen((request, response) => void this.answer(request, response));
    Object.assign(this, { server, url });
    return this;
  }

  of(id: string): Work {
    return this.tasks.get(id)!;
  }

  tell(id: string): void {
    const work = this.of(id);
    work.pieces += 1;
    const artifact = { artifactId: 'count', parts: [{ text: String(work.pieces) }] };
    this.say(id, { artifactUpdate: { taskId: id, contextId: 'c', artifact, append: work.pieces > 1 } });
  }

  finish(id: string): void {
    this.of(id).done = true;
    this.say(id, { statusUpdate: { taskId: id, contextId: 'c', status: { state: 'TASK_STATE_COMPLETED' } } });
    for (const stream of this.of(id).open) stream.end();
  }

  close(): Promise<void> {
    return closeHttp(this.server);
  }

  private say(id: string, event: object): void {
    for (const stream of this.of(id).open) this.write(stream, event);
  }

  private write(stream: ServerResponse, result: object): void {
    stream.write(`data: ${JSON.stringify({ jsonrpc: '2.0', id: 1, result })}\n\n`);
  }

  private snapshot(id: string): object {
    const { pieces, done } = this.of(id);
    const artifacts = [{ artifactId: 'count', parts: numbers(pieces).map((text) => ({ text })) }];
    const status = { state: done ? 'TASK_STATE_COMPLETED' : 'TASK_STATE_WORKING' };
    return { id, contextId: 'c', status, ...(pieces > 0 && { artifacts }) };
  }

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.method === 'GET') {
      const supportedInterfaces = [{ url: `${this.url}/rpc`, protocolBinding: 'JSONRPC', protocolVersion: '1.0' }];
      const about = { name: 'counting', description: 'counts', version: '1', skills: [] };
      const modes = { defaultInputModes: ['text/plain'], defaultOutputModes: ['text/plain'] };
      response.end(JSON.stringify({ ...about, ...modes, capabilities: { streaming: true }, supportedInterfaces }));
      return;
    }
    const { id: call, method, params } = JSON.parse(await readBody(request));
    if (method === 'GetTask') {
      this.of(params.id).asked += 1;
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ jsonrpc: '2.0', id: call, result: this.snapshot(params.id) }));
      return;
    }
    const begins = method === 'SendStreamingMessage';
    const id: string = begins ? randomUUID() : params.id;
    if (begins) this.tasks.set(id, { pieces: 0, done: false, open: new Set(), most: 0, asked: 0 });
    const work = this.of(id);
    if (!begins) work.asked += 1;
    work.open.add(response);
    work.most = Math.max(work.most, work.open.size);
    response.on('close', () => work.open.delete(response));
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    this.write(response, { task: this.snapshot(id) });
    if (work.done) response.end();
  }
}

/** Answers slowly, so that two senders of one notification would overlap. */
class SlowReceiver {
  readonly got: { path: string; id: string; at: number; stamp: number }[] = [];
  /** Notifications that arrived again before their first delivery was answered. */
  readonly twice: string[] = [];
  url = '';
  private server!: Server;
  private readonly under = new Set<string>();

  async start(): Promise<this> {
    const { server, url } = await listen((request, response) => void this.take(request, response));
    Object.assign(this, { server, url });
    return this;
  }

  ids(path: string): string[] {
    return this.got.filter((one) => one.path === path).map(({ id }) => id);
  }

  close(): Promise<void> {
    return closeHttp(this.server);
  }

  private async take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    await readBody(request);
    const id = String(request.headers['webhook-id']);
    if (this.under.has(id)) this.twice.push(id);
    this.under.add(id);
    const stamp = Number(request.headers['webhook-timestamp']) * 1_000;
    this.got.push({ path: request.url ?? '', id, at: Date.now(), stamp });
    await sleep(300);
    this.under.delete(id);
    response.writeHead(204).end();
  }
}

/** A task with a reader at the replica that started it and a reader at the other replica. */
interface Followed {
  readonly id: string;
  readonly path: string;
  readonly own: Listener;
  readonly other: Listener;
  readonly follower: string;
}

describe.each(CLUSTERS)('agents behind two replicas over %s', (engine) => {
  let engines: Replicas;
  let agent: CountingAgent;
  let receiver: SlowReceiver;
  let clock: Clock;

  beforeAll(async () => {
    engines = await startEngines(engine);
  });
  beforeEach(async () => {
    clock = new Clock();
    [agent, receiver] = await Promise.all([new CountingAgent().start(), new SlowReceiver().start()]);
  });
  afterEach(async () => {
    await engines.reset();
    await Promise.all([agent.close(), receiver.close()]);
    clock.remove();
  });
  afterAll(() => engines?.stop());

  const begin = async (at: Client, there: Client, path: string): Promise<Followed> => {
    const own = new Listener(at.stream({ parts: [{ text: 'begin' }] }));
    const seen = (listener: Listener) => eventually(() => listener.events.length > 0, Boolean);
    await seen(own);
    await at.setPush(own.id, { id: 'p', url: `${receiver.url}${path}`, token: 't' });
    const other = new Listener(there.subscribe(own.id));
    await seen(other);
    const { follower } = await storedTask(engines.db, own.id);
    expect(follower).not.toBe('');
    return { id: own.id, path, own, other, follower };
  };

  const oneFollower = async ({ id, follower }: Followed): Promise<void> => {
    expect((await storedTask(engines.db, id)).follower).toBe(follower);
    const { open, most, asked } = agent.of(id);
    expect({ open: open.size, most, asked }).toEqual({ open: 1, most: 1, asked: 0 });
  };

  /** Ends the task after `pieces` pieces, and checks that every reader received each event once. */
  const finish = async ({ id, own, other, path }: Followed, pieces: number): Promise<void> => {
    agent.finish(id);
    for (const listener of [own, other]) {
      await listener.ended;
      expect(listener.error).toBeUndefined();
      expect(listener.last).toBe('completed');
      expect(listener.pieces).toEqual(numbers(pieces));
    }
    const stored = await storedTask(engines.db, id);
    expect(faultsOf(stored)).toEqual([]);
    expect(piecesWritten(stored)).toEqual(numbers(pieces));
    // The notifications were delivered in time, each once and in order.
    await eventually(() => deliveredNumbers(receiver.ids(path)).includes(stored.seq), Boolean, 20_000);
    const heard = receiver.ids(path);
    expect(new Set(heard).size).toBe(heard.length);
    const [first = 0] = deliveredNumbers(heard);
    expect(deliveredNumbers(heard)).toEqual(Array.from({ length: stored.seq - first + 1 }, (_, i) => first + i));
  };

  test.each([
    ['ahead', HOUR],
    ['back', -HOUR],
  ] as const)('the clock of one replica jumps %s by an hour', async (_, offset) => {
    const agents = { counting: { url: agent.url } };
    // The lifetime of tasks is shorter than the clock jump.
    const settings = { agents, egress: { allowPrivate: true }, a2a: { taskTtl: '30m' } };
    const [a, b] = (await engines.start(2, settings, [{ env: clock.env }])) as [Replica, Replica];
    const [at, there] = await Promise.all([connectTo(a, 'counting'), connectTo(b, 'counting')]);
    const before = [await begin(at, there, '/before/a'), await begin(there, at, '/before/b')];

    clock.jump(offset);
    await sleep(500);
    const after = [await begin(at, there, '/after/a'), await begin(there, at, '/after/b')];
    const all = [...before, ...after];
    // Each piece causes a notification. The loop takes longer than a lease, so that every claim is renewed meanwhile.
    const steps = 6;
    for (let i = 0; i < steps; i++) {
      for (const { id } of all) agent.tell(id);
      await sleep((LEASE * 1.5) / steps);
      for (const followed of all) await oneFollower(followed);
    }
    for (const followed of all) await finish(followed, steps);

    expect(receiver.twice).toEqual([]);
    for (const { at: came, stamp } of receiver.got) expect(Math.abs(came - stamp)).toBeLessThan(60_000);
    // The agent sends no timestamps, so tasks are listed by their end as seen by either replica.
    for (const client of [at, there]) {
      const { tasks } = await client.list!({});
      expect(tasks.map(({ id }) => id)).toEqual(all.map(({ id }) => id).reverse());
    }

    // Tasks of the killed replica with the wrong time become due at the right moment.
    const left = await begin(at, there, '/left');
    agent.tell(left.id);
    await eventually(() => left.other.pieces.length === 1, Boolean);
    await oneFollower(left);
    await a.kill();
    const killed = performance.now();
    await eventually(() => agent.of(left.id).asked > 0 && agent.of(left.id).open.size === 1, Boolean, NOTICED);
    console.log(`${engine}: continued ${Math.round(performance.now() - killed)} ms after the kill`);
    agent.tell(left.id);
    agent.finish(left.id);
    await left.other.ended;
    expect(left.other.error).toBeUndefined();
    expect(left.other.pieces).toEqual(numbers(2));
    expect(agent.of(left.id).most).toBe(1);
    expect(escaped(b.log())).toEqual([]);
  });
});
