import { expect, test } from 'vitest';
import { callerNamed, toolCall } from '../../test/support/callers.js';
import type { ItemTarget } from '../core/admission.js';
import { McpContext, type McpResult } from '../core/call.js';
import type { CallState } from '../core/era-bridge/call-state.js';
import { complete, type Outcome } from '../core/gateway.js';
import { Pipeline } from '../core/pipeline.js';
import { type JsonObject, RawObject } from '../protocol/jsonrpc/raw.js';
import { approval } from './approval.js';

const KEY = 'parley/approval';
const YES = { [KEY]: { action: 'accept', content: { approve: true } } };
const CALLER = callerNamed('ada', { capabilities: { elicitation: { form: {} } } });

/** A gateway with one tool that needs approval; `answers` are the outcomes of its server, in order. */
function gatewayOf(...answers: Outcome[]) {
  const spent = new Set<string>();
  const used = {
    spend: async (id: string) => {
      const first = !spent.has(id);
      spent.add(id);
      return first;
    },
  };
  let runs = 0;
  const pipeline = new Pipeline([approval({ tools: ['*'], destructive: false }, 60_000, used)]);
  const call = async (state?: CallState, inputResponses: JsonObject = {}, server = 'a'): Promise<McpResult> => {
    const target: ItemTarget = { server, kind: 'tool', name: 'wipe' };
    const asked = toolCall({ name: 'wipe', arguments: {}, inputResponses }, state ? { state } : {});
    const forward = async (): Promise<Outcome> => answers[runs++] ?? complete(RawObject.from({ content: [] }));
    return pipeline.run(new McpContext(CALLER, asked, { target, forward }, 0));
  };
  return { call, runs: () => runs };
}

const stateOf = (result: McpResult): CallState => (result as { state: CallState }).state;

test('an approval is for one tool of one server', async () => {
  const { call, runs } = gatewayOf();
  const state = stateOf(await call());
  await expect(call(state, YES, 'b')).rejects.toMatchObject({ reason: 'invalid_state' });
  expect(runs()).toBe(0);
  expect(await call(state, YES)).toMatchObject({ kind: 'complete' });
});

test.each<[string, Outcome]>([
  [
    'whose server asks a question',
    { kind: 'input_required', inputRequests: {}, state: { kind: 'relay', server: 'a', state: 's' } },
  ],
  [
    'that must be repeated',
    { kind: 'input_required', inputRequests: {}, state: { kind: 'again', server: 'a', after: [] } },
  ],
])('a call %s continues once from each of its states', async (_, question) => {
  const { call, runs } = gatewayOf(question);
  const asked = await call(stateOf(await call()), YES);
  expect(asked).toMatchObject({ kind: 'input_required' });
  const state = stateOf(asked);
  expect(await call(state)).toMatchObject({ kind: 'complete' });
  await expect(call(state)).rejects.toMatchObject({ reason: 'invalid_state' });
  expect(runs()).toBe(2);
});

test('a call whose state contains no approval leads to the question', async () => {
  const { call, runs } = gatewayOf();
  const result = await call({ kind: 'relay', server: 'a', state: 'made up' });
  expect(stateOf(result)).toMatchObject({ kind: 'approval', server: 'a', tool: 'wipe' });
  expect(runs()).toBe(0);
});

test.each([
  { action: 'accept' },
  { action: 'accept', content: {} },
  { action: 'accept', content: { approve: 'true' } },
  { action: 'accept', content: { approve: 1 } },
  { action: 'accept', content: [true] },
])('an answer without an accepted "approve: true" is no approval: %j', async (answer) => {
  const { call, runs } = gatewayOf();
  await expect(call(stateOf(await call()), { [KEY]: answer })).rejects.toMatchObject({ reason: 'not_approved' });
  expect(runs()).toBe(0);
});
