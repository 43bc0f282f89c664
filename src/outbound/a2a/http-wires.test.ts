import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import {
  type Answer,
  all,
  CALLER,
  card,
  exchange,
  json,
  type Script,
  Stage,
  saying,
  TASK,
} from '../../../test/support/remote-agents.js';
import { Cancellation } from '../../core/caller.js';
import { configuredCredential } from '../../identity/upstream-credentials.js';
import { SILENT } from '../../telemetry/log.js';
import { HttpClient } from '../http/index.js';
import { JsonRpcWire } from './jsonrpc-wire.js';

const stage = new Stage();
afterEach(() => stage.close());

/** An agent with one interface that answers all calls with `answer`. */
const agentOf = (answer: Answer, offer: { protocolBinding?: string; protocolVersion?: string } = {}, more = {}) =>
  stage.server((asked, response, script) =>
    asked.path.startsWith('/.well-known')
      ? json(response, card([{ url: `${script.url}/at`, ...offer }], more))
      : answer(asked, response, script),
  );
const rest = { protocolBinding: 'HTTP+JSON' };
const failing = async (script: Script): Promise<unknown> => {
  const agent = stage.agent(script.url);
  return agent.getTask(CALLER, { id: 'x' }, exchange()).then(
    () => 'no error',
    (error: unknown) => error,
  );
};
const events = (response: ServerResponse): ServerResponse =>
  response.writeHead(200, { 'content-type': 'text/event-stream' });
const ERROR_INFO = 'type.googleapis.com/google.rpc.ErrorInfo';

describe("C-9 what an agent's error means", () => {
  it.each([
    [-32001, 'task_not_found'],
    [-32002, 'task_not_cancelable'],
    [-32003, 'push_not_supported'],
    [-32004, 'unsupported_operation'],
    [-32005, 'content_type_not_supported'],
    [-32006, 'invalid_agent_response'],
    [-32007, 'extended_card_not_configured'],
    [-32008, 'extension_required'],
    [-32602, 'invalid_params'],
  ])('JSON-RPC %i is %s', async (code, reason) => {
    const server = await agentOf(({ body }, response) =>
      json(response, { jsonrpc: '2.0', id: body['id'], error: { code, message: 'why' } }),
    );
    expect(await failing(server)).toMatchObject({ reason, message: 'why' });
  });

  it.each([
    [
      404,
      {
        error: {
          code: 404,
          status: 'NOT_FOUND',
          message: 'm',
          details: [{ '@type': ERROR_INFO, reason: 'TASK_NOT_FOUND' }],
        },
      },
      'task_not_found',
    ],
    [
      409,
      { error: { code: 409, message: 'm', details: [{ '@type': ERROR_INFO, reason: 'TASK_NOT_CANCELABLE' }] } },
      'task_not_cancelable',
    ],
    [
      400,
      { error: { code: 400, message: 'm', details: [{ '@type': ERROR_INFO, reason: 'VERSION_NOT_SUPPORTED' }] } },
      'unsupported_version',
    ],
    [
      404,
      { type: 'https://a2a-protocol.org/errors/task-not-found', title: 'Task not found', status: 404 },
      'task_not_found',
    ],
    [404, { code: -32001, message: 'm' }, 'task_not_found'],
    [404, { detail: 'Task x not found' }, 'task_not_found'],
    [422, { detail: [{ loc: ['body'], msg: 'missing' }] }, 'invalid_params'],
    [401, { message: 'who are you' }, 'upstream_unauthorized'],
    [429, {}, 'upstream_rate_limited'],
  ])('HTTP+JSON %i %j is %s', async (status, body, reason) => {
    const server = await agentOf((_, response) => json(response, body, status), rest);
    expect(await failing(server)).toMatchObject({ reason });
  });

  it.each([
    ['text', 'Gateway exploded', 200],
    ['half of a JSON text', '{"jsonrpc":"2.0","id":1,"result":{"ta', 200],
    ['no response', '[]', 200],
    ['neither result nor error', '{"jsonrpc":"2.0","id":1}', 200],
    ['JSON too deep', `{"jsonrpc":"2.0","id":1,"result":${'['.repeat(1e5)}${']'.repeat(1e5)}}`, 200],
    ['a page', '<html>', 500],
  ])('%s is an invalid answer', async (_, text, status) => {
    const server = await agentOf((__, response) => response.writeHead(status).end(text));
    expect(await failing(server)).toMatchObject({ reason: 'invalid_agent_response', detail: { outcome: 'unknown' } });
  });

  it('reading an answer stops at the size limit', async () => {
    const server = await agentOf((_, response) => response.end(`"${'x'.repeat(200_000)}"`));
    const agent = stage.agent(server.url, {}, { limit: 100_000 });
    await expect(agent.getTask(CALLER, { id: 'x' }, exchange())).rejects.toMatchObject({
      reason: 'invalid_agent_response',
    });
  });
});

