import { describe, expect, test } from 'vitest';
import type { CallContext, CallResult } from '../core/call.js';
import { ProtocolError } from '../protocol/errors.js';
import { RawObject } from '../protocol/jsonrpc/raw.js';
import { EndedCall } from './observed-calls.js';
import { SampledViolations } from './sampled-violations.js';

const TEXT = { type: 'text', text: 'x' };

function mcpCall(result: object, method = 'tools/call', more: object = {}): EndedCall {
  const context = {
    protocol: 'mcp',
    method,
    target: { kind: 'tool', server: 'weather', name: 't' },
    notes: { forwarded: true },
    began: 0,
    ...more,
  } as unknown as CallContext;
  const raw = RawObject.whole(Buffer.from(JSON.stringify(result)));
  return new EndedCall(context, 'ok', undefined, { kind: 'complete', result: raw } as CallResult, undefined);
}

const agentCall = (value: object): EndedCall => {
  const context = { protocol: 'a2a', method: 'SendMessage', target: { kind: 'agent', server: 'planner' }, began: 0 };
  const result = { kind: 'result', result: { value } } as unknown as CallResult;
  const whole = { ...context, notes: { forwarded: true } } as unknown as CallContext;
  return new EndedCall(whole, 'ok', undefined, result, undefined);
};

function sample(percent: number, calls: readonly EndedCall[]) {
  const counted: string[] = [];
  const sampled = new SampledViolations({ percent, counted: (upstream, kind) => counted.push(`${upstream} ${kind}`) });
  for (const call of calls) sampled.ended(call);
  return { sampled, counted };
}

describe('sampled calls', () => {
  test.each<[string, EndedCall, string | undefined]>([
    ['a correct result', mcpCall({ content: [TEXT] }), undefined],
    ['no content', mcpCall({}), 'content_missing'],
    ['a block without text', mcpCall({ content: [{ type: 'text' }] }), 'content_block_invalid'],
    ['an unknown block', mcpCall({ content: [{ type: 'later' }] }), undefined],
    [
      'no structured content',
      mcpCall({ content: [TEXT] }, 'tools/call', { item: { value: { outputSchema: {} } } }),
      'structured_content_missing',
    ],
    ['contents without uri', mcpCall({ contents: [{ text: 'x' }] }, 'resources/read'), 'resource_contents_invalid'],
    ['a prompt without messages', mcpCall({}, 'prompts/get'), 'prompt_messages_invalid'],
    ['a completion without values', mcpCall({ completion: {} }, 'completion/complete'), 'completion_invalid'],
    ['another method', mcpCall({}, 'x/y'), undefined],
  ])('counts the violation of %s', (_, call, kind) => {
    const { sampled, counted } = sample(100, [call]);
    expect(counted).toEqual(kind === undefined ? [] : [`weather ${kind}`]);
    expect(sampled.counts('weather')).toEqual({ sampled: 1, kinds: kind === undefined ? {} : { [kind]: 1 } });
  });

  test('counts violations in answers of agents', () => {
    const status = { state: 'TASK_STATE_COMPLETED' };
    const { counted } = sample(100, [
      agentCall({ task: { id: 't', status, artifacts: [{ artifactId: 'a', parts: [{ text: 'x' }] }] } }),
      agentCall({ task: { id: 't', status, artifacts: [{ parts: [] }] } }),
      agentCall({ id: 't', status: { state: 'done' } }),
      agentCall({ message: { messageId: 'm', parts: [] } }),
    ]);
    expect(counted).toEqual(['planner artifact_invalid', 'planner task_invalid', 'planner message_invalid']);
  });

  test("counts an answer that could not be read; other failures are not the server's", () => {
    const { context } = mcpCall({});
    const failed = (error: unknown): EndedCall => new EndedCall(context, 'error', error, undefined, undefined);
    const { sampled } = sample(100, [
      failed(new ProtocolError('upstream_invalid', 'no JSON')),
      failed(new ProtocolError('upstream_unavailable', 'away')),
    ]);
    expect(sampled.counts('weather')).toEqual({ sampled: 1, kinds: { invalid_answer: 1 } });
  });

  test('examines the configured part of the calls, and no calls that were not forwarded', () => {
    const calls = Array.from({ length: 100 }, () => mcpCall({}));
    expect(sample(20, calls).sampled.counts('weather')?.sampled).toBe(20);
    expect(sample(1, calls).sampled.counts('weather')?.sampled).toBe(1);
    const refused = mcpCall({}, 'tools/call', { notes: {} });
    expect(sample(100, [refused]).sampled.counts('weather')).toBeUndefined();
  });

  test('counts for a bounded number of servers', () => {
    const calls = Array.from({ length: 1_500 }, (_, i) => mcpCall({}, 'tools/call', { target: { server: `s${i}` } }));
    const { sampled } = sample(100, calls);
    expect(sampled.counts('s999')).toBeDefined();
    expect(sampled.counts('s1000')).toBeUndefined();
  });
});
