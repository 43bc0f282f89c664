/** Equivalent servers behind one name: calls go where they succeed, and nothing runs twice. */
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { textOf } from '../input/support/message.js';
import { modernCall, Session } from '../input/support/speak.js';
import { eventually } from '../support/eventually.js';
import { BIN, startGateway } from '../support/gateway.js';
import { card } from '../support/remote-agents.js';
import { BEHAVIOURS, type Pool, startPool } from './servers.js';

const run = promisify(execFile);

interface ShownReplica {
  readonly position: number;
  readonly url: string;
  readonly status: string;
  readonly calls: number;
  readonly failures: number;
  readonly expected?: number;
  readonly differs?: string;
}

interface Replayed {
  readonly pools: { pool: string; policies: { policy: string; reward: number; choices: number }[] }[];
}

async function replicasOf({ gateway }: Pick<Pool, 'gateway'>): Promise<ShownReplica[]> {
  const shown = (await (await fetch(`${gateway.url}/api/v1/servers/pool`)).json()) as { replicas: ShownReplica[] };
  return shown.replicas;
}

const runsOf = ({ replicas }: Pool, tag: string): number =>
  replicas.flatMap((replica) => replica.ran()).filter((ran) => ran === tag).length;

describe.each(['modern', 'legacy'] as const)('%s servers', (era) => {
  test('calls avoid the server that fails fast and the slow one; all servers are shown and measured, and choices are replayed', async () => {
    const pool = await startPool(era, BEHAVIOURS);
    const { gateway } = pool;
    try {
      for (let call = 0; call < 120; call += 1) await modernCall(`${gateway.url}/mcp`, 'pool__who', { tag: 'x' });
      const [failing, slow, good] = await replicasOf(pool);
      expect(good!.calls).toBeGreaterThan(80);
      expect(good).toMatchObject({ position: 3, url: pool.replicas[2]!.url, status: 'up', failures: 0 });
      expect(failing!.failures).toBe(failing!.calls);
      expect(good!.expected).toBeGreaterThan(slow!.expected ?? 0.7);
      const counted = pool.replicas.map((replica) => replica.ran().length);
      expect(counted).toEqual([failing!.calls, slow!.calls, good!.calls]);
      // The list comes from the first server, and the other one is reported.
      expect(slow!.differs).toBe('only it has "extra"');
      expect(gateway.log()).toContain('the tools of a replica differ');
      const metrics = await (await fetch(`${gateway.url}/metrics`)).text();
      expect(metrics).toContain(`parley_replica_calls_total{upstream="pool",replica="3",outcome="ok"} ${good!.calls}`);
      expect(metrics).toContain('parley_replica_up{upstream="pool",replica="1"} 1');
      const env = { ...process.env, PARLEY_URL: gateway.url };
      const listed = await run(process.execPath, [BIN, 'servers', '--url', gateway.url], { env });
      expect(listed.stdout).toContain(pool.replicas[2]!.url);
      const health = (await (await fetch(`${gateway.url}/health`)).json()) as { replicas: { pool: ShownReplica[] } };
      expect(health.replicas.pool).toHaveLength(3);
      const replayed = await eventually(
        async () => {
          const args = [BIN, 'routing', 'replay', 'pool', '--json', '--config', gateway.file];
          return JSON.parse((await run(process.execPath, args)).stdout) as Replayed;
        },
        ({ pools }) => (pools[0]?.policies[0]?.choices ?? 0) >= 100,
      );
      const policies = replayed.pools[0]!.policies;
      const worth = Object.fromEntries(policies.map(({ policy, reward }) => [policy, reward]));
      expect(worth['learned']).toBeGreaterThan(worth['round robin']!);
    } finally {
      await pool.close();
    }
  });

  test('a session stays with its server; a call that may have run is not repeated when the server is killed', async () => {
    const pool = await startPool(era, ['good', 'good', 'good']);
    try {
      const url = `${pool.gateway.url}/mcp`;
      const sessions = await Promise.all([1, 2, 3, 4].map(() => Session.open(url, '2025-11-25')));
      const who = async (session: Session): Promise<string> =>
        textOf((await session.call('pool__who', { tag: 'who' })).json);
      for (const session of sessions) {
        const own = await who(session);
        for (let call = 0; call < 5; call += 1) expect(await who(session)).toBe(own);
      }
      const [session] = sessions;
      const owner = await who(session!);
      const held = session!.call('pool__hold', { tag: 'held' });
      await eventually(
        () => runsOf(pool, 'held'),
        (runs) => runs === 1,
      );
      const server = pool.replicas.find(({ name }) => name === owner)!;
      expect(server.ran()).toContain('held');
      await server.kill();
      const reply = JSON.stringify((await held).json);
      expect(reply).toContain('unknown');
      expect(runsOf(pool, 'held')).toBe(1);
      // Nothing of the next call can be sent to the dead server, so it goes to another one, and the session stays
      // there.
      const next = await who(session!);
      expect(next).not.toBe(owner);
      expect(await who(session!)).toBe(next);
      for (let call = 0; call < 20; call += 1)
        expect(textOf((await modernCall(url, 'pool__who', { tag: `after ${call}` })).json)).not.toBe(owner);
      for (let call = 0; call < 20; call += 1) expect(runsOf(pool, `after ${call}`)).toBe(1);
      const states = (await replicasOf(pool)).map(({ status }) => status).sort();
      expect(states).toEqual(['down', 'up', 'up']);
    } finally {
      await pool.close();
    }
  });
});