describe('C-10 streams', () => {
  const status = (state: string) => ({ statusUpdate: { taskId: 'task-1', contextId: 'c', status: { state } } });
  const rpc = (result: unknown): string => JSON.stringify({ jsonrpc: '2.0', id: 1, result });

  it('are read in every framing: several lines, CRLF, comments, split at any byte', async () => {
    const text = [
      ': hello\r\n\r\n',
      `id: 1\r\ndata: ${rpc({ task: TASK })}\r\n\r\n`,
      `: still here\n\nevent: message\ndata: {"jsonrpc":"2.0",\ndata: "id":1,\ndata: "result":${JSON.stringify(status('TASK_STATE_WORKING'))}}\n\n`,
      `data:${rpc(status('TASK_STATE_COMPLETED'))}\n\n`,
    ].join('');
    const server = await agentOf(async (_, response) => {
      events(response);
      for (let at = 0; at < text.length; at += 37) {
        response.write(text.slice(at, at + 37));
        if (at % 5 === 0) await sleep(1);
      }
      response.end();
    });
    const agent = stage.agent(server.url);
    const found = [];
    for await (const event of await agent.stream(CALLER, saying('a'), exchange())) found.push(event);
    expect(found.map(({ value }) => Object.keys(value)[0])).toEqual(['task', 'statusUpdate', 'statusUpdate']);
    expect(found[0]!.text).toBe(JSON.stringify({ task: TASK }));
    for (const { text: passed } of found) expect(passed).not.toMatch(/[\r\n]/);
  });

  it('may be a single JSON answer', async () => {
    const server = await agentOf((_, response) => response.end(rpc({ task: TASK })));
    const found = await all(await stage.agent(server.url).stream(CALLER, saying('a'), exchange()));
    expect(found).toEqual([{ task: TASK }]);
  });

  it.each([
    [
      'a JSON error',
      (response: ServerResponse) => json(response, { jsonrpc: '2.0', id: 1, error: { code: -32001, message: 'no' } }),
    ],
    [
      'an event',
      (response: ServerResponse) =>
        events(response).end('data: {"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"no"}}\n\n'),
    ],
    [
      'a status',
      (response: ServerResponse) =>
        json(response, { error: { code: 404, details: [{ '@type': ERROR_INFO, reason: 'TASK_NOT_FOUND' }] } }, 404),
    ],
  ])('an error before the first event, sent as %s, is thrown', async (_, answer) => {
    const server = await agentOf((__, response) => answer(response));
    await expect(stage.agent(server.url).subscribe(CALLER, { id: 'x' }, exchange())).rejects.toMatchObject({
      reason: 'task_not_found',
    });
  });

  it('end with an error event', async () => {
    const server = await agentOf((_, response) => {
      events(response).write(`data: ${JSON.stringify({ task: TASK })}\n\n`);
      response.end('event: error\ndata: {"error":{"code":500,"message":"broke","details":[{"@type":"x"}]}}\n\n');
    }, rest);
    const stream = await stage.agent(server.url).stream(CALLER, saying('a'), exchange());
    await expect(all(stream)).rejects.toThrow('broke');
  });

  it('end when an event is too large, or when no event arrives', async () => {
    const large = await agentOf((_, response) => events(response).write(`data: ${'x'.repeat(200_000)}`));
    await expect(
      stage.agent(large.url, {}, { limit: 100_000 }).stream(CALLER, saying('a'), exchange()),
    ).rejects.toMatchObject({ reason: 'invalid_agent_response' });
    const empty = await agentOf((_, response) => events(response).end());
    await expect(stage.agent(empty.url).stream(CALLER, saying('a'), exchange())).rejects.toMatchObject({
      reason: 'invalid_agent_response',
    });
  });

  it('fail when the connection breaks', async () => {
    const server = await agentOf((_, response) => {
      events(response).write(`data: ${rpc({ task: TASK })}\n\n`);
      setTimeout(() => response.destroy(), 20);
    });
    const stream = await stage.agent(server.url).stream(CALLER, saying('a'), exchange());
    await expect(all(stream)).rejects.toMatchObject({ reason: 'upstream_unavailable', detail: { outcome: 'unknown' } });
  });

  it('pause the agent if the reader is slow', async () => {
    let written = 0;
    let drained = true;
    const piece = `data: ${rpc({ ...status('TASK_STATE_WORKING'), pad: 'x'.repeat(20_000) })}\n\n`;
    const server = await agentOf((_, response) => {
      events(response).write(`data: ${rpc({ task: TASK })}\n\n`);
      const more = (): void => {
        while (written < 2_000) {
          written++;
          if (!response.write(piece)) {
            drained = false;
            response.once('drain', more);
            return;
          }
        }
        response.end();
      };
      more();
    });
    const agent = stage.agent(server.url, {}, { limit: 100_000 });
    const stream = await agent.stream(CALLER, saying('a'), exchange());
    await sleep(300);
    expect(drained).toBe(false);
    expect(written).toBeLessThan(1_500);
    expect(await all(stream)).toHaveLength(2_001);
  });
});

