import { expect, test } from 'vitest';
import { callerNamed, toolCall } from '../../test/support/callers.js';
import type { AgentAnswer, AgentCall } from '../core/a2a/gateway.js';
import type { Target } from '../core/admission.js';
import type { AuditRecord, AuditTrail } from '../core/audit-trail.js';
import { A2aContext, type CallContext, McpContext, type McpResult } from '../core/call.js';
import { Cancellation, GATEWAY, principalOf } from '../core/caller.js';
import { complete, failed } from '../core/gateway.js';
import { type Interceptor, Pipeline } from '../core/pipeline.js';
import { ProtocolError, UpstreamRpcError } from '../protocol/errors.js';
import { RawObject } from '../protocol/jsonrpc/raw.js';
import { callAudit } from './audit.js';

const SECRET = 'hunter2';
const TRACE = '0af7651916cd43dd8448eb211c80319c';
const PARAMS = {
  name: 'units__convert',
  arguments: { password: SECRET },
  _meta: { traceparent: `00-${TRACE}-b7ad6b7169203331-01`, secret: SECRET },
};
const CONVERT: Target = { server: 'units', kind: 'tool', name: 'convert' };
const OK = complete(RawObject.from({ content: [SECRET] }));
const ADA = callerNamed('ada', { clientInfo: { name: SECRET, version: SECRET } });

function trailOf(options: Partial<AuditTrail> = {}) {
  const records: AuditRecord[] = [];
  const trail: AuditTrail = {
    closed: false,
    record: (record) => void records.push(record),
    before: () => undefined,
    change: async (_, work) => work(),
    status: () => ({ lost: 0, waiting: 0 }),
    ...options,
  };
  const hashed: string[] = [];
  const hash = (text: Buffer | string): string => {
    hashed.push(text.toString());
    return 'k1:00';
  };
  return { trail, records, hash, hashed };
}

function pipelineOf(audit: ReturnType<typeof trailOf>, steps: readonly Interceptor[] = [], exclude: string[] = []) {
  const { trail, hash } = audit;
  return new Pipeline([callAudit({ trail, hash, excludes: (method) => exclude.includes(method) }), ...steps]);
}

const mcp = (answer: McpResult | Error, target: Target | undefined = CONVERT): McpContext => {
  const forward = async (): Promise<McpResult> => {
    if (answer instanceof Error) throw answer;
    return answer;
  };
  const call = { ...toolCall(PARAMS), address: '192.0.2.1' };
  return new McpContext(ADA, call, { target, forward }, performance.now());
};

test('S24: a call is one record: who, what, target, argument hash, decision, outcome, trace id', async () => {
  const audit = trailOf();
  await pipelineOf(audit).run(mcp(OK));
  expect(audit.records).toEqual([
    {
      kind: 'call',
      protocol: 'mcp',
      method: 'tools/call',
      caller: 'ada',
      issuer: 'parley',
      address: '192.0.2.1',
      server: 'units',
      target: 'tool',
      name: 'convert',
      arguments: 'k1:00',
      decision: 'allowed',
      outcome: 'ok',
      ms: expect.any(Number),
      trace: TRACE,
      requestId: 'made-at-the-edge',
    },
  ]);
  // The bytes that the client sent, not parsed.
  expect(audit.hashed).toEqual([JSON.stringify(PARAMS.arguments)]);
  expect(JSON.stringify(audit.records)).not.toContain(SECRET);
});

const refuse =
  (error: ProtocolError, set?: (context: CallContext) => void): Interceptor =>
  (context) => {
    set?.(context);
    throw error;
  };

test.each<[string, McpResult | Error, Interceptor[], object]>([
  [
    'fails at its server',
    failed(new UpstreamRpcError(-32050, SECRET, SECRET)),
    [],
    { decision: 'allowed', outcome: 'error', reason: -32050 },
  ],
  ['fails in the gateway', new Error(SECRET), [], { decision: 'allowed', outcome: 'error', reason: 'internal' }],
  [
    'is refused by a step',
    OK,
    [refuse(new ProtocolError('rate_limited', SECRET))],
    { decision: 'denied', rule: 'rate_limited', outcome: 'error', reason: 'rate_limited' },
  ],
  [
    'is refused by a rule',
    OK,
    [
      refuse(
        new ProtocolError('tool_not_found', SECRET),
        ({ notes }) => (notes.decision = { decision: 'denied', rule: 'no-delete' }),
      ),
    ],
    { decision: 'denied', rule: 'no-delete', reason: 'tool_not_found' },
  ],
  [
    'is allowed by a rule and refused by a limit',
    OK,
    [
      refuse(
        new ProtocolError('rate_limited', ''),
        ({ notes }) => (notes.decision = { decision: 'allowed', rule: 'r1' }),
      ),
    ],
    { decision: 'denied', rule: 'rate_limited' },
  ],
  [
    'is approved',
    OK,
    [
      (context, next) => {
        context.notes.decision = { decision: 'approved', rule: 'policy.approve', by: 'eve' };
        return next(context);
      },
    ],
    { decision: 'approved', rule: 'policy.approve', by: 'eve', outcome: 'ok' },
  ],
  [
    'has to be approved first',
    OK,
    [() => ({ kind: 'input_required', inputRequests: {} })],
    { decision: 'asked', outcome: 'input_required' },
  ],
])('a call that %s', async (_, answer, steps, expected) => {
  const audit = trailOf();
  await Promise.resolve()
    .then(() => pipelineOf(audit, steps).run(mcp(answer)))
    .catch(() => {});
  expect(audit.records).toHaveLength(1);
  expect(audit.records[0]).toMatchObject(expected);
  expect(JSON.stringify(audit.records)).not.toContain(SECRET);
});

