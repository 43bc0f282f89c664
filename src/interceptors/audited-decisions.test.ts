/** The audit record of a call names the rule that decided, whichever step of the pipeline decided (S24). */
import { expect, test } from 'vitest';
import { callerNamed, toolCall } from '../../test/support/callers.js';
import { allAdmissions, type ItemTarget } from '../core/admission.js';
import { type AuditRecord, type AuditTrail, NO_AUDIT } from '../core/audit-trail.js';
import { McpContext, type McpResult } from '../core/call.js';
import { type Caller, principalOf } from '../core/caller.js';
import type { CallState } from '../core/era-bridge/call-state.js';
import { complete } from '../core/gateway.js';
import { Pipeline } from '../core/pipeline.js';
import { PolicyAdmission } from '../identity/policy/policy-admission.js';
import { RestrictionAdmission } from '../identity/restrictions.js';
import { ScopeAdmission } from '../identity/scope-admission.js';
import type { JsonObject } from '../protocol/jsonrpc/raw.js';
import { RawObject } from '../protocol/jsonrpc/raw.js';
import { SILENT } from '../telemetry/log.js';
import { admitting } from './admission.js';
import { approval } from './approval.js';
import { callAudit } from './audit.js';

const RULES = [
  { name: 'no-secrets', effect: 'deny', when: 'tool == "read" && arguments.path == "/secret"' },
  { name: 'ask-for-wipe', effect: 'approve', when: 'tool == "wipe"' },
  { name: 'everybody-reads', effect: 'allow', when: 'tool in ["read", "list"]' },
] as const;

function gatewayOf() {
  const records: AuditRecord[] = [];
  const trail: AuditTrail = { ...NO_AUDIT, record: (record) => void records.push(record) };
  const settings = { rules: RULES, mode: 'enforce', proposed: [] } as const;
  const policy = new PolicyAdmission({ settings, log: SILENT, someItem: () => true });
  const scopes = [{ scope: 'lists', servers: [], tools: ['files__list'], includes: [] }];
  const admission = allAdmissions([new RestrictionAdmission(), new ScopeAdmission(scopes, () => 'Bearer'), policy]);
  const approving = approval(
    { tools: ['*list'], destructive: false, required: (context) => policy.approvalRule(context) },
    60_000,
    { spend: async () => true },
  );
  const pipeline = new Pipeline([
    callAudit({ trail, hash: undefined, excludes: () => false }),
    admitting(admission),
    approving,
  ]);
  const call = async (
    caller: Caller,
    name: string,
    { args = {}, state, answers = {} }: { args?: JsonObject; state?: CallState; answers?: JsonObject } = {},
  ): Promise<McpResult | undefined> => {
    const target: ItemTarget = { server: 'files', kind: 'tool', name };
    const params = { name: `files__${name}`, arguments: args, inputResponses: answers };
    const forward = async (): Promise<McpResult> => complete(RawObject.from({ content: [] }));
    const context = new McpContext(caller, toolCall(params, state ? { state } : {}), { target, forward }, 0);
    try {
      return await pipeline.run(context);
    } catch {
      return undefined;
    }
  };
  return { call, records };
}

const ASKABLE = { capabilities: { elicitation: { form: {} } } };
const ADA = callerNamed('ada', ASKABLE);
const callerWith = (identity: object): Caller => ({ ...ADA, principal: principalOf({ subject: 'ada', ...identity }) });

test.each([
  [
    'an allowed call',
    ADA,
    'read',
    { path: '/public' },
    { decision: 'allowed', rule: 'everybody-reads', outcome: 'ok' },
  ],
  [
    'a denied call',
    ADA,
    'read',
    { path: '/secret' },
    { decision: 'denied', rule: 'no-secrets', reason: 'policy_denied', outcome: 'error' },
  ],
  [
    'a hidden tool',
    ADA,
    'unknown',
    {},
    { decision: 'denied', rule: '(no rule matches)', reason: 'tool_not_found', outcome: 'error' },
  ],
  [
    'a call outside of the restriction of its key',
    callerWith({ restriction: { servers: ['other'], tools: [] } }),
    'read',
    {},
    { decision: 'denied', rule: 'restriction of the credential' },
  ],
  [
    'a call without a scope',
    callerWith({ credential: { kind: 'jwt', id: '1' }, scopes: ['mcp'] }),
    'list',
    {},
    { decision: 'denied', rule: 'scope lists', reason: 'forbidden' },
  ],
  [
    'a client that cannot ask',
    callerNamed('ada'),
    'wipe',
    {},
    { decision: 'denied', rule: 'ask-for-wipe', reason: 'not_approved' },
  ],
] as const)('S24: the record of %s names the rule', async (_, caller, name, args, expected) => {
  const { call, records } = gatewayOf();
  await call(caller, name, { args });
  expect(records).toEqual([expect.objectContaining(expected)]);
});

test.each([
  ['wipe', 'ask-for-wipe'],
  ['list', 'policy.approve'],
])('S24: the records of %s name the rule that required the approval and the person who decided', async (name, rule) => {
  const { call, records } = gatewayOf();
  const answered = (content: JsonObject): JsonObject => ({ 'parley/approval': { action: 'accept', content } });
  const { state } = (await call(ADA, name)) as { state: CallState };
  await call(ADA, name, { state, answers: answered({ approve: true }) });
  await call(ADA, name, { state, answers: answered({ approve: false }) });
  expect(records).toEqual([
    expect.objectContaining({ decision: 'asked', rule, outcome: 'input_required' }),
    expect.objectContaining({ decision: 'approved', rule, by: 'ada', outcome: 'ok' }),
    expect.objectContaining({ decision: 'denied', rule, by: 'ada', reason: 'not_approved' }),
  ]);
  expect(records[0]).not.toHaveProperty('by', 'ada');
});
