import { describe, expect, it } from 'vitest';
import type { AgentAnswer } from '../../core/a2a/gateway.js';
import { A2aContext, type CallContext, type CallResult, McpContext, type McpResult } from '../../core/call.js';
import { Cancellation, GATEWAY, LOCAL } from '../../core/caller.js';
import { MISSING } from '../../core/catalog/pages.js';
import { ALL_SERVERS, complete, failed, type Outcome, plainCall } from '../../core/gateway.js';
import { ActivePlugin } from '../../plugins/active-plugin.js';
import type { JsonObject, Plugin, PluginError } from '../../plugins/api.js';
import { Scope } from '../../plugins/scope.js';
import { REDACTION_KINDS, redaction } from '../../plugins/shipped/redaction.js';
import { NATIVE } from '../../protocol/a2a/dialect.js';
import { ProtocolError, UpstreamRpcError } from '../../protocol/errors.js';
import { RawObject } from '../../protocol/jsonrpc/raw.js';
import { SILENT } from '../../telemetry/log.js';
import { pluginStep } from '../plugins.js';

const active = (plugin: Omit<Plugin, 'apiVersion'>, onFailure: 'closed' | 'open' = 'closed', servers: string[] = []) =>
  new ActivePlugin({
    ...{ name: 'it', plugin: { apiVersion: 1, ...plugin }, scope: new Scope({ servers, tools: [], methods: [] }) },
    ...{ onFailure, timeout: 10_000, blockLimit: 1_000, log: SILENT },
  });
const stepOf = (...plugins: ActivePlugin[]) =>
  pluginStep({ plugins, ownerOf: () => undefined, validate: (context, next) => next(context) })!;
const redacting = stepOf(active(redaction({ kinds: REDACTION_KINDS, patterns: [] })));

const ADDRESS = 'postgres://u:hunter2@db.example/x';
const HIDDEN = 'postgres://[redacted:secret]@db.example/x';
const caller = { ...GATEWAY, principal: LOCAL };

function toolCall(): McpContext {
  const call = plainCall('tools/call', RawObject.from({ name: 'files__read', arguments: {} }), ALL_SERVERS);
  const target = { server: 'files', kind: 'tool', name: 'read' } as const;
  return new McpContext(caller, call, { target, forward: () => Promise.reject() }, 0);
}

function taskCall(): McpContext {
  const call = plainCall('tasks/get', RawObject.from({ taskId: 'sealed' }), ALL_SERVERS);
  const target = { server: 'files', kind: 'task', name: 'own' } as const;
  return new McpContext(caller, call, { target, forward: () => Promise.reject() }, 0);
}

function message(operation: 'SendMessage' | 'SendStreamingMessage'): A2aContext {
  const exchange = { cancellation: new Cancellation(), extensions: [], forward: {} };
  const call = { agent: 'helper', operation, request: { value: {} }, dialect: NATIVE, exchange } as const;
  const target = { server: 'helper', kind: 'agent', name: 'helper' } as const;
  return new A2aContext(caller, call, { target, forward: () => Promise.reject() }, 0);
}

const thrown = async (run: () => unknown): Promise<unknown> => {
  try {
    await run();
  } catch (error) {
    return error;
  }
  throw new Error('nothing was thrown');
};

const errorOf = (result: CallResult): unknown => ('error' in result ? result.error : undefined);

