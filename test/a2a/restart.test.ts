/** A gateway loses no data when it is stopped and started again. */
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type AgentCard, verifyAgentCardSignature } from '@a2a-js/sdk';
import { importJWK, type JSONWebKeySet } from 'jose';
import { expect, test } from 'vitest';
import { COLUMNS } from '../fixtures/a2a/agents.js';
import { connectClient, ROWS } from '../fixtures/a2a/clients.js';
import { readEvent } from '../fixtures/a2a/v1.js';
import type { Event } from '../fixtures/a2a/views.js';
import { finished, mark, say, taskOf, until } from './case.js';
import { ADA, openTestbed, type Testbed } from './testbed.js';

test('tasks, their owners and their webhooks survive a restart (G-20, S-51, G-51)', async () => {
  const data = await mkdtemp(join(tmpdir(), 'parley-a2a-'));
  const testbed = await openTestbed(
    COLUMNS.filter(({ name }) => name === 'one-rpc'),
    {},
    { data },
  );
  try {
    const row = ROWS.find(({ name }) => name === '1.0 rest')!;
    const client = await testbed.connect(row, 'one-rpc');
    const asked = taskOf(await client.send(say(`ask ${mark()}`)));
    const under = taskOf(await client.send(say(`slow 1500 ${mark()}`, { returnImmediately: true })));
    const path = `/${mark()}`;
    await client.setPush(asked.id, { id: 'kept', url: `${testbed.webhook.url}${path}`, token: 'kept-token' });
    await testbed.restart();
    const again = await testbed.connect(row, 'one-rpc');
    expect((await again.get(asked.id)).state).toBe('input-required');
    expect((await again.listPush!(asked.id)).map(({ id }) => id)).toEqual(['kept']);
    expect(taskOf(await again.send(say('blue', { taskId: asked.id }))).state).toBe('completed');
    await until('the notification', () =>
      testbed.webhook.at(path).find((one) => JSON.stringify(one.body).includes('COMPLETED')),
    );
    await until(
      'the end of the other task',
      async () => (await again.get(under.id)).state === 'completed' || undefined,
    );
  } finally {
    await testbed.close();
    await rm(data, { recursive: true, force: true });
  }
});

const kill = async ({ gateway: { process: child } }: Testbed): Promise<void> => {
  const exit = once(child, 'exit');
  child.kill('SIGKILL');
  await exit;
};

/** Accepts notifications once it listens; before that its port refuses connections. */
class LateReceiver {
  readonly got: { readonly id: string; readonly body: string }[] = [];
  private server: Server | undefined;
  private port = 0;

