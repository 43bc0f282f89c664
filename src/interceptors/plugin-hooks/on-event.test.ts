import { describe, expect, it } from 'vitest';
import type { Events } from '../../core/a2a/agent.js';
import { ActivePlugin } from '../../plugins/active-plugin.js';
import type { JsonObject, Plugin } from '../../plugins/api.js';
import type { CallView, HookCall } from '../../plugins/call-view.js';
import { Scope } from '../../plugins/scope.js';
import { REDACTION_KINDS, redaction } from '../../plugins/shipped/redaction.js';
import type { StreamResponse } from '../../protocol/a2a/model.js';
import type { Notification } from '../../protocol/mcp/model.js';
import { SILENT } from '../../telemetry/log.js';
import { NotificationChain, passedEvents, pushedEvents } from './on-event.js';

const VIEW = { forHook: () => ({ protocol: 'a2a', end: () => {} }) as unknown as HookCall } as CallView;

const active = (
  plugin: Plugin,
  onFailure: 'closed' | 'open' = 'closed',
  servers: readonly string[] = [],
): ActivePlugin =>
  new ActivePlugin({
    ...{ name: 'it', plugin, onFailure, timeout: 200, blockLimit: 1_000, log: SILENT },
    scope: new Scope({ servers, tools: [], methods: [] }),
  });
const hearing = (onEvent: Plugin['onEvent']): Plugin => ({ apiVersion: 1, ...(onEvent && { onEvent }) });
const progress = (step: number): Notification => ({
  method: 'notifications/progress',
  params: { progressToken: 't', progress: step },
});

describe('notifications of a call', () => {
  function chained(plugin: ActivePlugin) {
    const told: unknown[] = [];
    const chain = new NotificationChain([plugin], VIEW, ({ params }) => void told.push(params['progress']));
    return { chain, told };
  }

  it('keep their order, even if a hook is slow', async () => {
    const slow = hearing(async (_call, event) => {
      const { progress: step } = event['params'] as { progress: number };
      await new Promise((resolve) => setImmediate(resolve));
      return step === 2 ? { drop: true } : undefined;
    });
    const { chain, told } = chained(active(slow));
    for (const step of [1, 2, 3]) chain.push(progress(step));
    await chain.passed();
    expect(told).toEqual([1, 3]);
  });

  it('are dropped after one time limit if a closed plugin hangs', async () => {
    const { chain, told } = chained(active(hearing(() => new Promise(() => {}))));
    for (let step = 0; step < 50; step++) chain.push(progress(step));
    await chain.passed();
    expect(told).toEqual([]);
  });

  it('pass an open plugin that hangs, after a few time limits', async () => {
    let asked = 0;
    const hanging = hearing(() => {
      asked += 1;
      return new Promise(() => {});
    });
    const { chain, told } = chained(active(hanging, 'open'));
    for (let step = 0; step < 50; step++) chain.push(progress(step));
    await chain.passed();
    expect(told).toHaveLength(50);
    expect(asked).toBe(3);
    // The plugin is asked again for another call.
    const other = chained(active(hanging, 'open'));
    other.chain.push(progress(1));
    await other.chain.passed();
    expect(asked).toBe(4);
  });

  it('are bounded in number while they wait', async () => {
    const { chain, told } = chained(active(hearing(async () => undefined)));
    for (let step = 0; step < 10_000; step++) chain.push(progress(step));
    await chain.passed();
    expect(told).toHaveLength(100);
  });

  it('are dropped if a plugin changes their kind or their progress token', async () => {
    const forged = hearing(() => ({ event: { method: 'notifications/progress', params: { progressToken: 'other' } } }));
    const { chain, told } = chained(active(forged));
    chain.push(progress(1));
    await chain.passed();
    expect(told).toEqual([]);
  });
});

describe('events of a stream', () => {
  const said = (text: string): StreamResponse => ({
    message: { messageId: 'm', role: 'ROLE_AGENT', parts: [{ text }] },
  });
  const of = (...events: StreamResponse[]): Events =>
    (async function* () {
      for (const value of events) yield { value, text: JSON.stringify(value) };
    })();
  const read = async (events: Events) => {
    const found = [];
    for await (const event of events) found.push(event);
    return found;
  };

  it('keep their original bytes if no plugin changes them, and are written anew if a plugin does', async () => {
    const plugin = active(redaction({ kinds: REDACTION_KINDS, patterns: [] }));
    const [plain, changed] = await read(passedEvents([plugin], VIEW, of(said('hello'), said('to a@b.example'))));
    expect(plain).toHaveProperty('text');
    expect(changed).toEqual({ value: said('to [redacted:email]') });
  });

  it('end with an error if a closed plugin fails, and close the stream of the agent', async () => {
    let closed = false;
    const endless: Events = (async function* () {
      try {
        for (;;) yield { value: said('again') };
      } finally {
        closed = true;
      }
    })();
    const failing = hearing(() => {
      throw new Error('no');
    });
    await expect(read(passedEvents([active(failing)], VIEW, endless))).rejects.toMatchObject({
      reason: 'plugin_failed',
    });
    expect(closed).toBe(true);
  });

  it('cannot lose the event that ends the task', async () => {
    const dropping = hearing(() => ({ drop: true }));
    await expect(read(passedEvents([active(dropping)], VIEW, of(said('last'))))).rejects.toMatchObject({
      data: { problem: 'invalid' },
    });
  });
});

describe('push notifications', () => {
  const key = { agent: 'helper', owner: 'ada', id: 't1' };
  const event = {
    artifactUpdate: { taskId: 't1', contextId: 'c', artifact: { artifactId: 'a', parts: [{ text: 'a@b.example' }] } },
  } as unknown as StreamResponse;

  it('pass the plugins of their agent', async () => {
    const plugin = redaction({ kinds: REDACTION_KINDS, patterns: [] });
    const shown = await pushedEvents([active(plugin, 'closed', ['helper'])])?.(key, event);
    expect(JSON.stringify(shown)).toContain('[redacted:email]');
    expect(await pushedEvents([active(plugin, 'closed', ['other'])])?.(key, event)).toBe(event);
    expect(pushedEvents([active({ apiVersion: 1, onRequest: () => undefined })])).toBeUndefined();
  });

  it('are not sent if a closed plugin fails', async () => {
    const seen: (JsonObject | string)[] = [];
    const failing = hearing(({ caller }) => {
      seen.push(caller.key);
      throw new Error('no');
    });
    expect(await pushedEvents([active(failing)])?.(key, event)).toBeUndefined();
    expect(await pushedEvents([active(failing, 'open')])?.(key, event)).toEqual(event);
    expect(seen).toEqual(['ada', 'ada']);
  });
});
