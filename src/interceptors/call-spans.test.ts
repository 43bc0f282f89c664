import { describe, expect, test } from 'vitest';
import { callerNamed, toolCall } from '../../test/support/callers.js';
import type { AgentCall } from '../core/a2a/gateway.js';
import type { Target } from '../core/admission.js';
import { A2aContext, type CallContext, McpContext } from '../core/call.js';
import { Cancellation } from '../core/caller.js';
import { failed } from '../core/gateway.js';
import { Pipeline } from '../core/pipeline.js';
import { ProtocolError, UpstreamRpcError } from '../protocol/errors.js';
import type { FinishedSpan } from '../telemetry/tracing/finished-span.js';
import { clientSpans, serverSpans } from './call-spans.js';

const ADA = callerNamed('ada');
const TRACEPARENT = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
const TOOL: Target = { server: 'it', kind: 'tool', name: 'it' };
const AGENT: Target = { server: 'it', kind: 'agent', name: 'it' };

/** In MCP a failure is an outcome of the call, and a defect of the gateway is thrown. */
const mcpCall = (fault: Error): CallContext => {
  const forward = async () => {
    if (fault instanceof ProtocolError || fault instanceof UpstreamRpcError) return failed(fault);
    throw fault;
  };
  const call = toolCall({ name: 'it__it', _meta: { traceparent: TRACEPARENT } });
  return new McpContext(ADA, call, { target: TOOL, forward }, 0);
};

/** In A2A a failure is thrown. */
const a2aCall = (fault: Error): CallContext => {
  const exchange = { forward: { traceparent: TRACEPARENT }, cancellation: new Cancellation() };
  const call = { requestId: 'made-at-the-edge', id: 7, operation: 'SendMessage', dialect: '1.0', exchange };
  return new A2aContext(ADA, call as unknown as AgentCall, { target: AGENT, forward: () => Promise.reject(fault) }, 0);
};

async function spansOf(context: CallContext): Promise<FinishedSpan[]> {
  const spans: FinishedSpan[] = [];
  const tracing = { sampled: () => true, exportErrors: true, finished: (span: FinishedSpan) => void spans.push(span) };
  const pipeline = new Pipeline([serverSpans(tracing)!, clientSpans(tracing)!]);
  await Promise.resolve(pipeline.run(context as McpContext)).catch(() => undefined);
  return spans;
}

/** The attributes that exist in one protocol only, or whose values differ between the protocols. */
const OF_ONE_PROTOCOL = new Set([
  ...['mcp.method.name', 'mcp.protocol.version', 'mcp.server.name', 'network.transport', 'gen_ai.tool.name'],
  ...['a2a.method', 'a2a.protocol.version', 'a2a.agent.name', 'a2a.stream', 'gen_ai.agent.name'],
  'gen_ai.operation.name',
]);

/** A span without its ids and times, and without the attributes that name its protocol. */
function shapeOf(span: FinishedSpan, spans: readonly FinishedSpan[]): object {
  const attributes = Object.entries(span.attributes)
    .filter(([name]) => !OF_ONE_PROTOCOL.has(name))
    .map(([name, value]) => [name.replace(/^(mcp|a2a)\./, ''), value]);
  return {
    kind: span.kind,
    trace: span.traceId,
    parent: spans.findIndex(({ spanId }) => spanId === span.parent),
    remoteParent: span.remoteParent,
    links: span.links,
    error: span.error,
    target: span.name.split(' ')[1],
    attributes: Object.fromEntries(attributes),
    timed: span.ended >= span.began,
  };
}

describe('S1-69: the same fault in MCP and A2A', () => {
  test.each([
    ['a server that cannot be reached', new ProtocolError('upstream_unavailable', 'secret'), 'upstream_unavailable'],
    ['a timeout', new ProtocolError('upstream_timeout', 'secret'), 'upstream_timeout'],
    ['an error of the other side', new UpstreamRpcError(-32050, 'secret', {}), '-32050'],
    ['a defect', new Error('secret'), 'internal'],
  ])('leads to spans of the same shape: %s', async (_, fault, type) => {
    const [mcp, a2a] = [await spansOf(mcpCall(fault)), await spansOf(a2aCall(fault))];
    const shapes = mcp.map((span) => shapeOf(span, mcp));
    expect(a2a.map((span) => shapeOf(span, a2a))).toEqual(shapes);
    // The span of the call to the server ends first. Both spans have failed and are in the trace of the client.
    expect(shapes).toMatchObject([
      { kind: 'client', parent: 1, remoteParent: false, error: type },
      { kind: 'server', parent: -1, remoteParent: true, error: type },
    ]);
    for (const { traceId, attributes } of [...mcp, ...a2a]) {
      expect(TRACEPARENT).toContain(traceId);
      expect(attributes).toMatchObject({ 'error.type': type });
      expect(attributes['mcp.success'] ?? attributes['a2a.success']).toBe(false);
      expect(JSON.stringify(attributes)).not.toContain('secret');
    }
  });
});
