import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Keyring } from '../keyring.js';

/**
 * The signed places of the audit trail: the head of a chain (its newest record), the newest record that retention
 * removed from a chain, and a removed record that another chain starts from.
 */
export type SignedKind = 'head' | 'trim' | 'anchor';

export interface SignedPlace {
  readonly chain: string;
  readonly seq: number;
  readonly hash: string;
}

export interface Signature {
  /** The id of the key. */
  readonly key: string;
  readonly mac: string;
}

/** The signature of a row that was written before rows were signed is null. */
export type StoredSignature = { readonly key: string | null; readonly mac: string | null };

/**
 * Signs places of the trail with a key of `state.keys`, so that somebody who can write to the database, but does not
 * have the key, cannot rewrite a chain or cut off its end (S24).
 */
export class AuditSignatures {
  readonly #keyring: Keyring;
  readonly #derived = new Map<string, { readonly from: Buffer; readonly key: Buffer }>();

  constructor(keyring: Keyring) {
    this.#keyring = keyring;
  }

  /** The id of the key that signs now. */
  get key(): string {
    return this.#keyring.active.id;
  }

  sign(kind: SignedKind, place: SignedPlace): Signature {
    const { id, key } = this.#keyring.active;
    return { key: id, mac: this.#mac(id, key, kind, place) };
  }

  /** Returns undefined for a valid signature, otherwise the problem. */
  problem(kind: SignedKind, place: SignedPlace, { key, mac }: StoredSignature): string | undefined {
    if (key === null || mac === null) return 'is not signed';
    const known = this.#keyring.find(key);
    if (!known) return `is signed with the key ${key}, which state.keys does not have`;
    const expected = Buffer.from(this.#mac(key, known, kind, place));
    const given = Buffer.from(mac);
    return given.length === expected.length && timingSafeEqual(given, expected)
      ? undefined
      : 'has a signature that does not fit';
  }

  #mac(id: string, from: Buffer, kind: SignedKind, { chain, seq, hash }: SignedPlace): string {
    let derived = this.#derived.get(id);
    if (!derived?.from.equals(from)) {
      derived = { from, key: createHmac('sha256', from).update('parley audit signature').digest() };
      this.#derived.set(id, derived);
    }
    return createHmac('sha256', derived.key).update(`${kind}\n${chain}\n${seq}\n${hash}`).digest('hex');
  }
}
