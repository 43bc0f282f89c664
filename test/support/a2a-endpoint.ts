/** The A2A endpoint on a real listener, in front of a fake gateway. The test defines requests and answers. */
import { once } from 'node:events';
import http from 'node:http';
import type { Events, Passed } from '../../src/core/a2a/agent.js';
import type { AgentAnswer, AgentCall, AgentGateway } from '../../src/core/a2a/gateway.js';
import type { Caller } from '../../src/core/caller.js';
import { sleep } from '../../src/core/timing.js';
import { OPEN } from '../../src/identity/authenticator.js';
import { type KnownToken, TokenAuthenticator } from '../../src/identity/token-authenticator.js';
import { A2aHttpEndpoint, type A2aHttpEndpointOptions } from '../../src/inbound/a2a/http-endpoint.js';
import { Origins } from '../../src/inbound/http/host-and-origin.js';
import { RouteTable } from '../../src/inbound/http/route-table.js';
import { HttpServer } from '../../src/inbound/http/server.js';
import { MCP_ERRORS } from '../../src/inbound/mcp/mcp-errors.js';
import type { StreamResponse, Task, TaskState } from '../../src/protocol/a2a/model.js';
import { ProtocolError } from '../../src/protocol/errors.js';
import type { JsonObject, JsonValue } from '../../src/protocol/jsonrpc/raw.js';

export type Answerer = (call: AgentCall, caller: Caller) => AgentAnswer | Promise<AgentAnswer>;

export interface StandOptions extends Partial<Pick<A2aHttpEndpointOptions, 'times' | 'profile' | 'limits'>> {
  readonly agents?: readonly string[];
  readonly tokens?: readonly KnownToken[];
}

export class Stand implements AgentGateway {
  /** The calls that reached the gateway, in order. */
  readonly calls: AgentCall[] = [];
  readonly callers: Caller[] = [];
  readonly failures: unknown[] = [];
  answer: Answerer = usual;

  private constructor(
    readonly url: string,
    readonly endpoint: A2aHttpEndpoint,
    private readonly stop: () => Promise<void>,
  ) {}

  static async open(options: StandOptions = {}): Promise<Stand> {
    const agents = new Map((options.agents ?? ['echo']).map((name) => [name, true]));
    let stand: Stand;
    const endpoint = new A2aHttpEndpoint({
      gateway: { handle: (caller, call) => stand.handle(caller, call) },
      agents,
      limits: options.limits ?? { body: 1_000_000, depth: 64 },
      profile: options.profile ?? '1.0.1',
      failed: (error) => stand.failures.push(error),
      ...(options.times && { times: options.times }),
    });
    const server = new HttpServer({
      authenticator: options.tokens ? new TokenAuthenticator(options.tokens) : OPEN,
      origins: new Origins({ loopback: true, hosts: [], origins: [], corsOrigins: [], credentials: false }),
      routes: new RouteTable({
        routes: endpoint.routes(),
        parameters: { agent: endpoint.agent({}) },
        fallbacks: endpoint.fallbacks(),
        errors: MCP_ERRORS,
      }),
      failed: (error) => stand.failures.push(error),
    });
    const { port } = await server.listen('127.0.0.1', 0);
    stand = new Stand(`http://127.0.0.1:${port}`, endpoint, () => server.close(Promise.resolve()));
    return stand;
  }

  async handle(caller: Caller, call: AgentCall): Promise<AgentAnswer> {
    this.calls.push(call);
    this.callers.push(caller);
    return await this.answer(call, caller);
  }

  get last(): AgentCall {
    return this.calls.at(-1)!;
  }

  close(): Promise<void> {
    return this.stop();
  }

  /** Sends a request exactly as given. */
  async send(path: string, given: { method?: string; headers?: Record<string, string>; body?: string | Buffer } = {}) {
    const body = given.body;
    const method = given.method ?? (body === undefined ? 'GET' : 'POST');
    const headers = { ...(body !== undefined && { 'content-type': 'application/json' }), ...given.headers };
    const request = http.request(this.url + path, { method, headers, agent: false });
    request.end(body);
    const [response] = (await once(request, 'response')) as [http.IncomingMessage];
    const chunks: Buffer[] = [];
    for await (const chunk of response) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString('utf8');
    return { status: response.statusCode!, headers: response.headers, text, type: response.headers['content-type'] };
  }

  /** Sends one JSON-RPC call and returns the parsed reply. */
  async rpc(
    method: string,
    params: unknown,
    { version, id = 1, path = '/a2a/echo', headers = {} }: RpcOptions = {},
  ): Promise<{
    status: number;
    type: string | undefined;
    text: string;
    reply: Reply;
    headers: http.IncomingHttpHeaders;
  }> {
    const all = { ...(version !== undefined && { 'a2a-version': version }), ...headers };
    const body = JSON.stringify({ jsonrpc: '2.0', id, method, params });
    const { status, type, text, headers: got } = await this.send(path, { headers: all, body });
    const reply = type === 'application/json' ? (JSON.parse(text) as Reply) : {};
    return { status, type, text, reply, headers: got };
  }
}

