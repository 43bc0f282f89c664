import { beforeEach, describe, expect, test } from 'vitest';
import { callerNamed, toolCall } from '../../test/support/callers.js';
import type { AgentAnswer, AgentCall } from '../core/a2a/gateway.js';
import type { Target } from '../core/admission.js';
import { A2aContext, McpContext } from '../core/call.js';
import { type Caller, Cancellation, GATEWAY } from '../core/caller.js';
import { type Call, complete, failed, type Outcome } from '../core/gateway.js';
import { Pipeline } from '../core/pipeline.js';
import { ProtocolError, UpstreamRpcError } from '../protocol/errors.js';
import { RawObject } from '../protocol/jsonrpc/raw.js';
import { NEWEST } from '../protocol/mcp/revisions/index.js';
import { callLog } from './call-log.js';
import { observed } from './observed-calls.js';

let enabled: boolean;
let lines: Record<string, unknown>[];
const log = {
  enabled: () => enabled,
  write: (fields: object) => void lines.push(fields as Record<string, unknown>),
};
beforeEach(() => {
  enabled = true;
  lines = [];
});

const CALLER = callerNamed('ada', { clientInfo: { name: 'claude-code', version: '2.1' } });
const CATALOG = { upstream: () => ({ revisionFor: () => 'older' }) as never };

function gatewayOf(outcome: Outcome | Error, target?: Target) {
  const pipeline = new Pipeline([observed([callLog(log, CATALOG)])]);
  const forward = async (): Promise<Outcome> => {
    if (outcome instanceof Error) throw outcome;
    return outcome;
  };
  return {
    call: async (caller: Caller, call: Call) =>
      pipeline.run(new McpContext(caller, call, { target, forward }, performance.now())),
  };
}

const CONVERT: Target = { server: 'units', kind: 'tool', name: 'convert' };
const SECRET = 'hunter2';
const PARAMS = { name: 'units__convert', arguments: { password: SECRET } };

describe('an MCP call', () => {
  test('writes one line: request, caller, method, target, outcome, time, revisions', async () => {
    const outcome = complete(RawObject.from({ content: [SECRET] }));
    expect(await gatewayOf(outcome, CONVERT).call(CALLER, toolCall(PARAMS))).toBe(outcome);
    expect(lines).toEqual([
      {
        event: 'call',
        protocol: 'mcp',
        requestId: 'made-at-the-edge',
        id: 7,
        caller: 'ada',
        client: 'claude-code 2.1',
        method: 'tools/call',
        server: 'units',
        tool: 'convert',
        outcome: 'ok',
        ms: expect.any(Number),
        bytes: 23,
        revision: NEWEST.date,
        serverRevision: 'older',
      },
    ]);
    expect(Number.isInteger((lines[0]!['ms'] as number) * 10)).toBe(true);
  });

  test.each([
    [
      failed(new ProtocolError('tool_not_found', `Unknown tool: ${SECRET}`)),
      { outcome: 'error', error: 'tool_not_found' },
    ],
    [failed(new UpstreamRpcError(-32603, SECRET, { SECRET })), { outcome: 'error', error: -32603 }],
    [
      { kind: 'input_required', inputRequests: undefined, requestState: SECRET } as const,
      { outcome: 'input_required' },
    ],
    [new Error(SECRET), { outcome: 'error', error: 'internal' }],
  ])('that fails has its outcome in the line, but no text of the error', async (outcome, fields) => {
    await gatewayOf(outcome)
      .call(CALLER, toolCall(PARAMS))
      .catch(() => {});
    expect(lines).toEqual([expect.objectContaining({ ...fields, tool: 'units__convert' })]);
    expect(JSON.stringify(lines)).not.toContain(SECRET);
  });

  test('whose client has left has the outcome "cancelled"', async () => {
    const cancellation = new Cancellation();
    cancellation.cancel('gone');
    await gatewayOf(complete(RawObject.from({})), CONVERT).call(CALLER, toolCall(PARAMS, { cancellation }));
    expect(lines).toEqual([expect.objectContaining({ outcome: 'cancelled' })]);
  });

  test('of a resource contains the URI without query and credentials', async () => {
    const target: Target = {
      server: 'db',
      kind: 'resource',
      name: `https://ada:${SECRET}@h/path?key=${SECRET}#${SECRET}`,
    };
    const call = toolCall({ uri: target.name }, { method: 'resources/read' });
    await gatewayOf(complete(RawObject.from({})), target).call(CALLER, call);
    expect(lines).toEqual([expect.objectContaining({ server: 'db', resource: 'https://h/path' })]);
  });

  test('with long names writes a short line', async () => {
    const long = 'x'.repeat(100_000);
    const caller = { ...CALLER, clientInfo: { name: long, version: long } };
    await gatewayOf(failed(new ProtocolError('tool_not_found', ''))).call(
      caller,
      toolCall({ name: long }, { id: long, method: 'tools/call' }),
    );
    expect(JSON.stringify(lines[0]).length).toBeLessThan(1_000);
  });

  test('writes nothing while the level is off, nor for the gateway itself', async () => {
    const outcome = complete(RawObject.from({}));
    const call = toolCall(PARAMS);
    const gateway = gatewayOf(outcome);
    expect(await gateway.call(GATEWAY, call)).toBe(outcome);
    enabled = false;
    expect(await gateway.call(CALLER, call)).toBe(outcome);
    expect(lines).toEqual([]);
    expect(callLog(undefined, CATALOG)).toBeUndefined();
  });
});

