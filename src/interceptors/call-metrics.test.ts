import { beforeEach, describe, expect, test } from 'vitest';
import { callerNamed, toolCall } from '../../test/support/callers.js';
import type { AgentCall } from '../core/a2a/gateway.js';
import type { Target } from '../core/admission.js';
import { A2aContext, McpContext } from '../core/call.js';
import { complete, failed, type Outcome } from '../core/gateway.js';
import { Pipeline } from '../core/pipeline.js';
import { ProtocolError, UpstreamRpcError } from '../protocol/errors.js';
import { RawObject } from '../protocol/jsonrpc/raw.js';
import { NEWEST } from '../protocol/mcp/revisions/index.js';
import { MetricRegistry } from '../telemetry/metrics/metric-types.js';
import { prometheusText } from '../telemetry/metrics/prometheus-text.js';
import { CallMetrics } from './call-metrics.js';
import { observed } from './observed-calls.js';

const ADA = callerNamed('ada');
const CATALOG = { upstream: () => ({ revisionFor: () => 'older' }) as never };
let registry: MetricRegistry;
let metrics: CallMetrics;
let pipeline: Pipeline;

function start(names = true): void {
  registry = new MetricRegistry();
  metrics = new CallMetrics({ registry, catalog: CATALOG, names });
  pipeline = new Pipeline([observed([metrics])]);
}
beforeEach(() => start());

const call = (outcome: Outcome | Error, target: Target | undefined, method = 'tools/call') => {
  const forward = async (): Promise<Outcome> => {
    if (outcome instanceof Error) throw outcome;
    return outcome;
  };
  const context = new McpContext(ADA, toolCall({ name: 'x' }, { method }), { target, forward }, performance.now());
  return Promise.resolve(pipeline.run(context)).catch(() => undefined);
};
const tool = (name: string, server = 'units'): Target => ({ server, kind: 'tool', name });
const OK = complete(RawObject.from({ content: [] }));
const lines = async (start: string): Promise<string[]> =>
  prometheusText(await registry.read())
    .split('\n')
    .filter((line) => line.startsWith(start));

