import { expect, test } from 'vitest';
import type { QueuedPush } from '../../core/a2a/push/push-notifications.js';
import { SILENT } from '../../telemetry/log.js';
import { WebhookSender, type WebhookSenderOptions } from './sender.js';

test('S17: a notification of a revoked key is not sent; its webhook is disabled and a log line says why', async () => {
  const value = { agent: 'planner', owner: 'ada', task: 't1' } as QueuedPush;
  const queued = [{ id: 'n1', lane: 'l', target: 'https://hooks.example', attempt: 1, value }];
  const done: string[] = [];
  const lines: object[] = [];
  let ended = (): void => {};
  const over = new Promise<void>((resolve) => (ended = resolve));
  const sender = new WebhookSender({
    outbox: {
      leaseMs: 60_000,
      claim: async () => queued.splice(0),
      giveUp: async (id: string, why: string) => {
        done.push(`gave up ${id}: ${why}`);
        ended();
      },
    } as unknown as WebhookSenderOptions['outbox'],
    pushes: {
      target: async () => 'revoked',
      disable: async () => void done.push('disabled'),
    } as unknown as WebhookSenderOptions['pushes'],
    client: {
      request: () => {
        throw new Error('sent');
      },
    },
    log: { ...SILENT, warn: (fields) => void lines.push(fields) },
  });
  sender.start();
  await over;
  await sender.close();
  expect(done).toEqual(['disabled', 'gave up n1: the API key that registered the webhook was revoked']);
  expect(lines).toEqual([{ event: 'webhook.ended', agent: 'planner', owner: 'ada', task: 't1', notification: 'n1' }]);
});
