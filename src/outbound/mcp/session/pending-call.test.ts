import { expect, it } from 'vitest';
import { Cancellation, GATEWAY } from '../../../core/caller.js';
import { complete, type Outcome, type ParkedCall } from '../../../core/gateway.js';
import { RawObject } from '../../../protocol/jsonrpc/raw.js';
import { gatewayCall } from '../gateway-call.js';
import { SERVER_TRAFFIC_LIMITS, ServerTraffic } from '../server-traffic-limits.js';
import { PendingCall, type PendingHost } from './pending-call.js';

const sink = () => ({ notify: () => {}, cancellation: new Cancellation() });

/** A parked call whose server answers before the client has answered the server's question. */
async function answeredWhileParked(traffic: ServerTraffic, bytes: number): Promise<ParkedCall> {
  const host = {
    server: { name: 'old' },
    traffic,
    timeouts: { call: 60_000, callMax: 60_000 },
    replies: { answer: () => {}, refuse: () => {} },
    cancelUpstream: () => {},
    forget: () => {},
    portable: () => undefined,
  } satisfies PendingHost;
  const asked = await new Promise<Outcome>((resolve) => {
    const call = new PendingCall(host, GATEWAY, gatewayCall('tools/call'), resolve);
    const release = call.room(10)!;
    call.ask(1, { method: 'roots/list' }, release);
    setTimeout(() => call.finish(complete(RawObject.from({ text: 'x'.repeat(bytes) }))), 50);
  });
  if (asked.kind !== 'input_required' || !asked.parked) throw new Error('the call did not park');
  await asked.parked.over;
  return asked.parked;
}

it('keeps answers to parked calls up to a limit in bytes', async () => {
  const traffic = new ServerTraffic({ ...SERVER_TRAFFIC_LIMITS, keptAnswers: { count: 100, bytes: 1_000 } });
  const calls = await Promise.all([400, 400, 400].map((bytes) => answeredWhileParked(traffic, bytes)));
  const outcomes = await Promise.all(calls.map((call) => call.resume(sink(), {})));
  expect(outcomes.map(({ kind }) => kind).sort()).toEqual(['complete', 'complete', 'error']);
  expect(outcomes.find(({ kind }) => kind === 'error')).toMatchObject({
    error: { reason: 'overloaded', detail: { outcome: 'unknown', data: { server: 'old' } } },
  });
  // Fetched and abandoned answers free their room.
  const [next] = await Promise.all([answeredWhileParked(traffic, 900)]);
  next!.abandon('expired');
  const last = await answeredWhileParked(traffic, 900);
  expect(await last.resume(sink(), {})).toMatchObject({ kind: 'complete' });
});
