import { beforeEach, describe, expect, test } from 'vitest';
import { callerNamed, toolCall } from '../../test/support/callers.js';
import type { AgentCall } from '../core/a2a/gateway.js';
import type { Target } from '../core/admission.js';
import { A2aContext, McpContext } from '../core/call.js';
import type { EvaluatedCall } from '../core/evaluation/evaluator.js';
import { complete, failed, type Outcome } from '../core/gateway.js';
import { Pipeline } from '../core/pipeline.js';
import { ProtocolError, UpstreamRpcError } from '../protocol/errors.js';
import { RawObject } from '../protocol/jsonrpc/raw.js';
import type { FinishedSpan } from '../telemetry/tracing/finished-span.js';
import { evaluation, evaluationSpan, type ScopedEvaluator } from './evaluation.js';
import { observed } from './observed-calls.js';

const ADA = callerNamed('ada');
const CATALOG = { upstream: () => undefined };
const OK = complete(RawObject.from({ content: [], structuredContent: { answer: 42 } }));
let given: EvaluatedCall[];
beforeEach(() => {
  given = [];
});

const scoped = (more: Partial<ScopedEvaluator> = {}): ScopedEvaluator => ({
  ...{ servers: [], tools: [], sample: 1, contents: true, accepts: () => true },
  add: (call: EvaluatedCall) => given.push(call),
  ...more,
});
const json = (call: EvaluatedCall | undefined): unknown => JSON.parse(String(call?.json));

function call(
  evaluators: readonly ScopedEvaluator[],
  { outcome = OK, ...more }: { target?: Target | undefined; outcome?: Outcome | Error } = {},
) {
  const target = 'target' in more ? more.target : tool('convert');
  const forward = async (): Promise<Outcome> => {
    if (outcome instanceof Error) throw outcome;
    return outcome;
  };
  const params = { name: 'units__convert', arguments: { value: 1 } };
  const item = { value: { name: 'convert', outputSchema: { type: 'object' } } } as never;
  const context = new McpContext(ADA, toolCall(params), { target, item, forward }, performance.now());
  return Promise.resolve(new Pipeline([observed([evaluation(evaluators, CATALOG, () => 0.5)])]).run(context)).catch(
    () => undefined,
  );
}
const tool = (name: string, server = 'units'): Target => ({ server, kind: 'tool', name });

