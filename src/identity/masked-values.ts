/** Masks secrets in JSON values that leave the gateway for people, such as recorded calls. */
import { hideTokens, MASK } from './mask-secrets.js';

/** The words of names whose values are secret, such as `apiKey`, `db_password` or `Authorization`. */
const SECRET_WORDS: ReadonlySet<string> = new Set([
  ...['password', 'passwd', 'pwd', 'passphrase', 'passcode', 'secret', 'secrets', 'token', 'apikey', 'authorization'],
  ...['cookie', 'cookies', 'credential', 'credentials', 'bearer', 'jwt', 'otp', 'cvv', 'cvc', 'ssn', 'iban'],
]);
/** A key is secret after one of these words: `access_key`, but not `sort_key`. */
const KEY_KINDS: ReadonlySet<string> = new Set([
  'api',
  'access',
  'private',
  'secret',
  'signing',
  'encryption',
  'master',
]);

const PRIVATE_KEY = /-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/g;
/** Long runs of letters and digits that look random: tokens without a known form, and encoded files. */
const RANDOM = /(?<![\w+/=~.-])(?=[\w+/=~.-]*\d)(?=[\w+/=~.-]*[a-z])[\w+/=~.-]{32,}/gi;
const UUID = /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/i;
/** The parts of a path or an address are short. */
const LONGEST_PART = 24;
/** Longer texts, and values with more levels or members, are masked as a whole. */
const LONGEST_TEXT = 64 * 1024;
const MOST_LEVELS = 64;
const MOST_VALUES = 20_000;

export interface Masked {
  readonly value: unknown;
  /** The number of masked places. */
  readonly count: number;
}

/** The value with `********` in place of secrets: by the names of members, and by the form of texts. */
export function maskValues(value: unknown): Masked {
  const masking = new Masking();
  return { value: masking.of(value, 0), count: masking.count };
}

export function isSecretMember(name: string): boolean {
  const words = name
    .replace(/([a-z\d])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z\d]+/);
  return words.some(
    (word, at) => SECRET_WORDS.has(word) || (/^keys?$/.test(word) && KEY_KINDS.has(words[at - 1] ?? '')),
  );
}

class Masking {
  count = 0;
  private values = 0;

  of(value: unknown, level: number): unknown {
    if (++this.values > MOST_VALUES || level > MOST_LEVELS) return this.mask();
    if (typeof value === 'string') return this.text(value);
    if (typeof value !== 'object' || value === null) return value;
    if (Array.isArray(value)) return value.map((each) => this.of(each, level + 1));
    return Object.fromEntries(Object.entries(value).map(([name, each]) => this.member(name, each, level + 1)));
  }

  private member(name: string, value: unknown, level: number): [string, unknown] {
    const empty = value === null || value === '' || typeof value === 'boolean';
    // A name can be a secret too: a map may have tokens as its keys.
    return [this.text(name), isSecretMember(name) && !empty ? this.mask() : this.of(value, level)];
  }

  private mask(): string {
    this.count++;
    return MASK;
  }

  private text(text: string): string {
    if (text.length > LONGEST_TEXT) return this.mask();
    const masked = hideTokens(text.replace(PRIVATE_KEY, MASK)).replace(RANDOM, (run) =>
      UUID.test(run) || run.split(/[./]/).every((part) => part.length <= LONGEST_PART) ? run : MASK,
    );
    if (masked !== text) this.count++;
    return masked;
  }
}