  async listen(): Promise<void> {
    const server = createServer((request, response) => {
      let body = '';
      request.on('data', (chunk: Buffer) => {
        body += chunk.toString();
      });
      request.on('end', () => {
        this.got.push({ id: String(request.headers['webhook-id']), body });
        response.writeHead(204).end();
      });
    });
    this.server = server;
    await new Promise<void>((resolve) => server.listen(this.port, '127.0.0.1', resolve));
    this.port = (server.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}/`;
  }

  async close(): Promise<void> {
    this.server?.closeAllConnections();
    await new Promise((resolve) => this.server?.close(resolve));
  }
}

test('after a kill: acknowledged data is there, queued notifications are delivered, the key is the same (P1)', async () => {
  const data = await mkdtemp(join(tmpdir(), 'parley-a2a-'));
  const columns = COLUMNS.filter(({ name }) => name === 'one-rpc' || name === 'three-plain');
  // An agent with other skills: the routing agent asks only if its agents differ.
  const units = {
    command: process.execPath,
    args: [fileURLToPath(new URL('../../examples/units.mjs', import.meta.url))],
  };
  const settings = { servers: { units }, agents: { helper: { tools: ['units__*'] } } };
  const testbed = await openTestbed(columns, settings, { data });
  const receiver = new LateReceiver();
  await receiver.listen();
  await receiver.close();
  try {
    const row = ROWS.find(({ name }) => name === '1.0 jsonrpc')!;
    const client = await testbed.connect(row, 'one-rpc');
    const front = () =>
      connectClient(row, { url: `${testbed.gateway.url}/a2a`, headers: { authorization: `Bearer ${ADA}` } });
    const get = async (path: string) =>
      (await fetch(`${testbed.gateway.url}${path}`, { headers: { 'a2a-version': '1.0' } })).json();
    const before = { jwks: await get('/.well-known/jwks.json'), card: await get('/.well-known/agent-card.json') };
    const steps = taskOf(await client.send(say(`steps ${mark()}`)));
    const asked = taskOf(await client.send(say(`ask ${mark()}`)));
    const question = taskOf(await (await front()).send(say('zebra crossing')));
    expect(question.state).toBe('input-required');
    const owed = taskOf(
      await client.send(
        say(`slow 300 ${mark()}`, { push: { id: 'owed', url: receiver.url, token: 'owed' }, returnImmediately: true }),
      ),
    );
    await finished(client, owed.id);
    const polled = await testbed.connect(row, 'three-plain');
    const working = taskOf(await polled.send(say(`slow 2500 ${mark()}`, { returnImmediately: true })));
    const kept = { steps: await client.get(steps.id), asked: await client.get(asked.id) };
    const listed = (await client.list!({})).tasks.map(({ id }) => id);

    await kill(testbed);
    await receiver.listen();
    await testbed.restart();

    const again = await testbed.connect(row, 'one-rpc');
    expect(await again.get(steps.id)).toEqual(kept.steps);
    expect(kept.steps.history!.length).toBeGreaterThan(1);
    expect(await again.get(asked.id)).toEqual(kept.asked);
    expect((await again.list!({})).tasks.map(({ id }) => id)).toEqual(listed);
    expect(await again.listPush!(owed.id)).toMatchObject([{ id: 'owed', url: receiver.url, token: 'owed' }]);
    expect(taskOf(await again.send(say('blue', { taskId: asked.id }))).state).toBe('completed');
    // The question of the routing agent still waits, and the answer reaches the agent that it names.
    const desk = await front();
    expect((await desk.get(question.id)).state).toBe('input-required');
    expect(taskOf(await desk.send(say('one-rpc', { taskId: question.id }))).state).toBe('completed');
    // The undelivered notifications arrive now, complete and in order.
    await until('the last notification', () => receiver.got.find(({ body }) => body.includes('COMPLETED')), 40_000);
    const numbers = [...new Set(receiver.got.map(({ id }) => id))].map((id) => Number(id.split('.').at(-1)));
    expect(numbers).toEqual(numbers.map((_, i) => numbers[0]! + i));
    expect((await finished(await testbed.connect(row, 'three-plain'), working.id)).state).toBe('completed');
    // The same key signs, and its earlier signatures are still valid.
    const jwks = (await get('/.well-known/jwks.json')) as JSONWebKeySet;
    expect(jwks).toEqual(before.jwks);
    const verify = verifyAgentCardSignature(
      async (kid) => (await importJWK(jwks.keys.find((key) => key.kid === kid)!, 'ES256')) as never,
    );
    for (const card of [before.card, await get('/.well-known/agent-card.json')])
      await expect(verify(card as AgentCard)).resolves.toBeUndefined();
  } finally {
    await testbed.close();
    await receiver.close();
    await rm(data, { recursive: true, force: true });
  }
});

/** The changes in an event, without those that a snapshot repeats. */
function changesIn(event: Event): string[] {
  if (event.kind === 'status') return [`${event.taskId} ${event.state}`];
  if (event.kind !== 'artifact') return [];
  return event.artifact.parts.map(({ text }) => `${event.taskId} piece ${text}`);
}

test('after a kill: every change that a stream has seen reaches its webhook (P4)', async () => {
  const data = await mkdtemp(join(tmpdir(), 'parley-a2a-'));
  const testbed = await openTestbed(
    COLUMNS.filter(({ name }) => name === 'one-rpc'),
    {},
    { data },
  );
  const [ROUNDS, STREAMS, PIECES] = [2, 10, 60];
  try {
    const row = ROWS.find(({ name }) => name === '1.0 jsonrpc')!;
    for (let round = 0; round < ROUNDS; round++) {
      const client = await testbed.connect(row, 'one-rpc');
      const path = `/${mark()}`;
      const push = { id: 'hook', url: `${testbed.webhook.url}${path}`, token: 'secret' };
      const seen = new Set<string>();
      const watch = async (): Promise<void> => {
        try {
          for await (const event of client.stream(say(`count ${PIECES} 20 ${mark()}`, { push })))
            for (const change of changesIn(event)) seen.add(change);
        } catch {
          // The kill ended the stream.
        }
      };
      const streams = Array.from({ length: STREAMS }, watch);
      await until('changes in the streams', () => (seen.size > STREAMS * (5 + 5 * round) ? true : undefined));
      await kill(testbed);
      await Promise.all(streams);
      expect(seen.size).toBeLessThan(STREAMS * PIECES);
      await testbed.restart();
      const missing = (): string[] => {
        const told = new Set(testbed.webhook.at(path).flatMap(({ body }) => changesIn(readEvent(body))));
        return [...seen].filter((change) => !told.has(change));
      };
      await until('all changes at the webhook', () => (missing().length === 0 ? true : undefined)).catch(() => {});
      expect(missing()).toEqual([]);
    }
  } finally {
    await testbed.close();
    await rm(data, { recursive: true, force: true });
  }
});
