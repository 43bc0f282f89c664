import { randomBytes } from 'node:crypto';
import { calculateJwkThumbprint, exportJWK, generateKeyPair, type JSONWebKeySet, type JWK } from 'jose';

export const ALGORITHM = 'ES256';

/**
 * The keys of the authorization server. The newest key signs, and all valid keys are published. Replicas share the
 * keys.
 */
export interface SigningKeyRecord {
  /** The newest first. */
  readonly keys: readonly StoredSigningKey[];
  /** The sealed secret that protects cookies. */
  readonly secret: string;
}

export interface StoredSigningKey {
  readonly kid: string;
  readonly public: JWK;
  /** The sealed private JWK; absent once the key no longer signs. */
  readonly sealed?: string;
  readonly createdAt: number;
  readonly retiredAt?: number;
}

export interface SigningKeyStore {
  load(): Promise<{ readonly record: SigningKeyRecord; readonly rev: number } | undefined>;
  /** Replaces the given revision, 0 for none. Returns false if another revision is stored by now. */
  save(record: SigningKeyRecord, rev: number): Promise<boolean>;
}

export interface SigningKeysOptions {
  readonly store: SigningKeyStore;
  close(value: unknown): string;
  /** Throws if the value cannot be opened with the keys of `state.keys`. */
  open(sealed: string): unknown;
  /** How long a retired key stays published, in milliseconds: at least the life of a token. */
  readonly keep: number;
  readonly now: () => number;
}

export interface CurrentKeys {
  readonly kid: string;
  /** The private key. */
  readonly signing: JWK;
  readonly public: JSONWebKeySet;
  /** The secret that protects cookies. */
  readonly secret: string;
}

/** How long a read record is used before it is read again, in milliseconds: another replica may have a newer key. */
const FRESH = 5_000;
const ATTEMPTS = 5;

interface Loaded extends CurrentKeys {
  readonly rev: number;
  readonly at: number;
}

export class SigningKeys {
  private loaded: Promise<Loaded> | undefined;

  constructor(private readonly options: SigningKeysOptions) {}

  /** The keys in use. Returns the same object as long as the keys do not change. */
  async current(): Promise<CurrentKeys> {
    const given = this.loaded;
    const known = await given?.catch(() => undefined);
    if (known && performance.now() - known.at < FRESH) return known;
    // The first call reads; concurrent calls share that read.
    if (this.loaded === given) this.loaded = this.read(known);
    return this.loaded!;
  }

  /** Makes a new signing key. Tokens of the old key stay valid until they expire. Returns the id of the new key. */
  async rotate(): Promise<string> {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const found = await this.options.store.load();
      const kid = await this.replace(found?.record, found?.rev ?? 0);
      this.loaded = undefined;
      if (kid !== undefined) return kid;
    }
    throw new Error('cannot replace the signing key: other replicas change it at the same time');
  }

  private async read(known: Loaded | undefined): Promise<Loaded> {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const found = await this.options.store.load();
      // The object stays the same while the keys stay the same, so that its users notice a change by comparing objects.
      if (found && known?.rev === found.rev) return Object.assign(known, { at: performance.now() });
      const opened = found && this.opened(found.record);
      if (found && opened) return { ...opened, rev: found.rev, at: performance.now() };
      // There is no key yet, or the keys of `state.keys` no longer open it.
      await this.replace(found?.record, found?.rev ?? 0);
    }
    throw new Error('cannot make a signing key: other replicas change it at the same time');
  }

  private opened({ keys, secret }: SigningKeyRecord): CurrentKeys | undefined {
    const [newest] = keys;
    if (newest?.sealed === undefined) return undefined;
    try {
      return {
        kid: newest.kid,
        signing: this.options.open(newest.sealed) as JWK,
        public: { keys: keys.filter((key) => this.counts(key)).map((key) => key.public) },
        secret: this.options.open(secret) as string,
      };
    } catch {
      return undefined;
    }
  }

  private counts({ retiredAt }: StoredSigningKey): boolean {
    return retiredAt === undefined || retiredAt + this.options.keep > this.options.now();
  }

  /** Returns undefined if another replica stored keys first. */
  private async replace(old: SigningKeyRecord | undefined, rev: number): Promise<string | undefined> {
    const { close, store, now } = this.options;
    const { publicKey, privateKey } = await generateKeyPair(ALGORITHM, { extractable: true });
    const bare = await exportJWK(publicKey);
    const kid = (await calculateJwkThumbprint(bare)).slice(0, 16);
    const about = { kid, alg: ALGORITHM, use: 'sig' };
    const made: StoredSigningKey = {
      kid,
      public: { ...bare, ...about },
      sealed: close({ ...(await exportJWK(privateKey)), ...about }),
      createdAt: now(),
    };
    const retired = (old?.keys ?? [])
      .map(({ sealed: _, ...key }): StoredSigningKey => ({ ...key, retiredAt: key.retiredAt ?? now() }))
      .filter((key) => this.counts(key));
    const secret = (old && this.opened(old)?.secret) ?? randomBytes(32).toString('base64url');
    return (await store.save({ keys: [made, ...retired], secret: close(secret) }, rev)) ? kid : undefined;
  }
}
