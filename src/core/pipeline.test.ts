import { describe, expect, test } from 'vitest';
import { ProtocolError } from '../protocol/errors.js';
import { RawObject } from '../protocol/jsonrpc/raw.js';
import type { AgentCall } from './a2a/gateway.js';
import { A2aContext, McpContext, type McpRoute } from './call.js';
import { Cancellation, GATEWAY } from './caller.js';
import { ALL_SERVERS, complete, type Outcome, plainCall } from './gateway.js';
import { type Interceptor, Pipeline } from './pipeline.js';

const RESULT = complete(RawObject.from({ content: [] }));
const call = (params: object = {}, method = 'tools/call', header?: (name: string) => string | undefined) =>
  plainCall(method, RawObject.from(params), ALL_SERVERS, { header });

const contextOf = (forward: McpRoute['forward'] = async () => RESULT, params: object = {}): McpContext =>
  new McpContext(GATEWAY, call(params), { target: { server: 'a', kind: 'tool', name: 'b' }, forward }, 0);

describe('a pipeline', () => {
  test('passes a call through the interceptors in their order, and its outcome back the other way', async () => {
    const seen: string[] = [];
    const step =
      (name: string): Interceptor =>
      async (context, next) => {
        seen.push(`${name} in`);
        const result = await next(context);
        seen.push(`${name} out`);
        return result;
      };
    const pipeline = new Pipeline([step('first'), undefined, step('second')]);
    expect(await pipeline.run(contextOf())).toBe(RESULT);
    expect(seen).toEqual(['first in', 'second in', 'second out', 'first out']);
  });

  test('returns the promise of the server itself if no interceptor waits', () => {
    const answer = Promise.resolve(RESULT);
    const pass: Interceptor = (context, next) => next(context);
    expect(new Pipeline([pass, pass]).run(contextOf(() => answer))).toBe(answer);
  });

  test('does not forward a call that an interceptor refuses or answers', async () => {
    let forwarded = 0;
    const context = contextOf(async () => {
      forwarded++;
      return RESULT;
    });
    const refusing: Interceptor = () => {
      throw new ProtocolError('forbidden', 'No');
    };
    expect(() => new Pipeline([refusing]).run(context)).toThrow('No');
    const other: Outcome = { kind: 'error', error: new ProtocolError('overloaded', 'Later') };
    expect(await new Pipeline([() => other]).run(context)).toBe(other);
    expect(forwarded).toBe(0);
  });

  test('forwards the parameters that an interceptor changed, to the same target', async () => {
    let name: unknown;
    const context = contextOf(async ({ call: { params }, target }) => {
      name = [params.get('name'), target?.name];
      return RESULT;
    });
    const changing: Interceptor = (given, next) =>
      next(given.protocol === 'mcp' ? given.withParams(RawObject.from({ name: 'other' })) : given);
    await new Pipeline([changing]).run(context);
    expect(name).toEqual(['other', 'b']);
  });
});

describe('the context of a call', () => {
  const route = { target: undefined, forward: async () => RESULT };
  const TRACE = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';

  test('has the arguments of a tool, and all parameters of other methods', () => {
    const given = { name: 'x', arguments: { a: 1 } };
    expect(new McpContext(GATEWAY, call(given), route, 0).arguments).toEqual({ a: 1 });
    expect(new McpContext(GATEWAY, call({ uri: 'x:' }, 'resources/read'), route, 0).arguments).toEqual({ uri: 'x:' });
  });

  test('has one id: the id of its HTTP request or a new one', () => {
    const context = new McpContext(GATEWAY, { ...call(), requestId: 'given' }, route, 0);
    expect(context.requestId).toBe('given');
    const own = new McpContext(GATEWAY, call(), route, 0);
    expect(own.requestId).toBe(own.requestId);
    expect(own.withParams(RawObject.from({})).requestId).toBe(own.requestId);
    expect(new McpContext(GATEWAY, call(), route, 0).requestId).not.toBe(own.requestId);
  });

  test('has the trace context of the message, otherwise of its HTTP request (OTEL-02)', () => {
    const header = (name: string) => (name === 'traceparent' ? 'of the header' : undefined);
    const meta = { _meta: { traceparent: TRACE, tracestate: 'a=b' } };
    const traced = (params: object, from?: typeof header) =>
      new McpContext(GATEWAY, call(params, 'tools/call', from), route, 0).trace;
    expect(traced(meta, header)).toEqual({ traceparent: TRACE, tracestate: 'a=b' });
    expect(traced({}, header)).toEqual({ traceparent: 'of the header' });
    expect(traced({})).toBeUndefined();
  });

  test('has the same properties for an A2A call', () => {
    const cancellation = new Cancellation();
    const sent: AgentCall = {
      requestId: 'id of the HTTP request',
      id: 'r',
      agent: 'a',
      operation: 'GetTask',
      request: { value: { id: 't' } },
      dialect: '1.0',
      exchange: { cancellation, extensions: [], forward: { traceparent: TRACE } },
      deadline: 5,
    };
    const forward = async () => ({ kind: 'result', result: { value: null } }) as const;
    const target = { server: 'a', kind: 'agent', name: 'a' } as const;
    expect(new A2aContext(GATEWAY, sent, { target, forward }, 1)).toMatchObject({
      protocol: 'a2a',
      requestId: 'id of the HTTP request',
      caller: GATEWAY,
      method: 'GetTask',
      target,
      arguments: { id: 't' },
      began: 1,
      deadline: 5,
      trace: { traceparent: TRACE },
      cancellation,
      session: undefined,
    });
  });
});
