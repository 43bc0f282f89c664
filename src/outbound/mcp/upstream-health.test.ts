import { expect, test } from 'vitest';
import { Cancellation, GATEWAY } from '../../core/caller.js';
import type { UpstreamCall } from '../../core/upstream.js';
import { ProtocolError } from '../../protocol/errors.js';
import { RawObject } from '../../protocol/jsonrpc/raw.js';
import { NEWEST } from '../../protocol/mcp/revisions/index.js';
import { revisionSetting } from '../../protocol/mcp/server-version.js';
import { SILENT } from '../../telemetry/log.js';
import { McpUpstream } from './mcp-upstream.js';
import type { Link } from './peer.js';

const call = (): UpstreamCall => ({
  method: 'tools/call',
  params: RawObject.from({}),
  wantsProgress: false,
  logLevel: undefined,
  cancellation: new Cancellation(),
  tasks: 'none',
  mirrored: [],
  notify: () => {},
});

test('S0-55: calls to an unreachable server are refused at once until a probe reaches the server', async () => {
  let away = true;
  let contacts = 0;
  let answers = 0;
  const reach = (): void => {
    contacts++;
    if (away) throw new ProtocolError('upstream_unavailable', 'Server "one" is unavailable: connection refused');
    answers++;
  };
  const link = {
    watchCosts: false,
    get answers() {
      return answers;
    },
    overhear: () => {},
    health: () => ({}),
    probe: async () => {
      reach();
      return { kind: 'modern', revision: NEWEST };
    },
    modern: () => ({
      request: async () => {
        reach();
        throw new Error('unreachable');
      },
    }),
  } as unknown as Link;
  const upstream = new McpUpstream({
    name: 'one',
    link,
    setting: revisionSetting('auto'),
    memory: { recall: () => undefined, remember: () => {} },
    breaker: { failures: 1, pause: 60_000 },
    log: SILENT,
  });
  const first = await upstream.request(GATEWAY, call());
  expect(first).toMatchObject({ kind: 'error', error: { reason: 'upstream_unavailable' } });
  expect(upstream.health()).toMatchObject({ status: 'down', breaker: { state: 'open' } });
  const before = contacts;
  const refused = await upstream.request(GATEWAY, call());
  expect(refused).toMatchObject({
    error: {
      reason: 'upstream_unavailable',
      message: expect.stringContaining('connection refused'),
      data: { server: 'one', breaker: 'open', nextTrialMs: expect.any(Number), outcome: 'not_executed' },
    },
  });
  expect(contacts).toBe(before);
  away = false;
  await upstream.checkHealth();
  expect(upstream.health()).toMatchObject({ status: 'up', probed: { took: expect.any(Number) } });
  expect(upstream.health().breaker).toBeUndefined();
  await upstream.checkHealth();
  // A server that just answered is not probed.
  expect(contacts).toBe(before + 1);
  // With an interval that is shorter than the time for which an answer counts, each probe still contacts the server.
  away = true;
  await upstream.checkHealth(0);
  expect(upstream.health()).toMatchObject({ status: 'down', detail: expect.stringContaining('connection refused') });
});
