/** Every hook and every decision, for both protocols, in process and over HTTP. */
import { createHmac } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/protocol/jsonrpc/raw.js';
import { type EchoServer, startEcho } from '../input/support/echo.js';
import { BOTH, modern, modernBody, modernCall, modernHeaders, Session } from '../input/support/speak.js';
import { ask, type Reply } from '../input/support/wire.js';
import { type RunningGateway, startGateway } from '../support/gateway.js';
import { card, json, Stage } from '../support/remote-agents.js';

const TOKEN = 'ada-0123456789abcdef0123456789abcdef';
const SECRET = 'signs-0123456789abcdef0123456789abcdef';
const HEADERS = { authorization: `Bearer ${TOKEN}` };

interface Received {
  readonly hook: string;
  readonly call?: { readonly name?: string; readonly params?: { readonly arguments?: { readonly text?: string } } };
  readonly signed: boolean;
  readonly body: Record<string, unknown>;
}

const stage = new Stage();
const received: Received[] = [];
let folder: string;
let echo: EchoServer;
let gateway: RunningGateway;

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'parley-hooks-'));
  echo = await startEcho();
  const agent = await stage.server(({ path: at, body }, response, { url }) => {
    if (at.includes('/.well-known/')) {
      json(response, card([{ url }], { capabilities: { streaming: true } }));
      return;
    }
    const { message } = body['params'] as { message: { parts: { text: string }[] } };
    const result = { message: { messageId: 'm', role: 'ROLE_AGENT', parts: message.parts } };
    const answer = { jsonrpc: '2.0', id: body['id'], result };
    if (body['method'] !== 'SendStreamingMessage') json(response, answer);
    else response.writeHead(200, { 'content-type': 'text/event-stream' }).end(`data: ${JSON.stringify(answer)}\n\n`);
  });
  const receiver = await stage.server(({ body, text, headers }, response) => {
    const [id, seconds] = [headers['webhook-id'], headers['webhook-timestamp']];
    const mac = createHmac('sha256', SECRET)
      .update(`${String(id)}.${String(seconds)}.${text}`)
      .digest('base64');
    const signed = headers['webhook-signature'] === `v1,${mac}`;
    const given = body as unknown as Received;
    received.push({ ...given, signed, body: body as Record<string, unknown> });
    const said = given.call?.params?.arguments?.text;
    if (given.hook === 'onRequest' && said === 'deny') json(response, { deny: 'Not over HTTP' });
    else if (given.hook === 'onRequest' && said === 'garbage') response.writeHead(200).end('<html>');
    else if (given.hook === 'onRequest' && said === 'error') response.writeHead(500).end();
    else if (given.hook === 'onResponse') {
      const { content } = body['result'] as { content: JsonObject[] };
      json(response, { result: { content: [...content, { type: 'text', text: 'by HTTP' }] } });
    } else response.writeHead(204).end();
  });
  gateway = await startGateway({
    servers: { polite: { url: echo.url, validation: 'strict' }, remote: { url: echo.url }, none: { url: echo.url } },
    agents: { helper: { url: agent.url } },
    auth: { tokens: [{ name: 'ada', token: TOKEN }] },
    plugins: [
      {
        use: fileURLToPath(new URL('./fixtures/polite.mjs', import.meta.url)),
        servers: ['polite', 'helper'],
        options: { file: path.join(folder, 'audit.jsonl') },
      },
      {
        name: 'elsewhere',
        url: receiver.url,
        secret: SECRET,
        hooks: ['onRequest', 'onResponse'],
        body: 'full',
        servers: ['remote'],
        methods: ['tools/call'],
        timeout: '30s',
      },
    ],
  });
});
afterAll(async () => {
  await gateway?.close();
  await echo?.close();
  await stage.close();
  await rm(folder, { recursive: true, force: true });
});

const say = async (server: string, text: string) =>
  (await modernCall(`${gateway.url}/mcp`, `${server}__echo`, { text }, { headers: HEADERS })).json;
const texts = (result: { readonly content: readonly { readonly text: string }[] } | undefined): string[] | undefined =>
  result?.content.map(({ text }) => text);

