import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { crc32 } from 'node:zlib';

/**
 * An API key: `parley_`, 256 random bits in base62, and a checksum (S17). Secret scanners recognise the prefix, and the
 * checksum distinguishes a mistyped key from a revoked key without a query.
 */
export const API_KEY_PREFIX = 'parley_';
const SECRET_BYTES = 32;
const SECRET_LENGTH = 43;
const CHECKSUM_LENGTH = 6;
const FORM = new RegExp(`^${API_KEY_PREFIX}[0-9A-Za-z]{${SECRET_LENGTH + CHECKSUM_LENGTH}}$`);
const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

export function newApiKey(): string {
  const secret = base62(BigInt(`0x${randomBytes(SECRET_BYTES).toString('hex')}`), SECRET_LENGTH);
  return `${API_KEY_PREFIX}${secret}${checksumOf(secret)}`;
}

/** Whether the text has the form and the checksum of an API key. */
export function isApiKey(text: string): boolean {
  if (!FORM.test(text)) return false;
  const secret = text.slice(API_KEY_PREFIX.length, -CHECKSUM_LENGTH);
  return text.endsWith(checksumOf(secret));
}

/** The public id of a key, by which it is found, listed and revoked. It reveals nothing about the 256 bits. */
export const apiKeyId = (key: string): string =>
  createHash('sha256').update('parley key id ').update(key).digest('hex').slice(0, 16);

/** The stored form of a key. Without the secret of the keyring it cannot be compared with a guess. */
export const apiKeyDigest = (key: string, secret: Buffer): Buffer =>
  createHmac('sha256', createHmac('sha256', secret).update('parley api keys').digest()).update(key).digest();

export const sameDigest = (one: Buffer, other: Buffer): boolean =>
  one.length === other.length && timingSafeEqual(one, other);

const checksumOf = (secret: string): string => base62(BigInt(crc32(API_KEY_PREFIX + secret)), CHECKSUM_LENGTH);

function base62(value: bigint, length: number): string {
  let text = '';
  for (let rest = value; text.length < length; rest /= 62n) text = DIGITS[Number(rest % 62n)]! + text;
  return text;
}