describe('C-14 time limits', () => {
  const short = { timeouts: { connect: 1_000, call: 800, callMax: 3_000 } };

  it('S1-63: end a call, whose outcome is then unknown', async () => {
    const server = await agentOf(() => {});
    await expect(stage.agent(server.url, short).send(CALLER, saying('a'), exchange())).rejects.toMatchObject({
      reason: 'upstream_timeout',
      detail: { outcome: 'unknown' },
    });
    expect(server.calls).toHaveLength(1);
  });

  it('restart with each event, up to a maximum', async () => {
    const server = await agentOf(async (_, response) => {
      events(response);
      while (!response.destroyed) {
        response.write(`data: ${JSON.stringify({ jsonrpc: '2.0', id: 1, result: { task: TASK } })}\n\n`);
        await sleep(80);
      }
    });
    const began = Date.now();
    const stream = await stage.agent(server.url, short).stream(CALLER, saying('a'), exchange());
    let count = 0;
    await expect(
      (async () => {
        for await (const _ of stream) count++;
      })(),
    ).rejects.toMatchObject({ reason: 'upstream_timeout' });
    expect(count).toBeGreaterThan(3);
    expect(Date.now() - began).toBeGreaterThan(1_600);
  });

  it('have no effect after the caller cancelled the request; the task is not cancelled', async () => {
    let closed = 0;
    const cancellation = new Cancellation();
    const server = await agentOf(({ body }, response) => {
      response.on('close', () => closed++);
      if (body['method'] === 'SendMessage') cancellation.cancel();
      else events(response).write(`data: ${JSON.stringify({ jsonrpc: '2.0', id: 1, result: { task: TASK } })}\n\n`);
    });
    const agent = stage.agent(server.url);
    const sending = agent.send(CALLER, saying('a'), exchange({ cancellation }));
    await expect(sending).rejects.toMatchObject({ reason: 'cancelled' });
    for await (const _ of await agent.stream(CALLER, saying('b'), exchange())) break;
    await expect.poll(() => closed, { timeout: 10_000 }).toBe(2);
    expect(server.calls.map(({ body }) => body['method'])).toEqual(['SendMessage', 'SendStreamingMessage']);
  });
});

