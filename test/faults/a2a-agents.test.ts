/** Unreachable and silent agents: the gateway starts, other agents are served, and calls end in time. */
import { createServer, type Server, type Socket } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { settingsFor, startAgents } from '../cluster/support/a2a.js';
import type { RunningAgent } from '../fixtures/a2a/agent.js';
import { type RunningGateway, startGateway } from '../support/gateway.js';
import { freePort } from '../support/services.js';

/** Limit for a call to an agent that is down, in milliseconds. */
const LIMIT = 15_000;

let agents: RunningAgent[];
let silent: Server;
let gateway: RunningGateway;
const sockets = new Set<Socket>();

beforeAll(async () => {
  agents = await startAgents('one-rpc');
  silent = createServer((socket) => void sockets.add(socket));
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
  const { port } = silent.address() as { port: number };
  const { agents: there, ...settings } = settingsFor(agents);
  gateway = await startGateway({
    ...settings,
    log: { level: 'warn' },
    agents: {
      ...(there as object),
      refusing: { url: `http://127.0.0.1:${await freePort()}` },
      silent: { url: `http://127.0.0.1:${port}` },
    },
  });
});
afterAll(async () => {
  await gateway?.close();
  for (const socket of sockets) socket.destroy();
  await new Promise((resolve) => silent?.close(resolve));
  await Promise.all((agents ?? []).map((agent) => agent.close()));
});

interface Answer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: whatever was answered
  readonly body: any;
  readonly took: number;
}

async function call(agent: string, method: string, params: object): Promise<Answer> {
  const began = performance.now();
  const answer = await fetch(`${gateway.url}/a2a/${agent}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'a2a-version': '1.0' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  });
  const text = await answer.text();
  const json = text.startsWith('{') ? text : (/^data: (.*)$/m.exec(text)?.[1] ?? 'null');
  return { status: answer.status, body: JSON.parse(json), took: performance.now() - began };
}

const message = { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'echo there' }] };

test('the gateway starts, and reachable agents answer', async () => {
  const { body } = await call('one-rpc', 'SendMessage', { message });
  expect(body.result.task.status.state).toBe('TASK_STATE_COMPLETED');
});

test.each(['refusing', 'silent'])('calls to a %s agent fail in time with a typed error', async (agent) => {
  const answers = await Promise.all(
    ['SendMessage', 'SendStreamingMessage'].map((method) => call(agent, method, { message })),
  );
  for (const { body, took } of answers) {
    expect(took).toBeLessThan(LIMIT);
    expect(body.error.code).toBeLessThan(0);
    expect(JSON.stringify(body.error.data)).toMatch(/UPSTREAM_(UNAVAILABLE|TIMEOUT)|upstream_(unavailable|timeout)/);
  }
  // Calls to other agents are not slower.
  const { took } = await call('one-rpc', 'SendMessage', { message });
  expect(took).toBeLessThan(2_000);
  const began = performance.now();
  const cards = await fetch(`${gateway.url}/.well-known/agent-card.json`);
  expect(cards.status).toBe(200);
  expect(performance.now() - began).toBeLessThan(LIMIT);
});
