import { expect, test } from 'vitest';
import type { PushTarget, QueuedPush } from '../../core/a2a/push/push-notifications.js';
import { notificationHeaders, SIGNATURE_HEADER, webhookSignature } from './headers-and-signature.js';

test('G-51: signs as defined by standard-webhooks', () => {
  const key = Buffer.from('MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'base64');
  const body = Buffer.from('{"test": 2432232314}');
  expect(webhookSignature(key, 'msg_p5jXN8AQM9LWM0D4loKWxJek', 1_614_265_330, body)).toBe(
    'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  );
});

test('S-52: sends only configured headers', async () => {
  const push = { task: 't1', contentType: 'application/json' } as QueuedPush;
  const target: PushTarget = {
    ...{ url: 'https://hooks.example/a', token: undefined, authorization: undefined, failures: 0 },
    key: Buffer.from('key'),
  };
  const envelope = { id: 'lane.1', attempt: 1, push, body: Buffer.from('{}') };
  const namesOf = (headers: string[]): string[] => headers.filter((_, i) => i % 2 === 0);
  expect(namesOf(await notificationHeaders(envelope, target, 0, undefined))).toEqual([
    'Content-Type',
    'User-Agent',
    'webhook-id',
    'webhook-timestamp',
    'webhook-signature',
  ]);
  const full = { ...target, token: 'tok', authorization: 'Basic abc' };
  const headers = await notificationHeaders(envelope, full, 0, { issuer: 'https://g', sign: async () => 'a.b.c' });
  expect(headers.slice(10)).toEqual([
    ...['X-A2A-Notification-Token', 'tok'],
    ...['Authorization', 'Basic abc'],
    ...[SIGNATURE_HEADER, 'a.b.c'],
  ]);
});