describe('MCP', () => {
  it('S1-80: changes arguments and results of tools', async () => {
    expect(texts((await say('polite', 'hi')).result)).toEqual(['hi!', 'true']);
  });

  it('passes results of other servers unchanged', async () => {
    expect(texts((await say('none', 'hi')).result)).toEqual(['hi']);
  });

  it('answers without the server', async () => {
    const before = echo.calls.length;
    expect(texts((await say('polite', 'reply')).result)).toEqual(['from the plugin']);
    expect(echo.calls.length).toBe(before);
  });

  it('tells the model the sentence of a refusal', async () => {
    expect((await say('polite', 'deny')).result).toEqual(
      expect.objectContaining({ isError: true, content: [{ type: 'text', text: 'Not this text' }] }),
    );
  });

  it('checks the arguments that a plugin changed', async () => {
    const before = echo.calls.length;
    const { result } = await say('polite', 'wrong');
    expect(result).toMatchObject({ isError: true });
    expect(texts(result)?.[0]).toContain('do not match its input schema');
    expect(echo.calls.length).toBe(before);
  });

  it('does not let a plugin change the tool', async () => {
    expect((await say('polite', 'other')).error?.data).toMatchObject({ reason: 'plugin_failed', problem: 'invalid' });
  });

  it('changes lists for clients of every revision, and for the items of its scope only', async () => {
    const { json: listed } = await modern(`${gateway.url}/mcp`, 'tools/list', {}, { headers: HEADERS });
    const tools = listed.result.tools as { name: string; description: string }[];
    const described = Object.fromEntries(tools.map(({ name, description }) => [name, description]));
    expect(described['polite__echo']).toBe('polite: echo');
    expect(described['none__echo']).toBe('Returns the text');
    expect(Object.keys(described)).not.toContain('polite__steps');
    expect(Object.keys(described)).toContain('none__steps');
    const session = await Session.open(`${gateway.url}/mcp`, '2025-06-18', HEADERS);
    const old = (await session.request('tools/list')).json.result.tools as { name: string; description: string }[];
    expect(old.find(({ name }) => name === 'polite__echo')?.description).toBe('polite: echo');
    expect(texts((await session.call('polite__echo', { text: 'old' })).json.result)).toEqual(['old!', 'true']);
  });

  it('drops and passes progress', async () => {
    const args = { text: 'p', count: 3, size: 0, pause: 0 };
    const params = { name: 'polite__steps', arguments: args };
    const options = { headers: HEADERS, meta: { progressToken: 'p1' } };
    const { body } = await ask(`${gateway.url}/mcp`, {
      headers: { ...modernHeaders('tools/call', params, options), accept: BOTH },
      body: modernBody('tools/call', params, options),
    });
    const steps = [...body.matchAll(/"progress":(\d)/g)].map(([, step]) => step);
    expect(steps).toEqual(['1', '3']);
    expect(body).toContain('"p!"');
  });

  it('gives the result of a task to plugins before anybody can read it', async () => {
    const session = await Session.open(`${gateway.url}/mcp`, '2025-11-25', HEADERS, { tasks: {} });
    const params = { name: 'polite__echo', arguments: { text: 'task' }, task: { ttl: 60_000 } };
    const started = (await session.request('tools/call', params)).json.result as unknown as {
      task: { taskId: string };
    };
    const { taskId } = started.task;
    expect(texts((await session.request('tasks/result', { taskId })).json.result)).toEqual(['task!', 'true']);
  });
});

describe('A2A', () => {
  const send = async (method: string, text: string) => {
    const message = { messageId: crypto.randomUUID(), role: 'ROLE_USER', parts: [{ text }] };
    const body = { jsonrpc: '2.0', id: 1, method, params: { message } };
    return ask(`${gateway.url}/a2a/helper`, { headers: { ...HEADERS, 'a2a-version': '1.0', accept: BOTH }, body });
  };

  const partsOf = (reply: Reply) => (reply.json.result as unknown as { message: { parts: object[] } }).message.parts;

  it('S1-80: changes messages and answers of agents', async () => {
    expect(partsOf(await send('SendMessage', 'hi'))).toEqual([{ text: 'hi!' }, { text: 'seen' }]);
  });

  it('answers without the agent, in a stream too', async () => {
    expect(partsOf(await send('SendMessage', 'reply'))).toEqual([{ text: 'own' }]);
    expect((await send('SendStreamingMessage', 'reply')).body).toContain('"own"');
  });

  it('refuses a message', async () => {
    const { body } = await send('SendMessage', 'deny');
    expect(body).toContain('Not this message');
    expect(body).toContain('PLUGIN_DENIED');
  });

  it('changes the events of a stream', async () => {
    const { body } = await send('SendStreamingMessage', 'hi');
    expect(body).toContain('"hi!"');
    expect(body).toContain('"streamed"');
  });
});

it('gives each record of the audit trail to plugins', async () => {
  await say('polite', 'deny');
  const records = async (): Promise<{ decision?: string; rule?: string; caller?: string }[]> =>
    (await readFile(path.join(folder, 'audit.jsonl'), 'utf8'))
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as object);
  await expect
    .poll(records, { timeout: 30_000 })
    .toContainEqual(
      expect.objectContaining({ kind: 'call', caller: 'ada', decision: 'denied', rule: 'plugin polite' }),
    );
});

describe('over HTTP', () => {
  it('sends signed requests and takes the same decisions', async () => {
    expect(texts((await say('remote', 'hi')).result)).toEqual(['hi', 'by HTTP']);
    expect(received.map(({ hook }) => hook)).toEqual(expect.arrayContaining(['onRequest', 'onResponse']));
    expect(received.every(({ signed }) => signed)).toBe(true);
    expect(received[0]?.body).toMatchObject({
      apiVersion: 1,
      call: { protocol: 'mcp', method: 'tools/call', server: 'remote', name: 'echo', caller: { key: 'ada' } },
    });
    expect(texts((await say('remote', 'deny')).result)).toEqual(['Not over HTTP']);
  });

  it('treats an answer that is not a decision as a failure', async () => {
    for (const text of ['garbage', 'error'])
      expect((await say('remote', text)).error?.data).toMatchObject({ reason: 'plugin_failed' });
  });
});
