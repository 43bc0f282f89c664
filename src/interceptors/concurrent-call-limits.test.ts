import { describe, expect, test } from 'vitest';
import { McpContext, type McpRoute } from '../core/call.js';
import { CallSlots } from '../core/call-slots.js';
import { type Caller, GATEWAY, principalOf } from '../core/caller.js';
import { ALL_SERVERS, complete, type Outcome, plainCall } from '../core/gateway.js';
import { Pipeline } from '../core/pipeline.js';
import { RawObject } from '../protocol/jsonrpc/raw.js';
import { callLimits } from './concurrent-call-limits.js';

const RESULT = complete(RawObject.from({}));
const callerOf = (subject: string): Caller => ({ ...GATEWAY, principal: principalOf({ subject }) });

const contextOf = (caller: Caller, forward: McpRoute['forward'], nested = false): McpContext => {
  const call = {
    ...plainCall('tools/call', RawObject.from({}), ALL_SERVERS),
    ...(nested && { nested: true as const }),
  };
  return new McpContext(caller, call, { target: { server: 'a', kind: 'tool', name: 'b' }, forward }, 0);
};

const pipeline = () =>
  new Pipeline([
    callLimits(new CallSlots({ bytes: 1e9, bytesPerCaller: 1e9, perCaller: 1, perSession: undefined, perServer: 2 })),
  ]);

describe('calls in flight', () => {
  test('are refused beyond a limit and not forwarded; the end of a call frees its slot, on success and failure', async () => {
    const one = pipeline();
    let end = (_: Outcome): void => {};
    const held = new Promise<Outcome>((resolve) => {
      end = resolve;
    });
    const first = one.run(contextOf(callerOf('ada'), () => held));
    let forwarded = 0;
    const counting = async (): Promise<Outcome> => {
      forwarded++;
      return RESULT;
    };
    expect(() => one.run(contextOf(callerOf('ada'), counting))).toThrow('Too many of your calls are under way');
    expect(forwarded).toBe(0);
    await one.run(contextOf(callerOf('bob'), counting));
    end(RESULT);
    await first;
    await expect(one.run(contextOf(callerOf('ada'), () => Promise.reject(new Error('broken'))))).rejects.toThrow(
      'broken',
    );
    const thrown = contextOf(callerOf('ada'), () => {
      throw new Error('thrown');
    });
    expect(() => one.run(thrown)).toThrow('thrown');
    expect(await one.run(contextOf(callerOf('ada'), counting))).toBe(RESULT);
  });

  test("of a tool that an agent's message causes count for the tool's server only", async () => {
    const one = pipeline();
    const never = (): Promise<Outcome> => new Promise(() => {});
    void one.run(contextOf(callerOf('ada'), never));
    expect(await one.run(contextOf(callerOf('ada'), async () => RESULT, true))).toBe(RESULT);
    void one.run(contextOf(callerOf('ada'), never, true));
    expect(() => one.run(contextOf(callerOf('ada'), never, true))).toThrow('Too many calls to "a" are under way');
  });

  test('of one server are bounded over all callers, and the gateway itself is never refused', async () => {
    const one = pipeline();
    const never = (): Promise<Outcome> => new Promise(() => {});
    void one.run(contextOf(callerOf('ada'), never));
    void one.run(contextOf(callerOf('bob'), never));
    expect(() => one.run(contextOf(callerOf('eve'), never))).toThrow('Too many calls to "a" are under way');
    expect(await one.run(contextOf(GATEWAY, async () => RESULT))).toBe(RESULT);
  });
});
