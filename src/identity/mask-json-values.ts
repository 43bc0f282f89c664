/** Masks secrets in JSON values that leave the gateway for people, such as recorded calls. */
import { hideTokens, MASK } from './mask-secrets.js';

/** The words of names whose values are secret, such as `apiKey`, `db_password` or `Authorization`. */
const SECRET_WORDS: ReadonlySet<string> = new Set([
  ...['password', 'passwd', 'pwd', 'passphrase', 'passcode', 'secret', 'secrets', 'token', 'apikey', 'authorization'],
  ...['cookie', 'cookies', 'credential', 'credentials', 'bearer', 'jwt', 'otp', 'cvv', 'cvc', 'ssn', 'iban'],
]);
/** The word `key` means a secret only after one of these words: `access_key` is secret, `sort_key` is not. */
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
/** A name and the sign before its value, in JSON, YAML, headers, settings and lists of variables. */
const PAIR = /(?<![\w.-])([\w.-]{1,64})(?:\\{0,7}["'])?\s{0,4}(?::=|=>|[:=])[^\S\n]{0,4}/g;
/** The opening mark of a quoted value, with the backslashes of the texts that quote it. */
const OPENING = /\\{0,7}["']/y;
/** A value without quotation marks. Shorter texts are mostly words of a sentence. */
const BARE = /[^\s"',;&<>()[\]{}\\]{6,}/y;
/** A header with a credential: its value may have several words. */
const HEADER = /[^\r\n"'\\]{6,}/y;
const HEADERS: ReadonlySet<string> = new Set(['authorization', 'cookie']);
/** An element of XML and its text. */
const ELEMENT = /<([\w.:-]{1,64})(?:\s[^<>]{0,200})?>(?:<!\[CDATA\[)?([^<\]]+)/g;
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

/**
 * Replaces secrets in the value by `********`. A value is secret if its name says so, whether as a member of an object
 * or within a text that contains JSON or other pairs of names and values. A text is also secret if it has the form of a
 * secret.
 */
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
    if (typeof value === 'string') return this.json(value) ?? this.text(value);
    if (typeof value !== 'object' || value === null) return value;
    if (Array.isArray(value)) return value.map((each) => this.of(each, level + 1));
    const named = secretName(value);
    return Object.fromEntries(
      Object.entries(value).map(([name, each]) =>
        this.member(name, name === 'value' ? (named ?? name) : name, each, level + 1),
      ),
    );
  }

  /** `meaning` is the name that decides whether the value is secret. */
  private member(name: string, meaning: string, value: unknown, level: number): [string, unknown] {
    const empty = value === null || value === '' || typeof value === 'boolean';
    // A name can be a secret too: a map may have tokens as its keys.
    return [this.text(name), isSecretMember(meaning) && !empty ? this.mask() : this.of(value, level)];
  }

  private mask(): string {
    this.count++;
    return MASK;
  }

  private text(text: string): string {
    if (text.length > LONGEST_TEXT) return this.mask();
    const masked = withoutPairs(hideTokens(text.replace(PRIVATE_KEY, MASK))).replace(RANDOM, (run) =>
      UUID.test(run) || run.split(/[./]/).every((part) => part.length <= LONGEST_PART) ? run : MASK,
    );
    if (masked !== text) this.count++;
    return masked;
  }

  /**
   * Masks the secrets in a text of JSON, such as a structured result of a server. Returns undefined if the text is not
   * JSON or contains no secret.
   */
  private json(text: string): string | undefined {
    if (!/^\s*[[{]/.test(text) || text.length > LONGEST_TEXT) return undefined;
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      return undefined;
    }
    const masked = maskValues(value);
    this.count += masked.count;
    return masked.count > 0 ? JSON.stringify(masked.value) : undefined;
  }
}

/** The name of a pair such as `{ name: 'DB_PASSWORD', value: '...' }`, if it says that the value is secret. */
function secretName({ name, key }: { readonly name?: unknown; readonly key?: unknown }): string | undefined {
  return [name, key].find((each) => typeof each === 'string' && isSecretMember(each)) as string | undefined;
}

/** The text without the values whose names say that they are secret. */
function withoutPairs(text: string): string {
  const pairs = text.replace(ELEMENT, (element: string, name: string, value: string) =>
    isSecretMember(name) && value.trim() !== '' ? `${element.slice(0, -value.length)}${MASK}` : element,
  );
  let shown = '';
  let from = 0;
  PAIR.lastIndex = 0;
  for (let pair = PAIR.exec(pairs); pair; pair = PAIR.exec(pairs)) {
    const [, name = ''] = pair;
    if (!isSecretMember(name)) continue;
    const [start, end] = valueAt(pairs, PAIR.lastIndex, name);
    if (end === start) continue;
    shown += `${pairs.slice(from, start)}${MASK}`;
    from = end;
    PAIR.lastIndex = end;
  }
  return shown + pairs.slice(from);
}

/** Where the value of a pair begins and ends. Both places are the same if there is no value. */
function valueAt(text: string, at: number, name: string): readonly [start: number, end: number] {
  OPENING.lastIndex = at;
  const [mark] = OPENING.exec(text) ?? [];
  if (mark !== undefined) return [at + mark.length, endOfQuoted(text, at + mark.length, mark)];
  const bare = HEADERS.has(name.toLowerCase()) ? HEADER : BARE;
  bare.lastIndex = at;
  return [at, at + (bare.exec(text)?.[0].length ?? 0)];
}

/**
 * The end of a quoted value: the next quotation mark of the same kind with as many backslashes, or the end of the line.
 */
function endOfQuoted(text: string, from: number, mark: string): number {
  const quote = mark.slice(-1);
  for (let at = from; at < text.length; at++) {
    if (text[at] === '\n') return at;
    if (text[at] !== quote) continue;
    let escapes = 0;
    while (text[at - 1 - escapes] === '\\' && at - 1 - escapes >= from) escapes++;
    if (escapes <= mark.length - 1) return at - escapes;
  }
  return text.length;
}
