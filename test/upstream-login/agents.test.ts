/**
 * Agents at which each user signs in: an A2A client of every version and binding gets a task that waits for the sign-in
 * (S-63), and an MCP client gets the same question as with servers.
 */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Client, Row, Send, Sent } from '../fixtures/a2a/client.js';
import { connectClient, ROWS } from '../fixtures/a2a/clients.js';
import type { Event, Task } from '../fixtures/a2a/views.js';
import { type RunningGateway, startGateway } from '../support/gateway.js';
import { LoginBrowser } from '../support/login-browser.mjs';
import { modernRequest } from './modern-request.js';
import { type ProtectedAgent, startProtectedAgent } from './protected-agent.js';

const USERS = [...ROWS.map(({ name }) => name), 'streaming', 'emulated', 'flow', 'bridge', 'twice', 'renewed'].map(
  (each) => each.replace(/\W/g, '-'),
);
const tokenOf = (user: string): string => `${user.replace(/\W/g, '-')}-token-0123456789abcdef`;
const ONE = ROWS.find(({ name }) => name === '1.0 jsonrpc')!;

let oidc: ProtectedAgent;
let flow: ProtectedAgent;
let plain: ProtectedAgent;
let gateway: RunningGateway;
const clients: Client[] = [];

beforeAll(async () => {
  [oidc, flow, plain] = await Promise.all([
    startProtectedAgent('openIdConnect'),
    startProtectedAgent('authorizationCode'),
    startProtectedAgent('openIdConnect', true),
  ]);
  gateway = await startGateway(
    {
      auth: { tokens: USERS.map((name) => ({ name, token: tokenOf(name) })) },
      agents: {
        helper: { url: oidc.url, auth: { oauth: { registration: 'auto' } } },
        flow: { url: flow.url, auth: { oauth: { clientId: 'gateway' } } },
        plain: { url: plain.url, auth: { oauth: { registration: 'auto' } } },
      },
      grpc: { listen: '127.0.0.1:0' },
      egress: { allowPrivate: true },
    },
    { settled: false },
  );
}, 60_000);
afterAll(async () => {
  for (const client of clients) client.close();
  await gateway?.close();
  await Promise.all([oidc, flow, plain].map((agent) => agent?.close()));
});

async function connect(row: Row, user: string, agent = 'helper'): Promise<Client> {
  const client = await connectClient(row, {
    // gRPC of 0.3 has no tenant, so only the card of the routing agent has its address.
    url: row.version === '0.3' && row.binding === 'grpc' ? `${gateway.url}/a2a` : `${gateway.url}/a2a/${agent}`,
    headers: {
      authorization: `Bearer ${tokenOf(user)}`,
      ...(row.binding === 'grpc' && { 'x-parley-agent': agent }),
    },
  });
  clients.push(client);
  return client;
}

const saying = (text: string, more: Partial<Send> = {}): Send => ({ parts: [{ text }], ...more });
const taskOf = ({ task }: Sent): Task => task ?? expect.fail('a task was expected');
const wordsOf = ({ message, artifacts }: Task): string =>
  [message, ...artifacts]
    .flatMap((each) => each?.parts ?? [])
    .map(({ text }) => text ?? '')
    .join('\n');
const codeIn = (text: string): string => /[A-Z0-9]{4}-[A-Z0-9]{4}/.exec(text)?.[0] ?? '';
const linkIn = (text: string): string => /http:\S+\/connect\/agents\/\S+/.exec(text)?.[0] ?? '';

async function signIn(text: string): Promise<void> {
  const done = await new LoginBrowser().signIn(linkIn(text), { code: codeIn(text) });
  expect(done.text).toContain('Signed in to');
}