describe('redaction of errors', () => {
  const rpc = new UpstreamRpcError(-32000, `no ${ADDRESS}`, { at: ADDRESS, password: 'abc' }, 500);

  it("covers the message and the data of an MCP server's error", async () => {
    const error = errorOf(await redacting(toolCall(), () => failed(rpc)));
    expect(error).toMatchObject({ code: -32000, status: 500, message: `no ${HIDDEN}` });
    expect(error).toMatchObject({ data: { at: HIDDEN, password: '[redacted:secret]' } });
  });

  it("covers an error of the gateway that quotes the server, except for the gateway's own data", async () => {
    const detail = { outcome: 'unknown', data: { server: 'files' } } as const;
    const quoting = new ProtocolError('upstream_error', `Server "files" answered HTTP 500: ${ADDRESS}`, detail);
    const error = await thrown(() => redacting(toolCall(), () => Promise.reject(quoting)));
    expect(error).toMatchObject({ reason: 'upstream_error', detail });
    expect((error as Error).message).toBe(`Server "files" answered HTTP 500: ${HIDDEN}`);
  });

  it('covers the error of an A2A agent, also in the middle of a stream', async () => {
    const foreign = [{ '@type': 'type.example/Info', metadata: { at: ADDRESS } }];
    const failure = new ProtocolError('task_not_found', `no task at ${ADDRESS}`, { foreign });
    const expected = {
      message: `no task at ${HIDDEN}`,
      detail: { foreign: [{ '@type': 'type.example/Info', metadata: { at: HIDDEN } }] },
    };
    expect(await thrown(() => redacting(message('SendMessage'), () => Promise.reject(failure)))).toMatchObject(
      expected,
    );
    const events = async function* () {
      yield { value: { message: { messageId: 'm', parts: [{ text: 'hi' }] } } } as never;
      throw failure;
    };
    const answer = (await redacting(message('SendStreamingMessage'), () => ({ kind: 'stream', events: events() }))) as
      | AgentAnswer
      | undefined;
    const read = async (): Promise<void> => {
      if (answer?.kind === 'stream') for await (const event of answer.events) expect(event).toBeDefined();
    };
    expect(await thrown(read)).toMatchObject(expected);
  });

  it('covers the error of a call that became a task', async () => {
    let finished: ((outcome: Outcome) => Promise<Outcome>) | undefined;
    await redacting(toolCall(), (context: CallContext): McpResult => {
      if (context.protocol === 'mcp') finished = context.call.finished;
      return { kind: 'task', result: RawObject.from({ taskId: 't' }) };
    });
    expect(errorOf(await finished!(failed(rpc)))).toMatchObject({ message: `no ${HIDDEN}` });
  });

  it('covers the error and the status message of a task that a server hosts', async () => {
    const task = { taskId: 'sk-0123456789abcdefghij', status: 'failed', statusMessage: `down: ${ADDRESS}` };
    const error = { code: -32000, message: ADDRESS, data: { token: 'abc' } };
    const shown = await redacting(taskCall(), () => complete(RawObject.from({ ...task, error })));
    expect((shown as { result: RawObject }).result.value()).toEqual({
      ...{ ...task, statusMessage: `down: ${HIDDEN}` },
      error: { code: -32000, message: HIDDEN, data: { token: '[redacted:secret]' } },
    });
    const created = await redacting(toolCall(), () => ({ kind: 'task', result: RawObject.from({ ...task }) }));
    expect((created as { result: RawObject }).result.value()).toEqual({ ...task, statusMessage: `down: ${HIDDEN}` });
  });

  it('covers the reasons why servers are missing, for the servers in its scope', async () => {
    const missing = ['files', 'other'].map((server) => ({ server, reason: `refused: ${ADDRESS}` }));
    const expected = [{ server: 'files', reason: `refused: ${HIDDEN}` }, missing[1]];
    const plugin = { ...redaction({ kinds: REDACTION_KINDS, patterns: [] }), onRequest: () => ({ deny: 'No' }) };
    const step = stepOf(active(plugin, 'closed', ['files']));
    const call = plainCall('tools/list', RawObject.from({}), ALL_SERVERS);
    const target = { kind: 'catalog', server: undefined, name: 'tools/list' } as const;
    const context = new McpContext(caller, call, { target, forward: () => Promise.reject() }, 0);
    const listed = { tools: [], _meta: { a: 1, [MISSING]: missing } };
    const shown = (await step(context, () => complete(RawObject.from(listed)))) as { result: RawObject };
    expect(shown.result.value()).toEqual({ tools: [], _meta: { a: 1, [MISSING]: expected } });
    const value = { lists: [], missing };
    expect(await step(context, () => ({ kind: 'value', value }))).toMatchObject({ value: { missing: expected } });
  });

  it('leaves addresses that the user has to open unchanged', async () => {
    const elicitations = [{ mode: 'url', url: 'https://a.example/?token=abcdefgh', message: 'Open it' }];
    const asking = new UpstreamRpcError(-32042, 'Open the page', { elicitations });
    expect(errorOf(await redacting(toolCall(), () => failed(asking)))).toBe(asking);
    const login = new ProtocolError('login_required', 'Open https://a.example/?token=abcdefgh');
    expect(await thrown(() => redacting(toolCall(), () => Promise.reject(login)))).toBe(login);
  });
});