test('a gateway that was killed starts with the choices it had learned from', async () => {
  const data = await mkdtemp(join(tmpdir(), 'parley-replicas-'));
  const pool = await startPool('modern', ['failing', 'good'], {}, { data });
  try {
    const url = `${pool.gateway.url}/mcp`;
    for (let call = 0; call < 60; call += 1) await modernCall(url, 'pool__who', { tag: 'x' });
    const args = [BIN, 'routing', 'replay', '--json', '--config', pool.gateway.file];
    await eventually(
      async () => (JSON.parse((await run(process.execPath, args)).stdout) as Replayed).pools[0]?.policies[0]?.choices,
      (choices = 0) => choices >= 50,
    );
    const exit = once(pool.gateway.process, 'exit');
    pool.gateway.process.kill('SIGKILL');
    await exit;
    const again = await startGateway(pool.config, { data });
    try {
      const [failing, good] = await replicasOf({ gateway: again });
      expect(good).toMatchObject({ calls: 0 });
      expect(good!.expected).toBeGreaterThan(failing!.expected!);
    } finally {
      await again.close();
    }
  } finally {
    await pool.close();
    await rm(data, { recursive: true, force: true });
  }
});

const SKILL = {
  id: 'forecast',
  name: 'Forecast',
  description: 'Tells the weather of a city for the coming days',
  tags: ['weather'],
};

/** An agent whose only skill is the forecast. */
async function startAgent(answer: (contextId: string) => object) {
  const messages: string[] = [];
  const server = createServer(async (req, res) => {
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk as Buffer);
    const send = (value: object): void =>
      void res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value));
    if (req.method === 'GET')
      return send(card([{ url: `${origin}/rpc` }], { skills: [SKILL], capabilities: { streaming: false } }));
    const { id, params } = JSON.parse(Buffer.concat(chunks).toString()) as {
      id: number;
      params: { message: { contextId?: string; messageId: string } };
    };
    messages.push(params.message.messageId);
    send({ jsonrpc: '2.0', id, ...answer(params.message.contextId ?? `context ${messages.length} at ${origin}`) });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const close = (): void => {
    server.close();
    server.closeAllConnections();
  };
  return { url: origin, messages, close };
}

test('messages for a skill of two agents avoid the agent that fails, and a context stays with its agent', async () => {
  const bad = await startAgent(() => ({ error: { code: -32603, message: 'the model is away' } }));
  const good = await startAgent((contextId) => ({
    result: { message: { messageId: randomUUID(), contextId, role: 'ROLE_AGENT', parts: [{ text: 'sunny' }] } },
  }));
  const gateway = await startGateway({ agents: { one: { url: bad.url }, two: { url: good.url } } });
  const send = async (more: object = {}) => {
    const message = { messageId: randomUUID(), role: 'ROLE_USER', parts: [{ text: 'the weather of Oslo?' }], ...more };
    const reply = await fetch(`${gateway.url}/a2a`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'a2a-version': '1.0' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SendMessage', params: { message } }),
    });
    return (await reply.json()) as { result?: { message: { contextId: string; metadata: object } } };
  };
  try {
    await eventually(
      async () => JSON.stringify(await (await fetch(`${gateway.url}/.well-known/agent-card.json`)).json()),
      (text) => text.includes('one.forecast') && text.includes('two.forecast'),
    );
    for (let call = 0; call < 60; call += 1) await send();
    expect(good.messages.length).toBeGreaterThan(40);
    expect(bad.messages.length).toBeGreaterThan(0);
    expect(new Set([...good.messages, ...bad.messages]).size).toBe(60);
    const { result } = await eventually(send, (answer) => answer.result !== undefined);
    const before = bad.messages.length;
    for (let call = 0; call < 10; call += 1)
      expect(await send({ contextId: result!.message.contextId })).toHaveProperty('result');
    expect(bad.messages.length).toBe(before);
  } finally {
    await gateway.close();
    bad.close();
    good.close();
  }
});
