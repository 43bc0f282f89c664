/**
 * Envelope encryption of secrets at rest (S18). Each value has its own random data key; the data key is wrapped under
 * a key of the keyring, whose id is part of the text. Both encryptions are bound to the identity of the row: a
 * ciphertext that is copied to another row does not open there.
 */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';
import { StateError } from './errors.js';
import { KEY_BYTES, type Keyring } from './keyring.js';

const PREFIX = 'parley-envelope-1';
const ALGORITHM = 'aes-256-gcm';
const IV_BYTES = 12;
const TAG_BYTES = 16;
const WRAPPED_BYTES = IV_BYTES + KEY_BYTES + TAG_BYTES;

export interface Opened {
  readonly text: string;
  /** Whether the value is wrapped under a key that no longer seals: write it again. */
  readonly stale: boolean;
}

export class Envelope {
  readonly #keyring: Keyring;

  constructor(keyring: Keyring) {
    this.#keyring = keyring;
  }

  /** The id of the key that wraps new values. */
  get keyId(): string {
    return this.#keyring.active.id;
  }

  /** `row` names the row completely: its table and all parts of its key. */
  seal(row: readonly string[], text: string): string {
    const { id, key } = this.#keyring.active;
    const bound = binding(id, row);
    const dataKey = randomBytes(KEY_BYTES);
    const wrapped = encrypt(wrappingKey(key), dataKey, bound);
    const body = encrypt(dataKey, Buffer.from(text, 'utf8'), bound);
    dataKey.fill(0);
    return [PREFIX, id, wrapped.toString('base64url'), body.toString('base64url')].join('.');
  }

  /** Throws `config` if the key is missing, and `internal` if the text does not belong to this row. */
  open(row: readonly string[], sealed: string): Opened {
    const [prefix, id, wrapped, body, more] = sealed.split('.');
    if (prefix !== PREFIX || id === undefined || wrapped === undefined || body === undefined || more !== undefined)
      throw new StateError('internal', `a secret of ${shown(row)} is not in the form that this gateway writes`);
    const key = this.#keyring.find(id);
    if (!key)
      throw new StateError(
        'config',
        `a secret of ${shown(row)} was encrypted under the key ${id}, which is not among state.keys: add that key after the first one`,
      );
    const bound = binding(id, row);
    try {
      const bytes = Buffer.from(wrapped, 'base64url');
      if (bytes.length !== WRAPPED_BYTES) throw new Error('length');
      const dataKey = decrypt(wrappingKey(key), bytes, bound);
      const text = decrypt(dataKey, Buffer.from(body, 'base64url'), bound).toString('utf8');
      dataKey.fill(0);
      return { text, stale: id !== this.keyId };
    } catch {
      throw new StateError('internal', `a secret of ${shown(row)} was changed, or belongs to another row`);
    }
  }
}

/** Whether the text of a column is an envelope; other text was written before secrets were encrypted. */
export const isEnvelope = (text: string): boolean => text.startsWith(`${PREFIX}.`);

/** The id of the key that wraps an envelope. */
export const keyIdOf = (sealed: string): string => sealed.split('.', 2)[1] ?? '';

const wrappingKeys = new WeakMap<Buffer, Buffer>();

/**
 * Derives another key than the one that seals opaque values for clients. The result is kept, because a derivation takes
 * as long as the encryption of a value.
 */
function wrappingKey(key: Buffer): Buffer {
  let wrapping = wrappingKeys.get(key);
  if (!wrapping) {
    wrapping = Buffer.from(hkdfSync('sha256', key, Buffer.alloc(0), 'parley envelope', KEY_BYTES));
    wrappingKeys.set(key, wrapping);
  }
  return wrapping;
}

/** JSON has exactly one reading of the parts, whatever characters they contain. */
const binding = (keyId: string, row: readonly string[]): Buffer => Buffer.from(JSON.stringify([PREFIX, keyId, ...row]));

const shown = (row: readonly string[]): string => row.slice(0, 2).join(' ').slice(0, 120);

function encrypt(key: Buffer, plain: Buffer, bound: Buffer): Buffer {
  const iv = randomBytes(IV_BYTES);
  const cipher = createCipheriv(ALGORITHM, key, iv, { authTagLength: TAG_BYTES });
  cipher.setAAD(bound);
  return Buffer.concat([iv, cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
}

function decrypt(key: Buffer, bytes: Buffer, bound: Buffer): Buffer {
  if (bytes.length < IV_BYTES + TAG_BYTES) throw new Error('length');
  const decipher = createDecipheriv(ALGORITHM, key, bytes.subarray(0, IV_BYTES), { authTagLength: TAG_BYTES });
  decipher.setAAD(bound);
  decipher.setAuthTag(bytes.subarray(bytes.length - TAG_BYTES));
  return Buffer.concat([decipher.update(bytes.subarray(IV_BYTES, bytes.length - TAG_BYTES)), decipher.final()]);
}
