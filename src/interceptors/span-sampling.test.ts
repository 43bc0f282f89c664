import { expect, test } from 'vitest';
import { callerNamed, toolCall } from '../../test/support/callers.js';
import { McpContext, type McpRoute } from '../core/call.js';
import { type Call, complete, failed } from '../core/gateway.js';
import { Pipeline } from '../core/pipeline.js';
import { ProtocolError } from '../protocol/errors.js';
import { RawObject } from '../protocol/jsonrpc/raw.js';
import type { FinishedSpan, Tracing } from '../telemetry/tracing/finished-span.js';
import { clientSpans, serverSpans } from './call-spans.js';
import { traceIdOf } from './trace-id.js';

const OK = complete(RawObject.from({ content: [] }));
const BROKEN = failed(new ProtocolError('upstream_unavailable', 'away'));
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';

function traced(sampled: boolean, exportErrors = true) {
  const spans: FinishedSpan[] = [];
  const tracing: Tracing = {
    sampled: (_, parent) => parent ?? sampled,
    exportErrors,
    finished: (span) => spans.push(span),
  };
  const pipeline = new Pipeline([serverSpans(tracing), clientSpans(tracing)]);
  const run = (forward: McpRoute['forward'], call: Call = toolCall({ name: 'x' })) => {
    const route: McpRoute = { target: { server: 'units', kind: 'tool', name: 'x' }, forward };
    const context = new McpContext(callerNamed('ada'), call, route, performance.now());
    return { context, outcome: Promise.resolve(pipeline.run(context)) };
  };
  return { spans, run };
}

test('an unsampled call exports no span, and its server gets the trace without the sampled flag', async () => {
  const { spans, run } = traced(false);
  let sent: string | undefined;
  const { context, outcome } = run(async ({ call }) => {
    sent = call.trace?.traceparent;
    return OK;
  });
  expect(await outcome).toBe(OK);
  expect(sent).toMatch(/^00-[\da-f]{32}-[\da-f]{16}-00$/);
  expect(sent?.slice(3, 35)).toBe(traceIdOf(context));
  expect(spans).toEqual([]);
});

test('an unsampled call that fails has both spans, with the ids that the server saw and the times of the call', async () => {
  const { spans, run } = traced(false);
  let sent = '';
  const began = performance.now();
  await run(async ({ call }) => {
    sent = call.trace!.traceparent;
    return BROKEN;
  }).outcome;
  const [server, client] = spans;
  expect(spans.map(({ kind, error }) => [kind, error])).toEqual([
    ['server', 'upstream_unavailable'],
    ['client', 'upstream_unavailable'],
  ]);
  expect(sent).toBe(`00-${server!.traceId}-${client!.spanId}-00`);
  expect([client!.traceId, client!.parent]).toEqual([server!.traceId, server!.spanId]);
  const times = [began, server!.began, client!.began, client!.ended, server!.ended];
  expect(times).toEqual([...times].sort((a, b) => a - b));
});

test('an unsampled call whose tool reports a failure in its result has both spans', async () => {
  const { spans, run } = traced(false);
  await run(async () => complete(RawObject.from({ content: [], isError: true }))).outcome;
  await run(async () => complete(RawObject.from({ content: [], isError: false }))).outcome;
  expect(spans.map(({ kind, error }) => [kind, error])).toEqual([
    ['server', 'tool_error'],
    ['client', 'tool_error'],
  ]);
});

test('an unsampled call that fails has no spans if errors are not exported', async () => {
  const { spans, run } = traced(false, false);
  await run(async () => BROKEN).outcome;
  await expect(run(() => Promise.reject(new Error('broken'))).outcome).rejects.toThrow('broken');
  expect(spans).toEqual([]);
});

test('the sampling decision and the trace state of the client are passed on', async () => {
  const { spans, run } = traced(false);
  const traces: unknown[] = [];
  for (const flags of ['01', '00']) {
    const _meta = { traceparent: `00-${TRACE}-00f067aa0ba902b7-${flags}`, tracestate: 'a=b' };
    await run(
      async ({ call }) => {
        traces.push([call.trace?.traceparent.slice(0, 35), call.trace?.traceparent.slice(-2), call.trace?.tracestate]);
        return OK;
      },
      toolCall({ name: 'x', _meta }),
    ).outcome;
  }
  expect(traces).toEqual([
    [`00-${TRACE}`, '01', 'a=b'],
    [`00-${TRACE}`, '00', 'a=b'],
  ]);
  expect(spans.map(({ kind, state }) => [kind, state])).toEqual([
    ['client', 'a=b'],
    ['server', 'a=b'],
  ]);
  expect(spans[1]!.parent).toBe('00f067aa0ba902b7');
});

test('a call that passes the pipeline twice has its own span each time, and the first keeps its trace', async () => {
  const { run } = traced(true);
  const call = toolCall({ name: 'x' });
  const calls: Call[] = [];
  const forward: McpRoute['forward'] = async (context) => {
    calls.push(context.call);
    return OK;
  };
  await Promise.all([run(forward, call).outcome, run(forward, call).outcome]);
  const [first, second] = calls.map(({ trace }) => trace?.traceparent);
  expect(first).toBeDefined();
  expect(second).toBeDefined();
  expect(first).not.toBe(second);
});
