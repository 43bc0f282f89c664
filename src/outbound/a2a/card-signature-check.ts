import { readFile } from 'node:fs/promises';
import { createLocalJWKSet, decodeProtectedHeader, flattenedVerify, type JSONWebKeySet, type JWK } from 'jose';
import type { SignatureVerdict } from '../../core/a2a/agent.js';
import { canonicalForms } from '../../protocol/a2a/canonical-card.js';
import { isObject, type JsonObject, type JsonValue } from '../../protocol/jsonrpc/raw.js';
import type { Egress } from '../egress.js';
import { type HttpClient, httpTarget } from '../http/index.js';
import { tryJson } from './agent-reply.js';
import { exchange as exchangeHttp } from './http-exchange.js';

/** Only asymmetric algorithms: with `none` or HS*, everyone who knows the public key could sign. */
const ALGORITHMS = ['ES256', 'ES384', 'ES512', 'RS256', 'PS256', 'EdDSA', 'Ed25519'];

const KEYS_LIMIT = 256 * 1024;
const KEYS_TIME = 5_000;
const KEYS_AGE = 600_000;
/** Maximum number of signatures to check, because each check takes time. Real cards have one or two signatures. */
const MAX_SIGNATURES = 8;

/** A key set: inline, a file or a URL. */
export type KeySetting = string | JsonObject;

export interface Verified {
  readonly verdict: SignatureVerdict;
  readonly why?: string;
}

export interface SignatureOptions {
  readonly agent: string;
  /** The configured origin. Keys at this origin are trusted as much as the agent's own address. */
  readonly origin: string;
  readonly keys: KeySetting | undefined;
  /** Whether a signature is required. If true, keys from a `jku` at another origin are not accepted. */
  readonly strict: boolean;
  readonly trusted: HttpClient;
  readonly guarded: HttpClient;
  readonly egress: Egress;
}

/** Checks the signatures of an agent's card (C-7). */
export class Signatures {
  private readonly sets = new Map<string, { readonly keys: JSONWebKeySet; readonly staleAt: number }>();

  constructor(private readonly options: SignatureOptions) {}

  async verify(card: JsonObject): Promise<Verified> {
    const { signatures } = card;
    if (!Array.isArray(signatures) || signatures.length === 0) return { verdict: 'unsigned' };
    const payloads = canonicalForms(card).map((form) => Buffer.from(form, 'utf8').toString('base64url'));
    let worst: Verified = { verdict: 'unverified', why: 'no signature could be read' };
    for (const signature of signatures.slice(0, MAX_SIGNATURES)) {
      const found = await this.verifyOne(signature, payloads);
      if (found.verdict === 'verified') return found;
      if (worst.verdict !== 'invalid') worst = found;
    }
    return worst;
  }

  private async verifyOne(signature: JsonValue, payloads: readonly string[]): Promise<Verified> {
    const { protected: header, signature: value } = isObject(signature) ? signature : {};
    if (typeof header !== 'string' || typeof value !== 'string')
      return { verdict: 'unverified', why: 'a signature lacks its protected header or its value' };
    let alg: string | undefined;
    let jku: unknown;
    try {
      ({ alg, jku } = decodeProtectedHeader({ protected: header, signature: value }));
    } catch {
      return { verdict: 'unverified', why: 'the protected header of a signature cannot be read' };
    }
    if (alg === undefined || !ALGORITHMS.includes(alg))
      return { verdict: 'invalid', why: `signatures of the algorithm ${String(alg)} are not accepted` };
    let keys: JSONWebKeySet;
    try {
      keys = usable(await this.keySet(jku));
    } catch (error) {
      return { verdict: 'unverified', why: error instanceof Error ? error.message : String(error) };
    }
    let why = 'the signature does not match the card';
    for (const payload of payloads) {
      try {
        await flattenedVerify({ protected: header, payload, signature: value }, createLocalJWKSet(keys), {
          algorithms: ALGORITHMS,
        });
        return { verdict: 'verified' };
      } catch (error) {
        const code = (error as { code?: string }).code;
        if (code === 'ERR_JWKS_NO_MATCHING_KEY')
          return { verdict: 'unverified', why: 'the card was signed with an unknown key' };
        if (code !== 'ERR_JWS_SIGNATURE_VERIFICATION_FAILED') why = 'the signature cannot be checked';
      }
    }
    return { verdict: 'invalid', why };
  }

  /** The configured keys. If no keys are configured: the keys at the `jku` of the signature, if that URL is allowed. */
  private async keySet(jku: unknown): Promise<JSONWebKeySet> {
    const { keys, origin, strict, trusted, guarded, egress } = this.options;
    if (isObject(keys as JsonValue)) return asKeySet(keys as JsonObject);
    if (typeof keys === 'string') return this.cached(keys, () => this.configured(keys, trusted));
    if (typeof jku !== 'string') throw new Error('no keys are configured for this agent');
    if (URL.canParse(jku) && new URL(jku).origin === origin) return this.cached(jku, () => this.fetch(jku, trusted));
    if (strict) throw new Error('its keys are at another origin; set "keys" of the agent to the keys to trust');
    egress.checkSecureUrl(jku);
    return this.cached(jku, () => this.fetch(jku, guarded));
  }

  private async configured(keys: string, trusted: HttpClient): Promise<JSONWebKeySet> {
    if (/^https?:\/\//i.test(keys)) return this.fetch(keys, trusted);
    return asKeySet(tryJson(await readFile(keys)));
  }

  private async cached(name: string, load: () => Promise<JSONWebKeySet>): Promise<JSONWebKeySet> {
    const known = this.sets.get(name);
    if (known && known.staleAt > Date.now()) return known.keys;
    const keys = await load();
    // Limits the cache: a card may name a different URL each time.
    if (this.sets.size >= MAX_SIGNATURES) this.sets.clear();
    this.sets.set(name, { keys, staleAt: Date.now() + KEYS_AGE });
    return keys;
  }

  /** Fetches a key set without credentials, because keys are public. */
  private async fetch(url: string, http: HttpClient): Promise<JSONWebKeySet> {
    const reply = await exchangeHttp({
      http,
      target: httpTarget(url),
      method: 'GET',
      headers: ['accept', 'application/jwk-set+json, application/json'],
      agent: { name: this.options.agent },
      idle: KEYS_TIME,
      total: KEYS_TIME,
      limit: KEYS_LIMIT,
    });
    if (reply!.status !== 200) throw new Error(`its keys cannot be fetched: status ${reply!.status}`);
    return asKeySet(tryJson(reply!.body));
  }
}

function asKeySet(value: JsonValue | undefined): JSONWebKeySet {
  const keys = isObject(value) ? value['keys'] : undefined;
  if (!Array.isArray(keys)) throw new Error('its keys are not a JSON Web Key Set');
  return { keys: keys.filter(isObject) as unknown as JWK[] };
}

/** Removes secret keys, keys outside of their validity period and revoked keys (C-7). */
function usable({ keys }: JSONWebKeySet): JSONWebKeySet {
  const now = Date.now() / 1000;
  const time = (value: unknown, otherwise: number): number => (typeof value === 'number' ? value : otherwise);
  return {
    keys: keys.filter((key) => {
      const { exp, nbf, revoked } = key as JWK & { exp?: unknown; nbf?: unknown; revoked?: unknown };
      const current = time(exp, Number.POSITIVE_INFINITY) > now && time(nbf, 0) <= now;
      return key.kty !== 'oct' && revoked === undefined && current;
    }),
  };
}
