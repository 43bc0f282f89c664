import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, expect, it } from 'vitest';
import { type LooseServer, type Posted, sendJson, startLoose } from '../../../test/support/counting-server.js';
import { Cancellation, GATEWAY } from '../../core/caller.js';
import type { Outcome } from '../../core/gateway.js';
import type { UpstreamCall } from '../../core/upstream.js';
import { NEWEST } from '../../protocol/mcp/revisions/index.js';
import { httpTarget } from '../http/index.js';
import { gatewayCall } from './gateway-call.js';
import { ModernHttp } from './modern-http.js';
import { ModernPeer } from './modern-peer.js';

let server: LooseServer | undefined;
const cancellation = { current: new Cancellation() };
afterEach(async () => {
  cancellation.current.cancel();
  await server?.close();
});

const LONG = { call: 3_600_000, callMax: 3_600_000 };
const patiently = { timeout: 20_000 };

interface Following {
  readonly heard: string[];
  readonly outcome: Promise<Outcome>;
}

/** Follows a task that never ends. */
async function follow(
  { pollIntervalMs, silent = false }: { pollIntervalMs: unknown; silent?: boolean },
  timeouts: NonNullable<UpstreamCall['timeouts']> = LONG,
): Promise<Following> {
  const heard: string[] = [];
  const at = '2026-01-01T00:00:00Z';
  const task = { taskId: 'k', status: 'working', createdAt: at, lastUpdatedAt: at, ttlMs: null, pollIntervalMs };
  server = await startLoose(({ id, method }: Posted, res) => {
    heard.push(method!);
    if (method === 'tasks/get' && silent) return;
    const resultType = method === 'tools/call' ? 'task' : 'complete';
    sendJson(res, { jsonrpc: '2.0', id, result: { resultType, ...task } });
  });
  const peer = new ModernPeer(new ModernHttp(server.context(), httpTarget(server.url), NEWEST));
  cancellation.current = new Cancellation();
  const call = gatewayCall('tools/call', { name: 'slow' });
  const outcome = peer.request(GATEWAY, {
    ...call,
    tasks: 'follow',
    cancellation: cancellation.current,
    timeouts,
  });
  await expect.poll(() => heard, patiently).toContain('tasks/get');
  return { heard, outcome };
}

const looks = ({ heard }: Following): number => heard.filter((method) => method === 'tasks/get').length;

it.each([3_000_000_000, 0, 'soon'])('limits the poll interval %s of a server', async (pollIntervalMs) => {
  const following = await follow({ pollIntervalMs });
  await sleep(1_000);
  expect(looks(following)).toBeLessThanOrEqual(100);
});

it('gives up when the time of the call is over, and cancels the task', async () => {
  const following = await follow({ pollIntervalMs: 30_000 }, { call: 2_000, callMax: 2_000 });
  expect(await following.outcome).toMatchObject({ kind: 'error', error: { reason: 'upstream_timeout' } });
  await expect.poll(() => following.heard, patiently).toContain('tasks/cancel');
});

it.each([
  ['between two polls', false],
  ['during a poll', true],
])('handles a cancellation %s', async (_, silent) => {
  const following = await follow({ pollIntervalMs: 30_000, silent });
  await sleep(100);
  cancellation.current.cancel();
  expect(await following.outcome).toMatchObject({ kind: 'error', error: { reason: 'cancelled' } });
  await expect.poll(() => following.heard, patiently).toContain('tasks/cancel');
  expect(looks(following)).toBe(1);
});

it('says that a started task may have run when its server can no longer be reached', async () => {
  const following = await follow({ pollIntervalMs: 300 });
  await server!.close();
  expect(await following.outcome).toMatchObject({
    kind: 'error',
    error: { reason: 'upstream_unavailable', detail: { outcome: 'unknown' } },
  });
});