describe('onError', () => {
  const rpc = new UpstreamRpcError(-32000, 'broken', { n: 1 });

  it('gets a code or a reason; plugins without onError do not get the error', async () => {
    const seen: PluginError[] = [];
    const hearing = active({ onError: (_call, error) => void seen.push(error) as undefined });
    const others = active({
      onResponse: () => {
        throw new Error('an error is not a result');
      },
    });
    expect(errorOf(await stepOf(hearing, others)(toolCall(), () => failed(rpc)))).toBe(rpc);
    await thrown(() =>
      stepOf(hearing)(toolCall(), () => Promise.reject(new ProtocolError('upstream_timeout', 'late'))),
    );
    expect(seen).toEqual([
      { code: -32000, message: 'broken', data: { n: 1 } },
      { reason: 'upstream_timeout', message: 'late' },
    ]);
  });

  it("runs in the reverse order of the plugins, and only for servers in the plugin's scope", async () => {
    const adding = (letter: string, servers: string[] = []) =>
      active(
        { onError: (_call, { message: text }) => ({ error: { message: `${text} ${letter}` } }) },
        'closed',
        servers,
      );
    const step = stepOf(adding('a'), adding('b'), adding('c', ['other']));
    expect(errorOf(await step(toolCall(), () => failed(rpc)))).toMatchObject({
      message: 'broken b a',
      data: undefined,
    });
  });

  it.each([
    ['another code', (error: PluginError) => ({ error: { ...error, code: -1 } })],
    ['no message', () => ({ error: {} })],
    ['a result', () => ({ result: {} })],
  ])('withholds the error if a closed plugin answers with %s', async (_, onError) => {
    const answering = (onFailure: 'closed' | 'open') =>
      stepOf(active({ onError: (_call, error) => onError(error) as never }, onFailure));
    expect(await thrown(() => answering('closed')(toolCall(), () => failed(rpc)))).toMatchObject({
      reason: 'plugin_failed',
      data: { problem: 'invalid', outcome: 'unknown' },
    });
    expect(errorOf(await answering('open')(toolCall(), () => failed(rpc)))).toBe(rpc);
  });

  it('is not called for refusals of plugins, and writing to its argument changes no error', async () => {
    const writing = active({
      onRequest: ({ method }) => (method === 'tools/call' ? { deny: 'No' } : undefined),
      onError: (_call, error) => {
        (error.data as JsonObject)['n'] = 2;
        return undefined;
      },
    });
    expect(await thrown(() => stepOf(writing)(toolCall(), () => failed(rpc)))).toMatchObject({ message: 'No' });
    await stepOf(writing)(taskCall(), () => failed(rpc));
    expect(rpc.data).toEqual({ n: 1 });
  });
});

describe('the status message of a task that a server hosts', () => {
  const task = { taskId: 't', status: 'working', statusMessage: 'step 1' };
  const shown = async (onEvent: NonNullable<Plugin['onEvent']>) => {
    const result = await stepOf(active({ onEvent }))(taskCall(), () => complete(RawObject.from({ ...task })));
    return (result as { result: RawObject }).result.value();
  };

  it('is an event, which a plugin may change or drop', async () => {
    const events: JsonObject[] = [];
    expect(await shown((_call, event) => void events.push(event) as undefined)).toEqual(task);
    expect(events).toEqual([{ method: 'notifications/tasks', params: task }]);
    const params = { ...task, statusMessage: 'step' };
    expect(await shown((_call, event) => ({ event: { ...event, params } }))).toEqual(params);
    expect(await shown(() => ({ drop: true }))).toEqual({ taskId: 't', status: 'working' });
  });

  it('is removed if a closed plugin fails or changes the status', async () => {
    const params = { ...task, status: 'completed' };
    expect(await shown((_call, event) => ({ event: { ...event, params } }))).toEqual({
      taskId: 't',
      status: 'working',
    });
    expect(await shown(() => Promise.reject(new Error('no')))).toEqual({ taskId: 't', status: 'working' });
  });
});
