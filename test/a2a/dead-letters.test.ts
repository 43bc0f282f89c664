/** Undeliverable notifications are shown to their owner, and sent again on request (G-51). */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { COLUMNS, startAgent } from '../fixtures/a2a/agents.js';
import { type RunningGateway, startGateway } from '../support/gateway.js';

const ADA = 'ada-7f3k2m9q4x8z1c5v6b0n';
const BOB = 'bob-2w5e8r1t4y7u0i3o6p9a';

let status = 410;
const received: string[] = [];
const receiver = createServer((req, res) => {
  received.push(String(req.headers['webhook-id']));
  req.resume().on('end', () => res.writeHead(status).end());
});
let gateway: RunningGateway;
let agent: Awaited<ReturnType<typeof startAgent>>;

beforeAll(async () => {
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
  agent = await startAgent(COLUMNS[0]!);
  const tokens = [
    { name: 'ada', token: ADA },
    { name: 'bob', token: BOB },
  ];
  gateway = await startGateway({
    agents: { one: { url: agent.url } },
    auth: { tokens },
    egress: { allowPrivate: true },
  });
});

afterAll(async () => {
  await gateway.close();
  await agent.close();
  receiver.close();
});

async function dead(token: string): Promise<{ id: string; target: string; error: string }[]> {
  const answer = await fetch(`${gateway.url}/a2a/push/dead`, { headers: { authorization: `Bearer ${token}` } });
  expect(answer.status).toBe(200);
  return ((await answer.json()) as { notifications: { id: string; target: string; error: string }[] }).notifications;
}

const replay = async (token: string, id: string): Promise<number> =>
  (await fetch(`${gateway.url}/a2a/push/dead/${id}`, { method: 'POST', headers: { authorization: `Bearer ${token}` } }))
    .status;

test('G-51: an undeliverable notification is shown only to its owner, and is sent again with the same id', async () => {
  const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hook`;
  const params = {
    message: { messageId: 'm1', role: 'ROLE_USER', parts: [{ text: 'echo x' }] },
    configuration: { taskPushNotificationConfig: { url } },
  };
  const sent = await fetch(`${gateway.url}/a2a/one`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'a2a-version': '1.0', authorization: `Bearer ${ADA}` },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SendMessage', params }),
  });
  expect(sent.status).toBe(200);
  await expect.poll(() => dead(ADA), { timeout: 10_000 }).not.toEqual([]);
  const [letter] = await dead(ADA);
  expect(letter).toMatchObject({ target: new URL(url).origin, error: expect.stringContaining('410') });
  expect(JSON.stringify(letter)).not.toContain('/hook');
  expect(await dead(BOB)).toEqual([]);
  expect(await replay(BOB, letter!.id)).toBe(404);
  expect((await fetch(`${gateway.url}/a2a/push/dead`)).status).toBe(401);

  status = 200;
  const before = received.filter((id) => id === letter!.id).length;
  expect(await replay(ADA, letter!.id)).toBe(202);
  await expect.poll(() => received.filter((id) => id === letter!.id).length, { timeout: 10_000 }).toBe(before + 1);
  await expect.poll(async () => (await dead(ADA)).some(({ id }) => id === letter!.id)).toBe(false);
});