export interface RpcOptions {
  readonly version?: string;
  readonly id?: unknown;
  readonly path?: string;
  readonly headers?: Record<string, string>;
}

export interface Reply {
  readonly id?: unknown;
  readonly result?: JsonValue;
  readonly error?: { code: number; message: string; data?: JsonValue };
}

/** The data and the optional name of each event of a stream. */
export function eventsIn(text: string): { name?: string; data: JsonObject }[] {
  return text
    .split('\n\n')
    .map((block) => block.split('\n'))
    .filter((lines) => lines.some((line) => line.startsWith('data:')))
    .map((lines) => {
      const name = lines
        .find((line) => line.startsWith('event:'))
        ?.slice(6)
        .trim();
      const data = JSON.parse(lines.find((line) => line.startsWith('data:'))!.slice(5)) as JsonObject;
      return { ...(name !== undefined && { name }), data };
    });
}

export const task = (state: TaskState, id = 't1', more: Partial<Task> = {}): Task => ({
  id,
  contextId: 'c1',
  status: { state, timestamp: '2026-01-02T03:04:05.000Z' },
  ...more,
});

export const status = (state: TaskState, id = 't1'): StreamResponse => ({
  statusUpdate: { taskId: id, contextId: 'c1', status: { state, timestamp: '2026-01-02T03:04:05.000Z' } },
});

export const artifact = (text: string, more: JsonObject = {}): StreamResponse => ({
  artifactUpdate: { taskId: 't1', contextId: 'c1', artifact: { artifactId: 'a1', parts: [{ text }] }, ...more },
});

export const result = (value: JsonValue | object, more: Partial<AgentAnswer> = {}): AgentAnswer =>
  ({ kind: 'result', result: { value }, ...more }) as AgentAnswer;

export const stream = (events: Events, more: Partial<AgentAnswer> = {}): AgentAnswer =>
  ({ kind: 'stream', events, ...more }) as AgentAnswer;

/** Yields events in order. A number is a wait in milliseconds; an error is thrown. */
export async function* steps(
  ...given: readonly (StreamResponse | number | Error)[]
): AsyncGenerator<Passed<StreamResponse>> {
  for (const step of given) {
    if (step instanceof Error) throw step;
    if (typeof step === 'number') await sleep(step);
    else yield { value: step };
  }
}

/** An agent that completes every message at once. */
export function usual({ operation, request: { value } }: AgentCall): AgentAnswer {
  const push = { taskId: 't1', id: 'p1', url: 'https://client.example/hook', token: 'tok' };
  const known = (value['taskId'] ?? value['id']) === 't1';
  switch (operation) {
    case 'SendMessage':
      return result({
        task: task('TASK_STATE_COMPLETED', 't1', { artifacts: [{ artifactId: 'a1', parts: [{ text: 'hi' }] }] }),
      });
    case 'SendStreamingMessage':
      return stream(
        steps(
          { task: task('TASK_STATE_SUBMITTED') },
          status('TASK_STATE_WORKING'),
          artifact('hi', { lastChunk: true }),
          status('TASK_STATE_COMPLETED'),
        ),
      );
    case 'SubscribeToTask':
      if (!known) throw new ProtocolError('task_not_found', 'Task not found');
      return stream(steps({ task: task('TASK_STATE_WORKING') }, status('TASK_STATE_COMPLETED')));
    case 'GetTask':
      if (!known) throw new ProtocolError('task_not_found', 'Task not found');
      return result(task('TASK_STATE_COMPLETED'));
    case 'CancelTask':
      if (!known) throw new ProtocolError('task_not_found', 'Task not found');
      return result(task('TASK_STATE_CANCELED'));
    case 'ListTasks':
      return result({ tasks: [task('TASK_STATE_COMPLETED')], nextPageToken: '', pageSize: 50, totalSize: 1 });
    case 'CreateTaskPushNotificationConfig':
      return result({ ...push, ...value, id: value['id'] ?? 'p1' });
    case 'GetTaskPushNotificationConfig':
      return result(push);
    case 'ListTaskPushNotificationConfigs':
      return result({ configs: [push], nextPageToken: '' });
    case 'DeleteTaskPushNotificationConfig':
      return result(null);
    case 'GetExtendedAgentCard':
      return result({
        name: 'echo',
        description: 'Says it again',
        supportedInterfaces: [{ url: 'http://127.0.0.1/a2a/echo', protocolBinding: 'JSONRPC', protocolVersion: '1.0' }],
        version: '1',
        capabilities: { streaming: true, extendedAgentCard: true },
        defaultInputModes: ['text/plain'],
        defaultOutputModes: ['text/plain'],
        skills: [{ id: 'echo', name: 'Echo', description: 'Says it again', tags: ['echo'] }],
      });
  }
}
