import { expect, test } from 'vitest';
import { Cancellation } from '../../core/caller.js';
import { complete, type Outcome, type ParkedCall } from '../../core/gateway.js';
import { RawObject } from '../../protocol/jsonrpc/raw.js';
import { HeldCalls } from './held-calls.js';

const sinks = { notify: () => {}, cancellation: new Cancellation() };

function asking(next: Outcome = complete(RawObject.from({}))) {
  const abandoned: string[] = [];
  const parked: ParkedCall = {
    over: new Promise(() => {}),
    resume: () => Promise.resolve(next),
    abandon: (reason) => void abandoned.push(reason),
  };
  const outcome: Outcome = { kind: 'input_required', inputRequests: {}, parked };
  return { outcome, abandoned };
}

test('the requests of held calls are bounded in bytes; the bytes of a call count until the call ends', async () => {
  const held = new HeldCalls(60_000, { count: 100, bytes: 1_000 });
  const again = asking();
  const first = asking(again.outcome);
  const id = String(held.begin(first.outcome, 'b', 600)['parked']);
  const refused = asking();
  expect(held.begin(refused.outcome, 'c', 600)).toMatchObject({
    error: { reason: 'overloaded', detail: { outcome: 'unknown' } },
  });
  expect(refused.abandoned).toHaveLength(1);
  expect(held.settle(id, await held.resume(id, sinks, {}), 'b')).toMatchObject({ kind: 'input_required', parked: id });
  expect(held.begin(asking().outcome, 'c', 600)).toMatchObject({ error: { reason: 'overloaded' } });
  expect(held.settle(id, await held.resume(id, sinks, {}), 'b')).toMatchObject({ kind: 'complete' });
  expect(held.size).toBe(0);
  const next = String(held.begin(asking().outcome, 'c', 600)['parked']);
  held.abandon(next, 'gone');
  held.begin(asking().outcome, 'c', 600);
  held.clear();
  expect(held.begin(asking().outcome, 'c', 600)['parked']).toBeDefined();
  held.clear();
});
