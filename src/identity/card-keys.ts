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
 * The keys by which others know what is the gateway's: it signs its cards and its webhooks with the newest, and publishes
 * all that still count. The replicas share them.
 */
export interface CardKeyRecord {
  /** The newest first. */
  readonly keys: readonly StoredKey[];
}

export interface StoredKey {
  readonly kid: string;
  readonly public: JWK;
  /** The private JWK, sealed; gone once the key signs nothing any more. */
  readonly sealed?: string;
  readonly createdAt: number;
  /** Since when it signs nothing. */
  readonly retiredAt?: number;
}

/** Where the record outlives the process. */
export interface CardKeyStore {
  load(): Promise<{ readonly record: CardKeyRecord; readonly rev: number } | undefined>;
  /** Writes over the revision that was seen, 0 where there was none; false where another stands there by now. */
  save(record: CardKeyRecord, rev: number): Promise<boolean>;
}

/** Keeps private keys from whoever reads the store. */
export interface KeySealer {
  close(value: unknown): string;
  /** Throws where it was not closed by us, or with a key that is gone. */
  open(sealed: string): unknown;
}

export interface CardKeysOptions {
  readonly store: CardKeyStore;
  readonly sealer: KeySealer;
  /** How long a key that signs nothing any more is still published, in milliseconds. */
  readonly keep?: number;
  /** How long what was read is believed before it is read again: another replica may have a newer key. */
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

  /** The id of the key that signs now. */
  async kid(): Promise<string> {
    return (await this.current()).kid;
  }

  /** A detached JWS over `payload`; `jku` says where the public key is found (S-6). */
  async sign(payload: string | Uint8Array, jku?: string): Promise<CardSignature> {
    const { kid, key } = await this.current();
    const bytes = typeof payload === 'string' ? new TextEncoder().encode(payload) : payload;
    const header = { alg: ALGORITHM, kid, typ: 'JOSE', ...(jku !== undefined && { jku }) };
    const jws = await new FlattenedSign(bytes).setProtectedHeader(header).sign(key);
    return { protected: jws.protected!, signature: jws.signature };
  }

  /** A JWT of these claims. `iat` is now unless given, and it ends `lifetime` seconds later. */
  async signJwt(claims: JWTPayload, lifetime = 300): Promise<string> {
    const { kid, key } = await this.current();
    const iat = claims.iat ?? Math.floor(this.now() / 1_000);
    return new SignJWT({ exp: iat + lifetime, ...claims, iat })
      .setProtectedHeader({ alg: ALGORITHM, kid, typ: 'JWT' })
      .sign(key);
  }

  /** The public keys that count, the one that signs first. */
  async jwks(): Promise<{ keys: JWK[] }> {
    const { record } = await this.current();
    return { keys: record.keys.filter((key) => this.counts(key)).map((key) => key.public) };
  }

  /** A new key signs from now on; what the old one signed can be verified for a while. Returns its id. */
  async rotate(): Promise<string> {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const found = await this.options.store.load();
      const made = await this.replace(found?.record.keys ?? [], found?.rev ?? 0);
      if (made) return made.kid;
    }
    throw new Error('the signing key could not be replaced: it is being changed elsewhere');
  }

  private counts({ retiredAt }: StoredKey): boolean {
    return retiredAt === undefined || retiredAt + (this.options.keep ?? KEEP) > this.now();
  }

  private async current(): Promise<Loaded> {
    const given = this.loaded;
    const known = await given?.catch(() => undefined);
    if (known && this.now() - known.at < (this.options.fresh ?? FRESH)) return known;
    // Whoever comes first reads; the others wait for the same.
    if (this.loaded === given) this.loaded = this.read(known);
    return this.loaded!;
  }

  private async read(known: Loaded | undefined): Promise<Loaded> {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const found = await this.options.store.load().catch((error: unknown) => {
        // A key that signed a minute ago still does while the store cannot be asked.
        if (known) return { record: known.record, rev: known.rev };
        throw error;
      });
      if (found && known?.rev === found.rev) return { ...known, at: this.now() };
      const [newest] = found?.record.keys ?? [];
      const key = newest && (await this.opened(newest));
      if (found && key) return { ...found, kid: newest.kid, key, at: this.now() };
      // There is none yet, or nobody can open it any more.
      const made = await this.replace(found?.record.keys ?? [], found?.rev ?? 0);
      if (made) return made;
    }
    throw new Error('the signing key could not be made: it is being changed elsewhere');
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

  /** Undefined where another replica was first. */
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
    // The revision it was given is not known here; the next look finds it.
    const loaded: Loaded = { record, rev: -1, kid, key: privateKey, at: now };
    this.loaded = Promise.resolve(loaded);
    return loaded;
  }
}
