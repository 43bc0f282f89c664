import {
  type CryptoKey,
  calculateJwkThumbprint,
  exportJWK,
  FlattenedSign,
  generateKeyPair,
  importJWK,
  type JWK,
  type JWTPayload,
  SignJWT,
} from 'jose';

/**
 * The signing keys of the gateway. The newest key signs cards and webhooks, and all valid keys are published. Replicas
 * share the keys.
 */
export interface CardKeyRecord {
  /** The newest first. */
  readonly keys: readonly StoredKey[];
}

export interface StoredKey {
  readonly kid: string;
  readonly public: JWK;
  /** The sealed private JWK; absent once the key no longer signs. */
  readonly sealed?: string;
  readonly createdAt: number;
  /** When the key stopped signing. */
  readonly retiredAt?: number;
}

/** Stores the record, which must outlive the process. */
export interface CardKeyStore {
  load(): Promise<{ readonly record: CardKeyRecord; readonly rev: number } | undefined>;
  /** Replaces the given revision, 0 for none. Returns false if another revision is stored by now. */
  save(record: CardKeyRecord, rev: number): Promise<boolean>;
}

/** Encrypts private keys, so that readers of the store cannot use them. */
export interface KeySealer {
  close(value: unknown): string;
  /** Throws if the gateway did not seal the value, or if the sealing key is gone. */
  open(sealed: string): unknown;
}

export interface CardKeysOptions {
  readonly store: CardKeyStore;
  readonly sealer: KeySealer;
  /** How long a retired key stays published, in milliseconds. */
  readonly keep?: number;
  /** How long a read record is used before it is read again, in milliseconds: another replica may have a newer key. */
  readonly fresh?: number;
  readonly now?: () => number;
}

export interface CardSignature {
  readonly protected: string;
  readonly signature: string;
}

const ALGORITHM = 'ES256';
const KEEP = 30 * 24 * 3_600_000;
const FRESH = 60_000;
const ATTEMPTS = 5;

interface Loaded {
  readonly record: CardKeyRecord;
  readonly rev: number;
  readonly kid: string;
  readonly key: CryptoKey;
  readonly at: number;
}

export class CardKeys {
  private loaded: Promise<Loaded> | undefined;
  private readonly now: () => number;

  constructor(private readonly options: CardKeysOptions) {
    this.now = options.now ?? Date.now;
  }

  /** The id of the signing key. */
  async kid(): Promise<string> {
    return (await this.current()).kid;
  }

  /** A detached JWS over `payload`; `jku` is the URL of the public keys (S-6). */
  async sign(payload: string | Uint8Array, jku?: string): Promise<CardSignature> {
    const { kid, key } = await this.current();
    const bytes = typeof payload === 'string' ? new TextEncoder().encode(payload) : payload;
    const header = { alg: ALGORITHM, kid, typ: 'JOSE', ...(jku !== undefined && { jku }) };
    const jws = await new FlattenedSign(bytes).setProtectedHeader(header).sign(key);
    return { protected: jws.protected!, signature: jws.signature };
  }

  /** A JWT with these claims. `iat` is now unless given, and the JWT expires `lifetime` seconds later. */
  async signJwt(claims: JWTPayload, lifetime = 300): Promise<string> {
    const { kid, key } = await this.current();
    const iat = claims.iat ?? Math.floor(this.now() / 1_000);
    return new SignJWT({ exp: iat + lifetime, ...claims, iat })
      .setProtectedHeader({ alg: ALGORITHM, kid, typ: 'JWT' })
      .sign(key);
  }

  /** The valid public keys, the signing key first. */
  async jwks(): Promise<{ keys: JWK[] }> {
    const { record } = await this.current();
    return { keys: record.keys.filter((key) => this.counts(key)).map((key) => key.public) };
  }

  /**
   * Makes a new signing key. Signatures of the old key stay verifiable for a limited time. Returns the new key's id.
   */
  async rotate(): Promise<string> {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const found = await this.options.store.load();
      const made = await this.replace(found?.record.keys ?? [], found?.rev ?? 0);
      if (made) return made.kid;
    }
    throw new Error('cannot replace the signing key: other replicas change it at the same time');
  }

  private counts({ retiredAt }: StoredKey): boolean {
    return retiredAt === undefined || retiredAt + (this.options.keep ?? KEEP) > this.now();
  }

  private async current(): Promise<Loaded> {
    const given = this.loaded;
    const known = await given?.catch(() => undefined);
    if (known && this.now() - known.at < (this.options.fresh ?? FRESH)) return known;
    // The first call reads; concurrent calls share that read.
    if (this.loaded === given) this.loaded = this.read(known);
    return this.loaded!;
  }

  private async read(known: Loaded | undefined): Promise<Loaded> {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const found = await this.options.store.load().catch((error: unknown) => {
        // While the store is unavailable, the last known key keeps signing.
        if (known) return { record: known.record, rev: known.rev };
        throw error;
      });
      if (found && known?.rev === found.rev) return { ...known, at: this.now() };
      const [newest] = found?.record.keys ?? [];
      const key = newest && (await this.opened(newest));
      if (found && key) return { ...found, kid: newest.kid, key, at: this.now() };
      // There is no key yet, or no key can be opened any more.
      const made = await this.replace(found?.record.keys ?? [], found?.rev ?? 0);
      if (made) return made;
    }
    throw new Error('cannot make a signing key: other replicas change it at the same time');
  }

  private async opened({ sealed }: StoredKey): Promise<CryptoKey | undefined> {
    if (sealed === undefined) return undefined;
    let jwk: JWK;
    try {
      jwk = this.options.sealer.open(sealed) as JWK;
    } catch {
      return undefined;
    }
    return (await importJWK(jwk, ALGORITHM)) as CryptoKey;
  }

  /** Returns undefined if another replica stored a key first. */
  private async replace(old: readonly StoredKey[], rev: number): Promise<Loaded | undefined> {
    const { publicKey, privateKey } = await generateKeyPair(ALGORITHM, { extractable: true });
    const bare = await exportJWK(publicKey);
    const kid = (await calculateJwkThumbprint(bare)).slice(0, 16);
    const now = this.now();
    const made: StoredKey = {
      kid,
      public: { ...bare, kid, alg: ALGORITHM, use: 'sig' },
      sealed: this.options.sealer.close(await exportJWK(privateKey)),
      createdAt: now,
    };
    const retired = old
      .map(({ sealed: _, ...key }): StoredKey => ({ ...key, retiredAt: key.retiredAt ?? now }))
      .filter((key) => this.counts(key));
    const record: CardKeyRecord = { keys: [made, ...retired] };
    if (!(await this.options.store.save(record, rev))) return undefined;
    // The new revision is unknown here; the next read finds it.
    const loaded: Loaded = { record, rev: -1, kid, key: privateKey, at: now };
    this.loaded = Promise.resolve(loaded);
    return loaded;
  }
}
