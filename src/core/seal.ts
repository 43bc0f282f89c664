/**
 * Opaque values that clients hold and return: session ids, cursors, request states, task ids. Each is encrypted and
 * bound to a purpose, a principal and an expiry. Another principal cannot use the value, and only the gateway can make
 * one.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';

export interface Keyring {
  readonly active: { readonly id: string; readonly key: Buffer };
  find(id: string): Buffer | undefined;
}

export type Purpose =
  | 'session'
  | 'cursor'
  | 'state'
  | 'task'
  | 'event'
  | 'parked'
  | 'push'
  | 'callback'
  | 'key'
  | 'oauth'
  | 'connect'
  | 'result';

const VERSION = 1;
const IV_BYTES = 12;
const TAG_BYTES = 16;
const ALGORITHM = 'aes-256-gcm';

export class SealBroken extends Error {
  override readonly name = 'SealBroken';

  constructor(readonly why: 'forged' | 'expired') {
    super(why === 'expired' ? 'the value has expired' : 'this gateway did not issue the value for this caller');
  }
}

export class Seal {
  constructor(
    private readonly keyring: Keyring,
    private readonly now: () => number = Date.now,
  ) {}

  /** `value` is any JSON value; `ttl` is in milliseconds. */
  close(purpose: Purpose, principal: string, value: unknown, ttl: number): string {
    return this.encrypted(purpose, principal, JSON.stringify([this.now() + ttl, value]));
  }

  /** Throws `SealBroken` if the value was not sealed for this purpose and principal, or has expired. */
  open(purpose: Purpose, principal: string, sealed: string): unknown {
    const [expires, value] = JSON.parse(this.decrypted(purpose, principal, sealed).text) as [number, unknown];
    if (expires < this.now()) throw new SealBroken('expired');
    return value;
  }

  /**
   * Seals a stored value again with the current key and keeps its expiry. Returns undefined if the value was sealed
   * with the current key. Throws `SealBroken` if the value cannot be opened.
   */
  reseal(purpose: Purpose, principal: string, sealed: string): string | undefined {
    const { text, keyId } = this.decrypted(purpose, principal, sealed);
    return keyId === this.keyring.active.id ? undefined : this.encrypted(purpose, principal, text);
  }

  private encrypted(purpose: Purpose, principal: string, text: string): string {
    const { id, key } = this.keyring.active;
    const iv = randomBytes(IV_BYTES);
    const cipher = createCipheriv(ALGORITHM, key, iv);
    cipher.setAAD(binding(purpose, principal));
    const body = Buffer.concat([cipher.update(Buffer.from(text)), cipher.final()]);
    const kid = Buffer.from(id);
    return Buffer.concat([Buffer.from([VERSION, kid.length]), kid, iv, body, cipher.getAuthTag()]).toString(
      'base64url',
    );
  }

  private decrypted(purpose: Purpose, principal: string, sealed: string): { text: string; keyId: string } {
    const bytes = Buffer.from(sealed, 'base64url');
    // The base64url decoder ignores stray characters. Values for single use must have exactly one spelling.
    if (bytes.toString('base64url') !== sealed) throw new SealBroken('forged');
    const kidLength = bytes[1] ?? 0;
    const ivAt = 2 + kidLength;
    if (bytes[0] !== VERSION || bytes.length < ivAt + IV_BYTES + TAG_BYTES) throw new SealBroken('forged');
    const keyId = bytes.toString('utf8', 2, ivAt);
    const key = this.keyring.find(keyId);
    if (!key) throw new SealBroken('forged');
    try {
      const decipher = createDecipheriv(ALGORITHM, key, bytes.subarray(ivAt, ivAt + IV_BYTES), {
        authTagLength: TAG_BYTES,
      });
      decipher.setAAD(binding(purpose, principal));
      decipher.setAuthTag(bytes.subarray(bytes.length - TAG_BYTES));
      const body = decipher.update(bytes.subarray(ivAt + IV_BYTES, bytes.length - TAG_BYTES));
      return { text: Buffer.concat([body, decipher.final()]).toString('utf8'), keyId };
    } catch {
      throw new SealBroken('forged');
    }
  }
}

const binding = (purpose: Purpose, principal: string): Buffer => Buffer.from(`parley\0${purpose}\0${principal}`);