describe('the metrics of calls', () => {
  test('count an MCP call by method, server, tool, outcome, revisions and bytes', async () => {
    await call(OK, tool('convert'));
    expect(await lines('parley_calls_total')).toEqual([
      'parley_calls_total{protocol="mcp",method="tools/call",upstream="units",outcome="ok"} 1',
    ]);
    expect(await lines('parley_tool_calls_total')).toEqual([
      'parley_tool_calls_total{upstream="units",tool="convert",outcome="ok"} 1',
    ]);
    expect(await lines('parley_call_duration_seconds_count')).toEqual([
      'parley_call_duration_seconds_count{protocol="mcp",method="tools/call",upstream="units"} 1',
    ]);
    expect(await lines('parley_client_rev')).toEqual([
      `parley_client_revision_calls_total{protocol="mcp",revision="${NEWEST.date}"} 1`,
    ]);
    expect(await lines('parley_upstream_rev')).toEqual([
      'parley_upstream_revision_calls_total{protocol="mcp",revision="older"} 1',
    ]);
    expect(await lines('parley_result_bytes_total')).toEqual(['parley_result_bytes_total{protocol="mcp"} 14']);
    expect(await lines('parley_calls_in_flight')).toEqual([
      'parley_calls_in_flight{protocol="mcp"} 0',
      'parley_calls_in_flight{protocol="a2a"} 0',
    ]);
  });

  test('count further calls of a tool in the series of its first call, separately for each outcome and server', async () => {
    for (const outcome of [OK, OK, failed(new ProtocolError('overloaded', 'Later'))])
      await call(outcome, tool('convert'));
    await call(OK, tool('convert', 'other-units'));
    await call(OK, tool('convert', 'other-units'), 'SendMessage');
    expect(await lines('parley_tool_calls_total')).toEqual([
      'parley_tool_calls_total{upstream="units",tool="convert",outcome="ok"} 2',
      'parley_tool_calls_total{upstream="units",tool="convert",outcome="error"} 1',
      'parley_tool_calls_total{upstream="other-units",tool="convert",outcome="ok"} 2',
    ]);
    expect(await lines('parley_upstream_rev')).toEqual([
      'parley_upstream_revision_calls_total{protocol="mcp",revision="older"} 5',
    ]);
  });

  test('count an A2A stream when it ends', async () => {
    async function* events() {
      yield { value: {} };
    }
    const agent = { operation: 'SendStreamingMessage', dialect: '1.0' } as unknown as AgentCall;
    const target: Target = { server: 'planner', kind: 'agent', name: 'planner' };
    const forward = async () => ({ kind: 'stream', events: events() }) as never;
    const answer = await pipeline.run(new A2aContext(ADA, agent, { target, forward }, performance.now()));
    expect(await lines('parley_calls_in_flight{protocol="a2a"}')).toEqual(['parley_calls_in_flight{protocol="a2a"} 1']);
    if (answer.kind === 'stream') for await (const _ of answer.events);
    expect(await lines('parley_calls_total')).toEqual([
      'parley_calls_total{protocol="a2a",method="SendStreamingMessage",upstream="planner",outcome="ok"} 1',
    ]);
  });

  test('S2-33: count errors, protocol violations and limits, each error once', async () => {
    const broken = new ProtocolError('upstream_invalid', 'secret');
    await call(failed(broken), tool('convert'));
    metrics.failed(broken, 'mcp');
    await call(new ProtocolError('rate_limited', 'secret'), tool('convert'));
    await call(failed(new UpstreamRpcError(-32000, 'secret', {})), tool('convert'));
    metrics.failed(new ProtocolError('parse_error', 'secret'), 'http');
    await call(complete(RawObject.from({ content: [], isError: true })), tool('convert'));
    expect(await lines('parley_errors_total')).toEqual([
      'parley_errors_total{protocol="mcp",reason="upstream_invalid"} 1',
      'parley_errors_total{protocol="mcp",reason="rate_limited"} 1',
      'parley_errors_total{protocol="mcp",reason="upstream_rpc_error"} 1',
      'parley_errors_total{protocol="http",reason="parse_error"} 1',
      'parley_errors_total{protocol="mcp",reason="tool_error"} 1',
    ]);
    expect(await lines('parley_protocol_violations_total')).toEqual([
      'parley_protocol_violations_total{side="upstream",kind="upstream_invalid"} 1',
      'parley_protocol_violations_total{side="client",kind="parse_error"} 1',
    ]);
    expect(await lines('parley_limit_refusals_total')).toEqual(['parley_limit_refusals_total{limit="rate_limited"} 1']);
    expect(prometheusText(await registry.read())).not.toContain('secret');
  });

  test('have a bounded number of labels: unknown methods and names beyond the limit become "other"', async () => {
    for (let index = 0; index < 700; index++) {
      await call(OK, tool(`t${index}`, `s${index}`));
      await call(OK, undefined, `made/up${index}`);
    }
    const all = await lines('parley_');
    expect(all.length).toBeLessThan(6_000);
    expect(all.join('\n')).not.toContain('made/up');
    expect(await lines('parley_calls_total{protocol="mcp",method="other"')).toEqual([
      'parley_calls_total{protocol="mcp",method="other",upstream="none",outcome="ok"} 700',
    ]);
    expect(await lines('parley_tool_calls_total{upstream="other",tool="other"')).toEqual([
      'parley_tool_calls_total{upstream="other",tool="other",outcome="ok"} 200',
    ]);
  });

  test('contain no names if anybody may read the metrics', async () => {
    start(false);
    await call(OK, tool('convert'));
    const text = prometheusText(await registry.read());
    expect(text).not.toMatch(/units|convert/);
    expect(text).toContain('upstream="hidden",tool="hidden"');
  });
});