describe('evaluators', () => {
  test('get the call with its arguments, its result and the output schema of the tool', async () => {
    await call([scoped()]);
    expect(given).toMatchObject([{ caller: 'ada', upstream: 'units', target: 'convert', outcome: 'ok' }]);
    expect(json(given[0])).toMatchObject({
      ...{ method: 'tools/call', server: 'units', tool: 'convert', outcome: 'ok', ms: expect.any(Number) },
      arguments: { value: 1 },
      result: { structuredContent: { answer: 42 } },
      outputSchema: { type: 'object' },
    });
  });

  test('get names and times only if they want no contents, and nothing is copied then', async () => {
    const result = RawObject.from({ content: [] });
    let copied = 0;
    const bytes = result.bytes.bind(result);
    result.bytes = () => {
      copied++;
      return bytes();
    };
    await call([scoped({ contents: false })], { outcome: complete(result) });
    expect(json(given[0])).not.toHaveProperty('arguments');
    expect(copied).toBe(0);
    // If no evaluator has room for the call, nothing is copied either.
    await call([scoped({ accepts: () => false })], { outcome: complete(result) });
    expect([copied, given.length]).toEqual([0, 1]);
    await call([scoped({ contents: false }), scoped(), scoped()], { outcome: complete(result) });
    expect(copied).toBe(1);
  });

  test('get the calls of their servers and tools, sampled', async () => {
    await call([
      ...[scoped({ servers: ['un*'] }), scoped({ servers: ['clock'] }), scoped({ tools: ['convert'] })],
      ...[scoped({ tools: ['list*'] }), scoped({ sample: 0.4 }), scoped({ sample: 0.6 })],
    ]);
    expect(given).toHaveLength(3);
  });

  test('get failures of a server, but no call that reached no server or has not ended', async () => {
    await call([scoped()], { outcome: failed(new UpstreamRpcError(-32000, 'no', undefined)) });
    expect(given).toMatchObject([{ outcome: 'error' }]);
    await call([scoped()], { outcome: { kind: 'input_required', inputRequests: {} } });
    await call([scoped()], { target: undefined, outcome: new ProtocolError('tool_not_found', 'no') });
    await call([scoped()], { target: { kind: 'catalog', server: undefined, name: 'tools/list' } });
    expect(given).toHaveLength(1);
  });

  test('get a call with large contents without them, and names without control characters', async () => {
    const large = complete(RawObject.from({ content: [{ type: 'text', text: 'x'.repeat(2 ** 20) }] }));
    await call([scoped()], { outcome: large, target: tool('a\u0000b') });
    expect(json(given[0])).toMatchObject({ omitted: true });
    expect(given[0]!.json.length).toBeLessThan(2_000);
    expect(given[0]!.target).toBe('a?b');
  });

  test('cannot make a call fail, whatever definition its server declares', async () => {
    let deep: object = {};
    for (let level = 0; level < 100_000; level++) deep = { items: deep };
    const forward = async (): Promise<Outcome> => OK;
    const item = { value: { name: 'convert', outputSchema: deep } } as never;
    const route = { target: tool('convert'), item, forward };
    const context = new McpContext(ADA, toolCall({ name: 'units__convert' }), route, performance.now());
    expect(await new Pipeline([observed([evaluation([scoped()], CATALOG)])]).run(context)).toBe(OK);
    expect(given).toEqual([]);
  });

  test('get messages to agents, a stream without its events', async () => {
    async function* events() {
      yield { value: {} };
    }
    const run = async (operation: string, answer: object) => {
      const agent = { operation, dialect: '1.0', request: { value: { message: { parts: [] } } } } as never as AgentCall;
      const context = new A2aContext(
        ADA,
        { ...agent, exchange: { cancellation: { cancelled: false }, forward: {} } } as never,
        { target: { server: 'planner', kind: 'agent', name: 'planner' }, forward: async () => answer as never },
        performance.now(),
      );
      const result = await new Pipeline([observed([evaluation([scoped()], CATALOG)])]).run(context);
      if (result.kind === 'stream') for await (const _ of result.events);
    };
    await run('SendMessage', { kind: 'result', result: { value: { task: { id: 't' } } } });
    await run('SendStreamingMessage', { kind: 'stream', events: events() });
    await run('GetTask', { kind: 'result', result: { value: {} } });
    expect(given.map(json)).toMatchObject([
      { method: 'SendMessage', agent: 'planner', arguments: { message: {} }, result: { task: { id: 't' } } },
      { method: 'SendStreamingMessage', events: 1 },
    ]);
    expect(given).toHaveLength(2);
  });
});

test('the span of an evaluation is below the span of its call, if that one is exported', () => {
  const spans: FinishedSpan[] = [];
  const tracing = { sampled: () => true, exportErrors: true, finished: (span: FinishedSpan) => spans.push(span) };
  const span = { traceId: 'a'.repeat(32), spanId: 'b'.repeat(16), sampled: true };
  const evaluated = { requestId: 'r', protocol: 'mcp', span } as EvaluatedCall;
  evaluationSpan(tracing, 'judge', evaluated, { score: 0.5, label: 'fair' }, 12);
  evaluationSpan(tracing, 'judge', { ...evaluated, span: { ...span, sampled: false } }, { score: 1 }, 1);
  evaluationSpan(undefined, 'judge', evaluated, { score: 1 }, 1);
  expect(spans).toHaveLength(1);
  expect(spans[0]).toMatchObject({ name: 'evaluate judge', kind: 'internal', parent: span.spanId });
  expect(spans[0]!.attributes).toMatchObject({
    'eval.plugin': 'judge',
    'eval.score': 0.5,
    'eval.status': 'success',
    'eval.invocation_type': 'mcp',
    'gen_ai.evaluation.score.label': 'fair',
  });
});
