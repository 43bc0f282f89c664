/** Scans JSON by its bytes: the spans of members and elements. */

export class JsonSyntaxError extends Error {
  override readonly name = 'JsonSyntaxError';
}

export const QUOTE = 0x22;
export const BACKSLASH = 0x5c;
export const OPEN_OBJECT = 0x7b;
export const CLOSE_OBJECT = 0x7d;
export const OPEN_ARRAY = 0x5b;
export const CLOSE_ARRAY = 0x5d;
export const COMMA = 0x2c;
export const COLON = 0x3a;

/** For strings longer than this, a native search for the closing quote is faster than a loop. */
const LONG_STRING = 512;

export function fail(source: Uint8Array, at: number): never {
  throw new JsonSyntaxError(at >= source.length ? 'unexpected end of JSON' : `unexpected byte at offset ${at}`);
}

export function skipSpace(source: Uint8Array, at: number): number {
  for (;;) {
    const byte = source[at];
    if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return at;
    at++;
  }
}

/** `at` is the opening quote; returns the offset after the closing one. */
function skipString(source: Buffer, at: number): number {
  const quote = quoteFrom(source, at + 1);
  if (quote < 0) fail(source, source.length);
  return quote + 1;
}

/** The offset of the quote that closes a string, searched from inside the string; -1 if there is none. */
export function quoteFrom(source: Buffer, from: number): number {
  let i = from;
  const near = Math.min(source.length, i + LONG_STRING);
  while (i < near) {
    const byte = source[i]!;
    if (byte === QUOTE) return i;
    i += byte === BACKSLASH ? 2 : 1;
  }
  for (;;) {
    const quote = source.indexOf(QUOTE, i);
    if (quote < 0) return -1;
    let slashes = 0;
    while (quote - 1 - slashes >= i && source[quote - 1 - slashes] === BACKSLASH) slashes++;
    if (slashes % 2 === 0) return quote;
    i = quote + 1;
  }
}

/**
 * `at` is the opening quote; returns the offset of the first byte that is not plain text, usually the closing quote.
 */
function skipPlain(source: Buffer, at: number): number {
  for (let i = at + 1; ; i++) {
    const byte = source[i];
    if (byte === undefined || byte === QUOTE || byte === BACKSLASH || byte >= 0x80) return i;
  }
}

function skipNested(source: Buffer, at: number): number {
  let depth = 0;
  let i = at;
  const end = source.length;
  while (i < end) {
    const byte = source[i]!;
    if (byte === QUOTE) {
      i = skipString(source, i);
      continue;
    }
    i++;
    if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) depth++;
    else if ((byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) && --depth === 0) return i;
  }
  return fail(source, end);
}

function skipValue(source: Buffer, at: number): number {
  const byte = source[at];
  if (byte === QUOTE) return skipString(source, at);
  if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) return skipNested(source, at);
  let i = at;
  while (i < source.length) {
    const b = source[i]!;
    if (b === COMMA || b === CLOSE_OBJECT || b === CLOSE_ARRAY || b <= 0x20) break;
    i++;
  }
  if (i === at) fail(source, at);
  return i;
}

export interface Field {
  /** The offset of the key's opening quote, and the offset after its closing quote. */
  readonly from: number;
  readonly keyEnd: number;
  /** The key's bytes are its text: ASCII without escapes. */
  readonly plain: boolean;
  readonly start: number;
  readonly end: number;
  /** The members of the value, if it is an object named in the path. */
  readonly inner: Spans | undefined;
}

export function keyText(source: Buffer, { from, keyEnd }: Field): string {
  const text = source.toString('utf8', from + 1, keyEnd - 1);
  return text.includes('\\') ? (JSON.parse(`"${text}"`) as string) : text;
}

export function isSameKey(source: Buffer, a: Field, b: Field): boolean {
  if (!a.plain || !b.plain) return keyText(source, a) === keyText(source, b);
  const length = a.keyEnd - a.from;
  if (b.keyEnd - b.from !== length) return false;
  for (let i = 1; i < length; i++) if (source[a.from + i] !== source[b.from + i]) return false;
  return true;
}

/** Whether the bytes from `start` to `end` are this ASCII text. */
export function isText(source: Buffer, start: number, end: number, text: string): boolean {
  const { length } = text;
  if (end - start !== length) return false;
  for (let i = 0; i < length; i++) if (source[start + i] !== text.charCodeAt(i)) return false;
  return true;
}

/** The number at this span, if it is an integer with few digits, as ids are. */
export function wholeNumber(source: Buffer, start: number, end: number): number | undefined {
  if (end - start > SAFE_DIGITS || source[start] === 0x30) return undefined;
  let value = 0;
  for (let i = start; i < end; i++) {
    const digit = source[i]! - 0x30;
    if (digit < 0 || digit > 9) return undefined;
    value = value * 10 + digit;
  }
  return value;
}

/** A double represents every number with this many digits exactly. */
const SAFE_DIGITS = 15;

/** Whether a member has this key. Usually compares bytes, without creating a string. */
export function isNamed(source: Buffer, field: Field, key: string): boolean {
  if (!field.plain) return keyText(source, field) === key;
  return isText(source, field.from + 1, field.keyEnd - 1, key);
}

const HERE: readonly string[] = [];

/** The bytes of an object and the spans of its members. */
export interface Spans {
  readonly source: Buffer;
  readonly start: number;
  readonly end: number;
  readonly fields: readonly Field[];
}

/** `path`: the names of nested members, the outermost first. Their own members are read in the same pass. */
export function readSpans(source: Buffer, offset: number, path: readonly string[] = HERE, depth = 0): Spans {
  const start = skipSpace(source, offset);
  if (source[start] !== OPEN_OBJECT) fail(source, start);
  const fields: Field[] = [];
  let i = skipSpace(source, start + 1);
  if (source[i] === CLOSE_OBJECT) return { source, start, end: i + 1, fields };
  for (;;) {
    if (source[i] !== QUOTE) fail(source, i);
    const from = i;
    i = skipPlain(source, i);
    const plain = source[i] === QUOTE;
    const keyEnd = plain ? i + 1 : skipString(source, from);
    i = skipSpace(source, keyEnd);
    if (source[i] !== COLON) fail(source, i);
    const field = {
      from,
      keyEnd,
      plain,
      start: skipSpace(source, i + 1),
      end: 0,
      inner: undefined as Spans | undefined,
    };
    if (depth < path.length && source[field.start] === OPEN_OBJECT && isNamed(source, field, path[depth]!)) {
      field.inner = readSpans(source, field.start, path, depth + 1);
      field.end = field.inner.end;
    } else field.end = skipValue(source, field.start);
    fields.push(field);
    i = skipSpace(source, field.end);
    if (source[i] === CLOSE_OBJECT) return { source, start, end: i + 1, fields };
    if (source[i] !== COMMA) fail(source, i);
    i = skipSpace(source, i + 1);
  }
}

/** The elements of a JSON array, as bytes. */
export function elements(source: Buffer, offset = 0): Buffer[] {
  let i = skipSpace(source, offset);
  if (source[i] !== OPEN_ARRAY) fail(source, i);
  const found: Buffer[] = [];
  i = skipSpace(source, i + 1);
  if (source[i] === CLOSE_ARRAY) return found;
  for (;;) {
    const end = skipValue(source, i);
    found.push(source.subarray(i, end));
    i = skipSpace(source, end);
    if (source[i] === CLOSE_ARRAY) return found;
    if (source[i] !== COMMA) fail(source, i);
    i = skipSpace(source, i + 1);
  }
}
