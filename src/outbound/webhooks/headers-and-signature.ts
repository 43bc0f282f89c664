import { createHash, createHmac } from 'node:crypto';
import type { PushTarget, QueuedPush } from '../../core/a2a/push/push-notifications.js';

/** Signs a compact JWT with these claims. The gateway publishes the key. */
export type SignClaims = (claims: Readonly<Record<string, string | number>>) => Promise<string>;

export interface Signing {
  readonly sign: SignClaims;
  /** The issuer name of the gateway. */
  readonly issuer: string;
}

/**
 * The header with the gateway's signature: a JWT over the digest of the body. It is a separate header, because
 * `Authorization` holds the credentials that the client configured.
 */
export const SIGNATURE_HEADER = 'X-A2A-Signature';
const PROOF_SECONDS = 300;

export interface Envelope {
  /** The id of the notification, the same for all attempts. */
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
      // Unique for each attempt. The id of the notification is in `webhook-id`.
      jti: `${id}.${attempt}.${seconds}`,
      taskId: push.task,
      // Existing receivers of signed notifications expect this name and the hexadecimal format.
      request_body_sha256: createHash('sha256').update(body).digest('hex'),
    });
    headers.push(SIGNATURE_HEADER, proof);
  }
  return headers;
}

/** The signature as defined by standard-webhooks. */
export function webhookSignature(key: Buffer, id: string, seconds: number, body: Buffer): string {
  const mac = createHmac('sha256', key).update(`${id}.${seconds}.`).update(body).digest('base64');
  return `v1,${mac}`;
}
