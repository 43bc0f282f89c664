import { once } from 'node:events';
import http from 'node:http';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { artifact, eventsIn, Stand, status, steps, stream, task } from '../../../test/support/a2a-endpoint.js';
import type { Passed } from '../../core/a2a/agent.js';
import type { AgentAnswer } from '../../core/a2a/gateway.js';
import { sleep } from '../../core/timing.js';
import type { StreamResponse } from '../../protocol/a2a/model.js';
import { ProtocolError } from '../../protocol/errors.js';
import type { JsonObject } from '../../protocol/jsonrpc/raw.js';

const modern = { message: { messageId: 'm1', role: 'ROLE_USER', parts: [{ text: 'hello' }] } };
const older = { message: { kind: 'message', messageId: 'm1', role: 'user', parts: [{ kind: 'text', text: 'hello' }] } };
const oldest = { id: 'mine', message: { role: 'user', parts: [{ type: 'text', text: 'hello' }] } };

let stand: Stand;
beforeEach(async () => {
  stand = await Stand.open({ times: { ping: 40, peek: 400, stall: 300 } });
});
afterEach(() => stand.close());

const resultsOf = (text: string): JsonObject[] => eventsIn(text).map(({ data }) => data['result'] as JsonObject);

/** A stream whose events the test supplies one by one, and that records when it is released. */
class Handed implements AsyncIterable<Passed<StreamResponse>>, AsyncIterator<Passed<StreamResponse>> {
  private readonly waiting: ((next: IteratorResult<Passed<StreamResponse>>) => void)[] = [];
  private readonly ready: StreamResponse[] = [];
  asked = 0;
  readonly released: Promise<void>;
  private release = (): void => {};

  constructor() {
    this.released = new Promise((resolve) => (this.release = resolve));
  }

  give(event: StreamResponse): void {
    const taker = this.waiting.shift();
    if (taker) taker({ value: { value: event }, done: false });
    else this.ready.push(event);
  }

  next(): Promise<IteratorResult<Passed<StreamResponse>>> {
    this.asked++;
    const event = this.ready.shift();
    if (event) return Promise.resolve({ value: { value: event }, done: false });
    return new Promise((resolve) => this.waiting.push(resolve));
  }