describe('S-63: a message of a user who is not signed in becomes a task that asks for it', () => {
  it.each(ROWS)('$name', async (row) => {
    const client = await connect(row, row.name);
    const chosen = row.version === '0.1' ? { taskId: randomUUID() } : {};
    const before = oidc.messages();
    const asked = taskOf(await client.send(saying(`echo ${row.name}`, chosen)));
    // Version 0.1 has no such state; its own rule is input-required.
    expect(asked.state).toBe(row.version === '0.1' ? 'input-required' : 'auth-required');
    expect(wordsOf(asked)).toContain('Agent "helper" needs you to sign in');
    expect(linkIn(wordsOf(asked))).toContain('/connect/agents/helper?link=');
    expect(asked.message?.parts.some(({ data }) => (data as { url?: string } | undefined)?.url !== undefined)).toBe(
      true,
    );
    expect((await client.get(asked.id)).state).toBe(asked.state);
    expect(JSON.stringify(asked)).not.toContain('/note/');
    // Without the sign-in the task goes on waiting.
    const still = taskOf(await client.send(saying('done', { taskId: asked.id })));
    expect([still.id, still.state]).toEqual([asked.id, asked.state]);
    expect(oidc.messages()).toBe(before);

    await signIn(wordsOf(still));
    const done = taskOf(await client.send(saying('done', { taskId: asked.id })));
    expect([done.id, done.state]).toEqual([asked.id, 'completed']);
    expect(done.contextId).toBe(asked.contextId);
    expect(wordsOf(done)).toContain(row.name);
    expect(oidc.messages()).toBe(before + 1);
    expect((await client.get(asked.id)).state).toBe('completed');
    // A signed-in user needs no such task.
    const next = taskOf(await client.send(saying('echo again', row.version === '0.1' ? { taskId: randomUUID() } : {})));
    expect(next.state).toBe('completed');
  });

  it('streams stay open for the sign-in, and carry the work after the next message', async () => {
    for (const [user, agent] of [
      ['streaming', 'helper'],
      ['emulated', 'plain'],
    ] as const) {
      const client = await connect(ONE, user, agent);
      const events: Event[] = [];
      const first = await new Promise<Event>((resolve, reject) => {
        void (async () => {
          for await (const event of client.stream(saying('stream of words'))) {
            if (events.push(event) === 1) resolve(event);
          }
        })().catch(reject);
      });
      if (first.kind !== 'task') expect.fail('a task was expected');
      expect(first.task.state).toBe('auth-required');
      await signIn(wordsOf(first.task));
      const next = await all((await connect(ONE, user, agent)).stream(saying('done', { taskId: first.task.id })));
      expect(new Set([...next, ...events].map(idOf))).toEqual(new Set([first.task.id]));
      const done = await client.get(first.task.id);
      expect(done.state).toBe('completed');
      expect(done.artifacts).toHaveLength(1);
      await expect
        .poll(() => events.some((event) => event.kind === 'status' && event.state === 'completed'))
        .toBe(true);
    }
  });

  it('a task continues with more messages under the same id, and can be cancelled before and after', async () => {
    const client = await connect(ONE, 'flow', 'flow');
    const unwanted = taskOf(await client.send(saying('echo unwanted')));
    expect((await client.cancel(unwanted.id)).state).toBe('canceled');
    const asked = taskOf(await client.send(saying('ask me')));
    await signIn(wordsOf(asked));
    const question = taskOf(await client.send(saying('done', { taskId: asked.id })));
    expect([question.id, question.state]).toEqual([asked.id, 'input-required']);
    const answered = taskOf(await client.send(saying('blue', { taskId: asked.id })));
    expect([answered.id, answered.state]).toEqual([asked.id, 'completed']);
    expect(flow.tokens.every((token) => token === 'token-of-code-1')).toBe(true);
  });

  it('G-22: another user finds neither the task nor its link', async () => {
    const ada = await connect(ONE, 'twice');
    const asked = taskOf(await ada.send(saying('echo mine')));
    const other = await connect(ONE, 'renewed');
    await expect(other.get(asked.id)).rejects.toThrow();
    await expect(other.send(saying('done', { taskId: asked.id }))).rejects.toThrow();
    expect((await ada.get(asked.id)).state).toBe('auth-required');
  });

  it('delivers the message once, whatever the number of concurrent answers', async () => {
    const client = await connect(ONE, 'twice');
    const asked = taskOf(await client.send(saying('echo once')));
    await signIn(wordsOf(asked));
    const before = oidc.messages();
    const answers = await Promise.allSettled(
      Array.from({ length: 5 }, async () => (await connect(ONE, 'twice')).send(saying('done', { taskId: asked.id }))),
    );
    expect(answers.some(({ status }) => status === 'fulfilled')).toBe(true);
    expect((await client.get(asked.id)).state).toBe('completed');
    expect(oidc.messages() - before).toBe(1);
  });

  it('asks again in the same task when the sign-in has ended', async () => {
    const client = await connect(ONE, 'renewed');
    const asked = taskOf(await client.send(saying('ask something')));
    await signIn(wordsOf(asked));
    const question = taskOf(await client.send(saying('done', { taskId: asked.id })));
    expect(question.state).toBe('input-required');
    oidc.revoke(oidc.tokens.at(-1)!);
    const again = taskOf(await client.send(saying('blue', { taskId: asked.id })));
    expect([again.id, again.state]).toEqual([asked.id, 'auth-required']);
    await signIn(wordsOf(again));
    const done = taskOf(await client.send(saying('blue', { taskId: asked.id })));
    expect([done.id, done.state]).toEqual([asked.id, 'completed']);
  });
});

describe('MCP clients of an agent', () => {
  const call = (more: object = {}, capabilities: object = {}) =>
    modernRequest(
      `${gateway.url}/mcp/helper`,
      tokenOf('bridge'),
      'tools/call',
      { name: 'echo', arguments: { message: 'echo from a tool' }, ...more },
      capabilities,
    );

  it('get the link as a question or as text, and the call goes on after the sign-in', async () => {
    const text = (await call()).result?.content?.[0]?.text ?? '';
    expect(linkIn(text)).toContain('/connect/agents/helper?link=');
    const mode = { elicitation: { url: {} } };
    const { result } = await call({}, mode);
    expect(result?.['resultType']).toBe('input_required');
    const [key, { params }] = Object.entries(result!.inputRequests!)[0]!;
    expect(params.mode).toBe('url');
    expect(params.url).toContain('/connect/agents/helper?link=');
    await signIn(`${params.message} ${params.url}`);
    const done = await call(
      { requestState: result!.requestState, inputResponses: { [key]: { action: 'accept' } } },
      mode,
    );
    expect(done.result?.isError ?? false).toBe(false);
    expect(JSON.stringify(done.result)).toContain('from a tool');
  });
});

async function all(events: AsyncIterable<Event>): Promise<Event[]> {
  const found: Event[] = [];
  for await (const event of events) found.push(event);
  return found;
}

const idOf = (event: Event): string =>
  event.kind === 'task' ? event.task.id : event.kind === 'message' ? (event.message.taskId ?? '') : event.taskId;