describe('forwarded data', () => {
  it('S1-42: 1.0 text passes unchanged in both directions', async () => {
    const result = `{ "task": ${JSON.stringify(TASK)} , "future" : 1.50 }`;
    const server = await agentOf(({ body }, response) =>
      response.end(`{"jsonrpc":"2.0","id":${String(body['id'])},\n "result":${result}\n}`),
    );
    const request = saying('a');
    const text = `{"message":${JSON.stringify(request.value.message)},  "future":1.0}`;
    const { value, text: back } = await stage.agent(server.url).send(CALLER, { ...request, text }, exchange());
    expect(server.calls[0]!.text).toContain(`"params":${text}}`);
    expect(back).toBe(result);
    expect(value['future']).toBe(1.5);
  });

  it('1.0 text passes unchanged over HTTP+JSON', async () => {
    const result = `{"task":${JSON.stringify(TASK)},"n":1.0}`;
    const server = await agentOf((_, response) => response.end(result), rest);
    const request = saying('a');
    const text = `{"message":${JSON.stringify(request.value.message)},"n":2.0}`;
    const { text: back } = await stage.agent(server.url).send(CALLER, { ...request, text }, exchange());
    expect(server.calls[0]!.text).toBe(text);
    expect(back).toBe(result);
  });

  it("C-1 §3.11: a request has the version, extensions, trace and the gateway's credential, never that of the caller", async () => {
    const answer: Answer = ({ body }, response) =>
      json(response, { jsonrpc: '2.0', id: body['id'], result: { task: TASK } });
    const forward = { traceparent: '00-1', authorization: 'Bearer caller', Cookie: 'c=1', 'x-api-key': 'theirs' };
    const with_ = exchange({ extensions: ['urn:a', 'urn:b'], forward });
    const now = await agentOf(answer);
    const headers = { 'X-API-Key': 'ours' };
    await stage.agent(now.url, { headers }).send(CALLER, saying('a'), with_);
    expect(now.calls[0]!.headers).toMatchObject({
      'a2a-version': '1.0',
      'a2a-extensions': 'urn:a, urn:b',
      traceparent: '00-1',
      'x-api-key': 'ours',
    });
    expect(now.calls[0]!.headers).not.toHaveProperty('authorization');
    expect(now.calls[0]!.headers).not.toHaveProperty('cookie');
    const old = await agentOf(answer, { protocolVersion: '0.3' });
    await stage
      .agent(old.url, { headers })
      .send(CALLER, saying('a'), with_)
      .catch(() => {});
    expect(old.calls[0]!.headers).toMatchObject({ 'a2a-version': '0.3', 'x-a2a-extensions': 'urn:a, urn:b' });
    expect(old.calls[0]!.headers).not.toHaveProperty('a2a-extensions');
  });

  it('C-15 the caller must declare an extension that the agent requires; the gateway does not add it', async () => {
    const required = { capabilities: { extensions: [{ uri: 'urn:must', required: true }] } };
    const server = await agentOf(
      ({ body }, response) => json(response, { jsonrpc: '2.0', id: body['id'], result: { task: TASK } }),
      {},
      required,
    );
    const agent = stage.agent(server.url);
    await expect(agent.send(CALLER, saying('a'), exchange())).rejects.toMatchObject({ reason: 'extension_required' });
    expect(server.calls).toHaveLength(0);
    await agent.send(CALLER, saying('a'), exchange({ extensions: ['urn:must'] }));
    expect(server.calls[0]!.headers['a2a-extensions']).toBe('urn:must');
  });

  it('C-8 an operation that an agent does not support is not sent', async () => {
    const server = await agentOf(() => {}, {}, { capabilities: {} });
    const agent = stage.agent(server.url);
    const not = { reason: 'unsupported_operation', detail: { outcome: 'not_executed' } };
    await expect(agent.stream(CALLER, saying('a'), exchange())).rejects.toMatchObject(not);
    await expect(agent.subscribe(CALLER, { id: 'x' }, exchange())).rejects.toMatchObject(not);
    await expect(
      agent.setCallback(CALLER, { taskId: 'x', url: 'https://gateway.example/push' }, exchange()),
    ).rejects.toMatchObject({ reason: 'push_not_supported' });
    expect(server.calls).toHaveLength(0);
  });

  it('fetches the extended card of 0.2 from a page next to the endpoint', async () => {
    const server = await stage.server(({ path }, response, { url }) =>
      json(response, { name: path, description: 'd', url, version: '1', capabilities: {}, skills: [] }),
    );
    const http = new HttpClient({ connectTimeout: 1_000 });
    stage.later(() => http.close());
    const context = {
      name: 'it',
      credential: () => configuredCredential({}),
      timeouts: { connect: 1_000, call: 1_000, callMax: 1_000 },
      limits: { event: 1e6, waiting: 1e6 },
      log: SILENT,
    };
    const options = {
      context,
      url: `${server.url}/a/rpc`,
      version: '0.2',
      tenant: undefined,
      http,
      egress: undefined,
    } as const;
    const { value } = await new JsonRpcWire(options).call(
      'GetExtendedAgentCard',
      { value: {} },
      exchange(),
      configuredCredential({}),
    );
    expect(value.name).toBe('/a/agent/authenticatedExtendedCard');
    const old = new JsonRpcWire({ ...options, version: '0.1' });
    await expect(
      old.call('GetExtendedAgentCard', { value: {} }, exchange(), configuredCredential({})),
    ).rejects.toMatchObject({
      reason: 'unsupported_operation',
      detail: { outcome: 'not_executed' },
    });
  });

  it('subscribes with POST, and with GET if POST is not supported', async () => {
    const server = await agentOf(({ method }, response) => {
      if (method === 'POST') response.writeHead(405).end();
      else events(response).end(`data: ${JSON.stringify({ task: TASK })}\n\n`);
    }, rest);
    const agent = stage.agent(server.url);
    for (let i = 0; i < 2; i++) await all(await agent.subscribe(CALLER, { id: 'a/b' }, exchange()));
    expect(server.calls.map(({ method, path }) => `${method} ${path}`)).toEqual([
      'POST /at/tasks/a%2Fb:subscribe',
      'GET /at/tasks/a%2Fb:subscribe',
      'GET /at/tasks/a%2Fb:subscribe',
    ]);
  });
});