  return(): Promise<IteratorResult<Passed<StreamResponse>>> {
    this.release();
    return Promise.resolve({ value: undefined, done: true });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

/** Opens a stream and returns its content as it arrives. */
async function open(path: string, body: unknown, headers: Record<string, string> = {}) {
  const request = http.request(stand.url + path, {
    method: 'POST',
    agent: false,
    headers: { 'content-type': 'application/json', ...headers },
  });
  request.on('error', () => {});
  request.end(JSON.stringify(body));
  const [response] = (await once(request, 'response')) as [http.IncomingMessage];
  response.on('error', () => {});
  let text = '';
  const until = async (holds: (text: string) => boolean): Promise<string> => {
    while (!holds(text)) text += String((await once(response, 'data'))[0]);
    return text;
  };
  return { request, response, until };
}

const call = (method: string, params: unknown) => ({ jsonrpc: '2.0', id: 'q1', method, params });

describe('S-44: streams over JSON-RPC', () => {
  it('wrap each event in a response with the id, unnamed', async () => {
    const { type, text, headers } = await stand.rpc('SendStreamingMessage', modern, { id: 'x-7' });
    expect(type).toBe('text/event-stream');
    expect(headers['x-accel-buffering']).toBe('no');
    const events = eventsIn(text);
    expect(events).toHaveLength(4);
    for (const { name, data } of events) {
      expect(name).toBeUndefined();
      expect(data).toMatchObject({ jsonrpc: '2.0', id: 'x-7', result: expect.any(Object) });
    }
    expect(resultsOf(text).map((event) => Object.keys(event)[0])).toEqual([
      'task',
      'statusUpdate',
      'artifactUpdate',
      'statusUpdate',
    ]);
  });

  it('S1-42: pass on the text of 1.0 events on one line', async () => {
    const value = status('TASK_STATE_COMPLETED');
    const text =
      '{"statusUpdate": {\n "taskId":"t1","contextId":"c1",\r\n"status":{"state":"TASK_STATE_COMPLETED"}},"n":1.0}';
    stand.answer = () =>
      stream(
        (async function* () {
          yield { value, text };
        })(),
      );
    const reply = await stand.rpc('SendStreamingMessage', modern);
    expect(reply.text).toContain('"n":1.0}');
    expect(eventsIn(reply.text)).toHaveLength(1);
  });

  it('C-27 S1-41: write events of 0.3 with their kind and a final mark', async () => {
    const { text } = await stand.rpc('message/stream', older);
    const events = resultsOf(text);
    expect(events.map((event) => event['kind'])).toEqual(['task', 'status-update', 'artifact-update', 'status-update']);
    expect(events.map((event) => event['final'])).toEqual([undefined, false, undefined, true]);
  });

  it('C-29 S1-41: name events for 0.1 only', async () => {
    const { text } = await stand.rpc('tasks/sendSubscribe', oldest);
    const names = eventsIn(text).map(({ name }) => name);
    expect(names).toContain('task-artifact-update');
    expect(new Set(names)).toEqual(new Set(['task-status-update', 'task-artifact-update']));
    expect(resultsOf(text).at(-1)).toMatchObject({ id: expect.any(String), final: true });
  });

  it('C-29: have one line for each event if the client accepts lines', async () => {
    for (const [method, params] of [
      ['SendStreamingMessage', modern],
      ['message/stream', older],
    ] as const) {
      const { type, text } = await stand.rpc(method, params, { headers: { accept: 'application/x-ndjson' } });
      expect(type).toBe('application/x-ndjson');
      const lines = text.trimEnd().split('\n');
      expect(lines).toHaveLength(4);
      for (const line of lines) expect(JSON.parse(line)).toMatchObject({ jsonrpc: '2.0', id: 1 });
    }
  });

  it('answer ambiguous methods in the version that created the task', async () => {
    stand.answer = () => stream(steps(status('TASK_STATE_COMPLETED')), { createdIn: '0.1' });
    const { text } = await stand.rpc('tasks/resubscribe', { id: 't1' });
    expect(eventsIn(text)[0]).toMatchObject({
      name: 'task-status-update',
      data: { result: { id: 't1', final: true } },
    });
  });
});

describe('settled 5: the last event is marked for clients up to 0.3', () => {
  const finals = (text: string) => resultsOf(text).filter((event) => event['status'] && event['kind'] !== 'task');

  it('the event that asks for input is marked if the stream ends with it', async () => {
    stand.answer = () => stream(steps({ task: task('TASK_STATE_WORKING') }, status('TASK_STATE_INPUT_REQUIRED')));
    const { text } = await stand.rpc('message/stream', older);
    expect(finals(text).map((event) => event['final'])).toEqual([true]);
  });

  it('this event is also marked if the stream ends slightly later', async () => {
    stand.answer = () => stream(steps({ task: task('TASK_STATE_WORKING') }, status('TASK_STATE_INPUT_REQUIRED'), 30));
    const { text } = await stand.rpc('message/stream', older);
    expect(finals(text).map((event) => event['final'])).toEqual([true]);
  });

  it('a separate event is marked if the stream ends much later', async () => {
    stand.answer = () => stream(steps({ task: task('TASK_STATE_WORKING') }, status('TASK_STATE_AUTH_REQUIRED'), 250));
    const { text } = await stand.rpc('message/stream', older);
    expect(finals(text).map((event) => event['final'])).toEqual([false, true]);
  });

  it('an event is not marked if the task continues after it', async () => {
    stand.answer = () =>
      stream(
        steps({ task: task('TASK_STATE_WORKING') }, status('TASK_STATE_AUTH_REQUIRED'), status('TASK_STATE_COMPLETED')),
      );
    const { text } = await stand.rpc('message/stream', older);
    expect(finals(text).map((event) => event['final'])).toEqual([false, true]);
  });

  it('a separate event is marked if the stream ends after an artifact', async () => {
    stand.answer = () => stream(steps({ task: task('TASK_STATE_WORKING') }, artifact('x')));
    const { text } = await stand.rpc('message/stream', older);
    expect(finals(text).map((event) => event['final'])).toEqual([true]);
  });

  it('no event is marked for clients of 1.0', async () => {
    stand.answer = () => stream(steps({ task: task('TASK_STATE_WORKING') }, status('TASK_STATE_INPUT_REQUIRED')));
    const { text } = await stand.rpc('SendStreamingMessage', modern);
    expect(text).not.toContain('final');
    expect(resultsOf(text)).toHaveLength(2);
  });
});

describe('S-43, S-45: refused streams', () => {
  const refusal = (): never => {
    throw new ProtocolError('unsupported_operation', 'It is over');
  };

  it('are JSON for 1.0', async () => {
    stand.answer = refusal;
    const { status: http, type, reply } = await stand.rpc('SubscribeToTask', { id: 't1' });
    expect([http, type]).toEqual([200, 'application/json']);
    expect(reply.error?.code).toBe(-32004);
  });

  it.each([
    ['message/stream', older],
    ['tasks/resubscribe', { id: 't1' }],
    ['tasks/sendSubscribe', oldest],
  ])('are a stream with an error for %s', async (method, params) => {
    stand.answer = refusal;
    const { status: http, type, text } = await stand.rpc(method, params, { id: 5 });
    expect([http, type]).toEqual([200, 'text/event-stream']);
    expect(eventsIn(text)).toMatchObject([{ data: { jsonrpc: '2.0', id: 5, error: { code: -32004 } } }]);
  });

  it('are refused in the same way if the parameters or the version are invalid', async () => {
    for (const [params, version, code] of [
      [{}, undefined, -32602],
      [older, '9.9', -32009],
    ] as const) {
      const { type, text } = await stand.rpc('message/stream', params, version === undefined ? {} : { version });
      expect(type).toBe('text/event-stream');
      expect(eventsIn(text)[0]?.data).toMatchObject({ error: { code } });
    }
  });

  it('have the HTTP status of the error if it has one', async () => {
    stand.answer = () => {
      throw new ProtocolError('overloaded', 'Too many streams', { headers: { 'Retry-After': '1' } });
    };
    const { status: http, type } = await stand.rpc('message/stream', older);
    expect([http, type]).toEqual([503, 'application/json']);
  });

  it('are refused in the same way if the first event is an error', async () => {
    stand.answer = () => stream(steps(20, new ProtocolError('task_not_found', 'Task not found')));
    const { type, reply } = await stand.rpc('SubscribeToTask', { id: 't1' });
    expect(type).toBe('application/json');
    expect(reply.error?.code).toBe(-32001);
  });
});

describe('open streams', () => {
  it('report later errors in the stream', async () => {
    const broken = () =>
      stream(steps({ task: task('TASK_STATE_WORKING') }, 5, new ProtocolError('upstream_unavailable', 'It went away')));
    stand.answer = broken;
    const rpc = await stand.rpc('SendStreamingMessage', modern);
    expect(eventsIn(rpc.text).at(-1)).toMatchObject({ data: { id: 1, error: { code: -32603 } } });
    const rest = await stand.send('/a2a/echo/message:stream', { body: JSON.stringify(modern) });
    expect(eventsIn(rest.text).at(-1)).toMatchObject({ name: 'error', data: { error: { message: 'It went away' } } });
    stand.answer = () => stream(steps({ task: task('TASK_STATE_WORKING') }, 5, new Error('secret')));
    const own = await stand.rpc('message/stream', older);
    expect(own.text).not.toContain('secret');
    expect(eventsIn(own.text).at(-1)?.data).toMatchObject({ error: { code: -32603 } });
    expect(stand.failures).toHaveLength(1);
  });

  it('S-45: begin before the first event of the agent, with keep-alive comments', async () => {
    const events = new Handed();
    stand.answer = () => stream(events);
    const { response, until } = await open('/a2a/echo', call('SendStreamingMessage', modern));
    expect(response.headers['content-type']).toBe('text/event-stream');
    await until((text) => text.includes(': ping'));
    events.give({ task: task('TASK_STATE_WORKING') });
    const text = await until((so) => so.includes('"result"'));
    expect(resultsOf(text)[0]).toMatchObject({ task: { id: 't1' } });
    response.destroy();
    await events.released;
  });

  it('S-45: begin before the agent has answered, and then contain its answer', async () => {
    const late = (how: () => AgentAnswer) => async () => {
      await sleep(600);
      return how();
    };
    stand.answer = late(() => stream(steps(status('TASK_STATE_COMPLETED')), { createdIn: '0.2' }));
    const told = await stand.rpc('tasks/resubscribe', { id: 't1' });
    expect(told.type).toBe('text/event-stream');
    expect(told.text).toContain(': ping');
    expect(resultsOf(told.text)).toMatchObject([{ kind: 'status-update', final: true }]);
    stand.answer = late(() => {
      throw new ProtocolError('upstream_timeout', 'It took too long');
    });
    const refused = await stand.rpc('SendStreamingMessage', modern);
    expect(eventsIn(refused.text)).toMatchObject([{ data: { id: 1, error: { code: -32603 } } }]);
  });

  it('G-25: a client that disconnects ends its stream and nothing else', async () => {
    const events = new Handed();
    stand.answer = () => stream(events);
    events.give({ task: task('TASK_STATE_WORKING') });
    const { response, until } = await open('/a2a/echo', call('SendStreamingMessage', modern));
    await until((text) => text.includes('"result"'));
    response.destroy();
    await events.released;
    expect(stand.last.exchange.cancellation.cancelled).toBe(false);
  });

  it('G-25: a client that disconnects before the first event ends its stream too', async () => {
    const events = new Handed();
    stand.answer = () => stream(events);
    const request = http.request(`${stand.url}/a2a/echo`, {
      method: 'POST',
      agent: false,
      headers: { 'content-type': 'application/json' },
    });
    request.on('error', () => {});
    request.end(JSON.stringify(call('SendStreamingMessage', modern)));
    while (events.asked === 0) await sleep(5);
    request.destroy();
    await events.released;
    expect(stand.last.exchange.cancellation.cancelled).toBe(false);
  });

  it('G-25: operations that change state are not cancelled when the client disconnects', async () => {
    for (const [method, params, dropped] of [
      ['GetTask', { id: 't1' }, true],
      ['SendMessage', modern, true],
      ['CancelTask', { id: 't1' }, false],
    ] as const) {
      let cancelled = false;
      let seen = (): void => {};
      const arrived = new Promise<void>((resolve) => (seen = resolve));
      stand.answer = async ({ exchange }) => {
        exchange.cancellation.onCancel(() => (cancelled = true));
        seen();
        await sleep(150);
        throw new ProtocolError('cancelled', 'Nobody waits');
      };
      const request = http.request(`${stand.url}/a2a/echo`, {
        method: 'POST',
        agent: false,
        headers: { 'content-type': 'application/json' },
      });
      request.on('error', () => {});
      request.end(JSON.stringify(call(method, params)));
      await arrived;
      request.destroy();
      await sleep(200);
      expect([method, cancelled]).toEqual([method, dropped]);
    }
  });

  it('fault 13: wait for a client that reads slowly, and drop one that does not read', async () => {
    const large = 'x'.repeat(200_000);
    let given = 0;
    let over = (): void => {};
    const released = new Promise<void>((resolve) => (over = resolve));
    const many = (count: number) =>
      (async function* () {
        try {
          for (given = 0; given < count; given++) yield { value: artifact(large) };
        } finally {
          over();
        }
      })();
    stand.answer = () => stream(many(1_000));
    const { response } = await open('/a2a/echo', call('SendStreamingMessage', modern));
    await released;
    expect(given).toBeLessThan(200);
    response.destroy();
    stand.answer = () => stream(many(40));
    const { text } = await stand.rpc('SendStreamingMessage', modern);
    expect(eventsIn(text)).toHaveLength(40);
  });

  it('end when the gateway stops', async () => {
    const events = new Handed();
    stand.answer = () => stream(events);
    events.give({ task: task('TASK_STATE_WORKING') });
    const { response, until } = await open('/a2a/echo', call('message/stream', older));
    await until((text) => text.includes('"result"'));
    expect(stand.endpoint.busy).toBe(1);
    const ended = once(response.resume(), 'end');
    stand.endpoint.endStreams();
    await ended;
    await events.released;
    while (stand.endpoint.busy > 0) await sleep(5);
  });
});