describe('an A2A call', () => {
  const CALL = {
    requestId: 'made-at-the-edge',
    id: 'r1',
    agent: undefined,
    operation: 'SendMessage',
    request: { value: {} },
    exchange: { forward: {} },
    dialect: '1.0',
  } as unknown as AgentCall;
  const agentGateway = (answer: AgentAnswer | Error, agent?: string) => {
    const pipeline = new Pipeline([observed([callLog(log, CATALOG)])]);
    const target: Target | undefined = agent === undefined ? undefined : { server: agent, kind: 'agent', name: agent };
    const forward = async (): Promise<AgentAnswer> => {
      if (answer instanceof Error) throw answer;
      return answer;
    };
    return {
      handle: async (caller: Caller, call: AgentCall) =>
        pipeline.run(new A2aContext(caller, call, { target, forward }, performance.now())),
    };
  };

  test('writes one line, with the agent that was chosen for it', async () => {
    await agentGateway({ kind: 'result', result: { value: SECRET } }, 'planner').handle(CALLER, CALL);
    expect(lines).toEqual([
      {
        event: 'call',
        protocol: 'a2a',
        requestId: 'made-at-the-edge',
        id: 'r1',
        caller: 'ada',
        client: 'claude-code 2.1',
        method: 'SendMessage',
        agent: 'planner',
        outcome: 'ok',
        ms: expect.any(Number),
        revision: '1.0',
      },
    ]);
  });

  test('that fails contains the reason', async () => {
    const gateway = agentGateway(new ProtocolError('agent_not_found', SECRET));
    await expect(gateway.handle(CALLER, { ...CALL, agent: 'nobody' })).rejects.toThrow();
    expect(lines).toEqual([expect.objectContaining({ agent: 'nobody', outcome: 'error', error: 'agent_not_found' })]);
  });

  test('that is part of another call writes no line', async () => {
    const gateway = agentGateway({ kind: 'result', result: { value: null } }, 'planner');
    await gateway.handle(CALLER, { ...CALL, nested: true });
    expect(lines).toEqual([]);
  });

  async function* events(error?: Error) {
    yield { value: {} };
    yield { value: {} };
    if (error) throw error;
  }

  test.each([
    ['to its end', undefined, 'all', { outcome: 'ok', events: 2 }],
    [
      'until it fails',
      new ProtocolError('upstream_error', SECRET),
      'all',
      { outcome: 'error', error: 'upstream_error', events: 2 },
    ],
    ['in part and then left', undefined, 'one', { outcome: 'left', events: 1 }],
  ] as const)('whose stream is read %s writes its line when the stream is over', async (_, error, read, fields) => {
    const gateway = agentGateway({ kind: 'stream', events: events(error) as never });
    const answer = await gateway.handle(CALLER, CALL);
    expect(lines).toEqual([]);
    try {
      for await (const _ of (answer as AgentAnswer & { kind: 'stream' }).events) if (read === 'one') break;
    } catch (failure) {
      expect(failure).toBe(error);
    }
    expect(lines).toEqual([expect.objectContaining(fields)]);
  });
});
