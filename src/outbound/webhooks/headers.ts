import { createHash, createHmac } from 'node:crypto';
import type { PushTarget, QueuedPush } from '../../core/a2a/push/push-notifications.js';

/** Makes a compact JWT of these claims, with a key that the gateway publishes. */
export type SignClaims = (claims: Readonly<Record<string, string | number>>) => Promise<string>;

export interface Signing {
  readonly sign: SignClaims;
  /** The gateway, as receivers know it. */
  readonly issuer: string;
}

/**
 * The gateway's own proof, beside whatever the client configured: a JWT over the body's digest. It has a header to itself,
 * since `Authorization` is the client's.
 */
export const SIGNATURE_HEADER = 'X-A2A-Signature';
const PROOF_SECONDS = 300;

export interface Envelope {
  /** The same at every attempt. */
  readonly id: string;
  readonly attempt: number;
  readonly push: QueuedPush;
  readonly body: Buffer;
}

/** The headers of one attempt: flat name/value pairs. */
export async function notificationHeaders(
  { id, attempt, push, body }: Envelope,
  target: PushTarget,
  now: number,
  signing: Signing | undefined,
): Promise<string[]> {
  const seconds = Math.floor(now / 1_000);
  const headers = [
    ...['Content-Type', push.contentType],
    ...['User-Agent', 'Parley'],
    ...['webhook-id', id],
    ...['webhook-timestamp', String(seconds)],
    ...['webhook-signature', webhookSignature(target.key, id, seconds, body)],
  ];
  if (target.token !== undefined) headers.push('X-A2A-Notification-Token', target.token);
  if (target.authorization !== undefined) headers.push('Authorization', target.authorization);
  if (signing) {
    const proof = await signing.sign({
      iss: signing.issuer,
      aud: new URL(target.url).origin,
      iat: seconds,
      exp: seconds + PROOF_SECONDS,
      // A token is used once; the notification's own id is in `webhook-id`.
      jti: `${id}.${attempt}.${seconds}`,
      taskId: push.task,
      // Named as the first receivers of signed notifications know it, in hexadecimal.
      request_body_sha256: createHash('sha256').update(body).digest('hex'),
    });
    headers.push(SIGNATURE_HEADER, proof);
  }
  return headers;
}

/** As standard-webhooks has it. */
export function webhookSignature(key: Buffer, id: string, seconds: number, body: Buffer): string {
  const mac = createHmac('sha256', key).update(`${id}.${seconds}.`).update(body).digest('base64');
  return `v1,${mac}`;
}