test('a step that changes the parameters keeps the recorded decision', async () => {
  const audit = trailOf();
  const step: Interceptor = (context, next) =>
    next(context.protocol === 'mcp' ? context.withParams(RawObject.from({})) : context);
  await pipelineOf(audit, [step]).run(mcp(OK));
  expect(audit.records[0]).toMatchObject({ decision: 'allowed' });
});

test('an unknown target is a refusal with the requested name', async () => {
  const audit = trailOf();
  const context = mcp(new ProtocolError('tool_not_found', ''));
  const unresolved = new McpContext(ADA, context.call, { target: undefined, forward: context.route.forward }, 0);
  await expect(pipelineOf(audit).run(unresolved)).rejects.toThrow();
  expect(audit.records[0]).toMatchObject({
    decision: 'denied',
    rule: 'tool_not_found',
    target: 'tool',
    name: 'units__convert',
  });
});

test('S24: the recorded URI of a resource has no query and no user name', async () => {
  const audit = trailOf();
  await pipelineOf(audit).run(
    mcp(OK, { server: 's', kind: 'resource', name: `https://u:${SECRET}@h/p?key=${SECRET}` }),
  );
  expect(audit.records[0]).toMatchObject({ name: 'https://h/p' });
});

test('an excluded method is recorded only if it is refused', async () => {
  const audit = trailOf();
  await pipelineOf(audit, [], ['tools/call']).run(mcp(OK));
  expect(audit.records).toEqual([]);
  const refused = pipelineOf(audit, [refuse(new ProtocolError('forbidden', ''))], ['tools/call']);
  expect(() => refused.run(mcp(OK))).toThrow();
  expect(audit.records).toHaveLength(1);
});

test('requests of the gateway itself are not recorded', async () => {
  const audit = trailOf();
  const { call, route } = mcp(OK);
  await pipelineOf(audit).run(new McpContext(GATEWAY, call, route, 0));
  expect(audit.records).toEqual([]);
});

test('closed: the intent is stored before the call is forwarded', async () => {
  const order: string[] = [];
  let store = (): void => {};
  const audit = trailOf({
    closed: true,
    before: (record) => {
      order.push(`${(record as { phase?: string }).phase}`);
      return new Promise((resolve) => (store = resolve));
    },
    record: () => void order.push('outcome'),
  });
  const running = pipelineOf(audit, [
    (context, next) => {
      order.push('call');
      return next(context);
    },
  ]).run(mcp(OK));
  await Promise.resolve();
  expect(order).toEqual(['intent']);
  store();
  await running;
  expect(order).toEqual(['intent', 'call', 'outcome']);
});

test('closed: a call whose intent cannot be stored is not forwarded', async () => {
  const refusal = new ProtocolError('audit_unavailable', '');
  const audit = trailOf({ closed: true, before: () => Promise.reject(refusal) });
  let called = false;
  const step: Interceptor = (context, next) => {
    called = true;
    return next(context);
  };
  await expect(pipelineOf(audit, [step]).run(mcp(OK))).rejects.toBe(refusal);
  expect(called).toBe(false);
});

const a2a = (answer: AgentAnswer, more: Partial<AgentCall> = {}): A2aContext => {
  const call: AgentCall = {
    requestId: 'r',
    agent: 'echo',
    operation: 'SendMessage',
    request: { value: { message: SECRET }, text: `{"message":"${SECRET}"}` },
    dialect: '1.0' as AgentCall['dialect'],
    exchange: {
      cancellation: new Cancellation(),
      extensions: [],
      forward: { traceparent: `00-${TRACE}-b7ad6b7169203331-01` },
    },
    ...more,
  };
  const caller = callerNamed('ada', {
    principal: principalOf({ issuer: 'https://i', subject: 'ada', roles: ['r'], tenant: 't' }),
  });
  const target: Target = { server: 'echo', kind: 'agent', name: 'echo' };
  return new A2aContext(caller, call, { target, forward: async () => answer }, performance.now());
};

test('an A2A call is recorded with issuer, tenant and roles; its hash is over the bytes of the message', async () => {
  const audit = trailOf();
  await pipelineOf(audit).run(a2a({ kind: 'result', result: { value: SECRET } }));
  expect(audit.records).toEqual([
    expect.objectContaining({
      ...{ kind: 'call', protocol: 'a2a', method: 'SendMessage', caller: '~t#https://i#ada', issuer: 'https://i' },
      ...{
        tenant: 't',
        roles: ['r'],
        server: 'echo',
        target: 'agent',
        decision: 'allowed',
        outcome: 'ok',
        trace: TRACE,
      },
    }),
  ]);
  expect(audit.hashed).toEqual([`{"message":"${SECRET}"}`]);
  expect(JSON.stringify(audit.records)).not.toContain(SECRET);
});

test('a stream is recorded when it has ended', async () => {
  const audit = trailOf();
  const events = (async function* () {
    yield { value: {} as never };
  })();
  const answer = await pipelineOf(audit).run(a2a({ kind: 'stream', events }));
  expect(audit.records).toEqual([]);
  for await (const _ of (answer as Extract<AgentAnswer, { kind: 'stream' }>).events);
  expect(audit.records).toMatchObject([{ outcome: 'ok' }]);
});

test('a message that is part of another call has no record of its own', async () => {
  const audit = trailOf();
  await pipelineOf(audit).run(a2a({ kind: 'result', result: { value: 1 } }, { nested: true }));
  expect(audit.records).toEqual([]);
});
