/**
 * JSON texts as bytes. A result travels through the gateway as the bytes the upstream wrote; what has to change at an edge
 * (an id, `resultType`, a `_meta` key) is cut out or put in by span, so nothing else is parsed, reordered or rounded.
 */

export type JsonValue = string | number | boolean | null | JsonObject | JsonValue[];
export interface JsonObject {
  [key: string]: JsonValue | undefined;
}

export class JsonSyntaxError extends Error {
  override readonly name = 'JsonSyntaxError';
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const COMMA = 0x2c;
const COLON = 0x3a;

/** Beyond this many bytes a native search for the closing quote beats a loop. */
const LONG_STRING = 48;

/** Up to this many members, comparing them beats building a set. */
const FEW_FIELDS = 16;

function fail(source: Uint8Array, at: number): never {
  throw new JsonSyntaxError(at >= source.length ? 'unexpected end of JSON' : `unexpected byte at offset ${at}`);
}

function skipSpace(source: Uint8Array, at: number): number {
  for (;;) {
    const byte = source[at];
    if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return at;
    at++;
  }
}

/** `at` is the opening quote; returns the offset behind the closing one. */
function skipString(source: Buffer, at: number): number {
  let i = at + 1;
  const near = Math.min(source.length, i + LONG_STRING);
  while (i < near) {
    const byte = source[i]!;
    if (byte === QUOTE) return i + 1;
    i += byte === BACKSLASH ? 2 : 1;
  }
  for (;;) {
    const quote = source.indexOf(QUOTE, i);
    if (quote < 0) fail(source, source.length);
    let slashes = 0;
    while (quote - 1 - slashes >= i && source[quote - 1 - slashes] === BACKSLASH) slashes++;
    if (slashes % 2 === 0) return quote + 1;
    i = quote + 1;
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

interface Field {
  /** Where the key's opening quote stands, and where its closing one ends. */
  readonly from: number;
  readonly keyEnd: number;
  /** The key stands in the bytes as it is: ASCII without escapes. */
  readonly plain: boolean;
  readonly start: number;
  readonly end: number;
  /** The value's own members, where it is an object that was read along. */
  readonly inner: Spans | undefined;
}

function keyText(source: Buffer, { from, keyEnd }: Field): string {
  const text = source.toString('utf8', from + 1, keyEnd - 1);
  return text.includes('\\') ? (JSON.parse(`"${text}"`) as string) : text;
}

function isSameKey(source: Buffer, a: Field, b: Field): boolean {
  if (!a.plain || !b.plain) return keyText(source, a) === keyText(source, b);
  const length = a.keyEnd - a.from;
  if (b.keyEnd - b.from !== length) return false;
  for (let i = 1; i < length; i++) if (source[a.from + i] !== source[b.from + i]) return false;
  return true;
}

/** Whether a member has this key: nearly always told by its bytes, without a string being made of them. */
function isNamed(source: Buffer, field: Field, key: string): boolean {
  if (!field.plain) return keyText(source, field) === key;
  const { length } = key;
  const first = field.from + 1;
  if (field.keyEnd - first - 1 !== length) return false;
  for (let i = 0; i < length; i++) if (source[first + i] !== key.charCodeAt(i)) return false;
  return true;
}

/** What a member becomes: new JSON text, or `undefined` to leave it out. A key that was not there is added. */
export type Edits = { readonly [key: string]: string | Buffer | undefined };

const HERE: readonly string[] = [];

/** The bytes of an object and where its members stand in them. */
interface Spans {
  readonly source: Buffer;
  readonly start: number;
  readonly end: number;
  readonly fields: readonly Field[];
}

/** `path` names a member whose members are wanted too, and so on inwards: found in the same pass. */
function readSpans(source: Buffer, offset: number, path: readonly string[] = HERE, depth = 0): Spans {
  const start = skipSpace(source, offset);
  if (source[start] !== OPEN_OBJECT) fail(source, start);
  const fields: Field[] = [];
  let i = skipSpace(source, start + 1);
  if (source[i] === CLOSE_OBJECT) return { source, start, end: i + 1, fields };
  for (;;) {
    if (source[i] !== QUOTE) fail(source, i);
    const from = i;
    const keyEnd = skipString(source, i);
    let plain = true;
    for (let at = from + 1; at < keyEnd - 1; at++) {
      const byte = source[at]!;
      if (byte === BACKSLASH || byte >= 0x80) plain = false;
    }
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

/**
 * One JSON object, as bytes, with the spans of its members. An edited one is the object it came from and the edits, until
 * somebody wants its bytes: what is changed at several places on its way is still written only once.
 */
export class RawObject {
  private parsed: JsonObject | undefined;
  /** What it came from, and what was changed since, the latest last. */
  private origin: { readonly base: RawObject; readonly edits: readonly Edits[] } | undefined;

  private constructor(private known: Spans | undefined) {}

  private get spans(): Spans {
    this.known ??= readSpans(joined(this.pieces()), 0);
    return this.known;
  }

  /**
   * Reads the members of the object that starts at `offset` (white space before it is skipped). `path` names the objects
   * inside that will be asked for, so that long texts are walked through once.
   */
  static at(source: Buffer, offset = 0, path?: readonly string[]): RawObject {
    return new RawObject(readSpans(source, offset, path));
  }

  /** The same as `at`, and nothing but white space may follow. */
  static whole(source: Buffer, path?: readonly string[]): RawObject {
    const object = RawObject.at(source, 0, path);
    const rest = skipSpace(source, object.spans.end);
    if (rest < source.length) fail(source, rest);
    return object;
  }

  static from(value: object): RawObject {
    const object = RawObject.at(Buffer.from(JSON.stringify(value)));
    object.parsed = value as JsonObject;
    return object;
  }

  /** An object of members whose JSON texts are at hand, without reading them again. */
  static build(members: readonly (readonly [key: string, text: Buffer])[]): RawObject {
    const chunks: Buffer[] = [];
    const fields: Field[] = [];
    let at = 0;
    const push = (chunk: Buffer): void => {
      chunks.push(chunk);
      at += chunk.length;
    };
    for (const [index, [key, text]] of members.entries()) {
      const quoted = JSON.stringify(key);
      push(Buffer.from(`${index === 0 ? '{' : ','}${quoted}:`));
      const keyEnd = at - 1;
      const from = keyEnd - Buffer.byteLength(quoted);
      push(text);
      fields.push({ from, keyEnd, plain: false, start: at - text.length, end: at, inner: undefined });
    }
    push(Buffer.from(members.length === 0 ? '{}' : '}'));
    return new RawObject({ source: Buffer.concat(chunks), start: 0, end: at, fields });
  }

  get byteLength(): number {
    const { start, end } = this.spans;
    return end - start;
  }

  get isEmpty(): boolean {
    return this.spans.fields.length === 0;
  }

  keys(): string[] {
    const { source, fields } = this.spans;
    return fields.map((field) => keyText(source, field));
  }

  /** The first key that stands twice: "last wins" in one parser is "first wins" in another. */
  duplicateKey(): string | undefined {
    const { source, fields } = this.spans;
    if (fields.length > FEW_FIELDS) {
      // Comparing each with each would let a body of many keys stall everybody.
      const seen = new Set<string>();
      for (const field of fields) {
        const key = keyText(source, field);
        if (seen.has(key)) return key;
        seen.add(key);
      }
      return undefined;
    }
    for (let i = 1; i < fields.length; i++) {
      for (let j = 0; j < i; j++) if (isSameKey(source, fields[i]!, fields[j]!)) return keyText(source, fields[i]!);
    }
    return undefined;
  }

  private find(key: string): Field | undefined {
    const { source, fields } = this.spans;
    for (let i = fields.length - 1; i >= 0; i--) {
      const field = fields[i]!;
      if (isNamed(source, field, key)) return field;
    }
    return undefined;
  }

  /** The latest edits that say something of this member. */
  private changeOf(key: string): Edits | undefined {
    return this.origin?.edits.findLast((each) => Object.hasOwn(each, key));
  }

  has(key: string): boolean {
    if (this.known || !this.origin) return this.find(key) !== undefined;
    const latest = this.changeOf(key);
    return latest ? latest[key] !== undefined : this.origin.base.has(key);
  }

  /** The member's JSON text, or undefined. */
  raw(key: string): Buffer | undefined {
    const field = this.find(key);
    return field && this.spans.source.subarray(field.start, field.end);
  }

  /** The member's value, parsed now. */
  get(key: string): JsonValue | undefined {
    if (this.parsed) return this.parsed[key];
    if (this.origin) {
      const latest = this.changeOf(key);
      if (!latest) return this.origin.base.get(key);
      const text = latest[key];
      return text === undefined ? undefined : (JSON.parse(text.toString()) as JsonValue);
    }
    const field = this.find(key);
    if (!field) return undefined;
    return JSON.parse(this.spans.source.toString('utf8', field.start, field.end)) as JsonValue;
  }

  /** The member as an object of bytes, if it is one. */
  object(key: string): RawObject | undefined {
    const field = this.find(key);
    const { source } = this.spans;
    if (!field || source[field.start] !== OPEN_OBJECT) return undefined;
    return new RawObject(field.inner ?? readSpans(source, field.start));
  }

  /** Whether the member's JSON text starts with this character, such as `{` for an object. */
  startsWith(key: string, character: string): boolean {
    const field = this.find(key);
    return field !== undefined && this.spans.source[field.start] === character.charCodeAt(0);
  }

  bytes(): Buffer {
    const { source, start, end } = this.spans;
    return source.subarray(start, end);
  }

  /** The text without a copy: pieces to write one after the other. */
  pieces(): Piece[] {
    if (this.known || !this.origin) return [this.bytes()];
    return this.origin.base.edited(this.origin.edits);
  }

  value(): JsonObject {
    this.parsed ??= JSON.parse(this.bytes().toString('utf8')) as JsonObject;
    return this.parsed;
  }

  /** Remembers the value of bytes that were parsed before as part of a whole. */
  withValue(value: JsonObject): this {
    this.parsed = value;
    return this;
  }

  /** The object with some members replaced, cut or added; the bytes of all others stay as they were. */
  edit(edits: Edits): RawObject {
    const { origin } = this;
    const edited = new RawObject(undefined);
    edited.origin = origin ? { base: origin.base, edits: [...origin.edits, edits] } : { base: this, edits: [edits] };
    return edited;
  }

  private edited(edits: readonly Edits[]): Piece[] {
    const { source, start, fields } = this.spans;
    const names: string[] = [];
    for (const layer of edits) names.push(...Object.keys(layer));
    if (!names.some((name) => this.has(name) || edits.some((layer) => layer[name] !== undefined)))
      return [this.bytes()];
    const pieces: Piece[] = [];
    let text = '{';
    let first = true;
    for (let i = 0; i < fields.length; ) {
      if (isOneOf(source, fields[i]!, names)) {
        i++;
        continue;
      }
      // Members that stay are passed on in runs, with all that is between them; the first run with the brace before it.
      const runStart = i === 0 ? start : fields[i]!.from;
      let last = i++;
      while (i < fields.length && !isOneOf(source, fields[i]!, names)) last = i++;
      if (runStart !== start) pieces.push(first ? text : ',');
      pieces.push(source.subarray(runStart, fields[last]!.end));
      text = '';
      first = false;
    }
    for (let i = 0; i < edits.length; i++) {
      const layer = edits[i]!;
      for (const key of Object.keys(layer)) {
        const value = layer[key];
        if (value === undefined || isChangedLater(edits, i, key)) continue;
        text += `${first ? '' : ','}${quoted(key)}:`;
        first = false;
        if (typeof value === 'string') text += value;
        else {
          pieces.push(text, value);
          text = '';
        }
      }
    }
    pieces.push(`${text}}`);
    return pieces;
  }
}

function isOneOf(source: Buffer, field: Field, names: readonly string[]): boolean {
  for (const name of names) if (isNamed(source, field, name)) return true;
  return false;
}

function isChangedLater(edits: readonly Edits[], index: number, key: string): boolean {
  for (let i = index + 1; i < edits.length; i++) if (Object.hasOwn(edits[i]!, key)) return true;
  return false;
}

/** Words of the protocol are few; each is quoted once. */
const words = new Map<string, string>();
const MOST_WORDS = 512;

export function quoted(text: string): string {
  let known = words.get(text);
  if (known === undefined) {
    known = JSON.stringify(text);
    if (words.size < MOST_WORDS && text.length < 64) words.set(text, known);
  }
  return known;
}

/** A piece of a JSON text, written here or passed on. */
export type Piece = string | Buffer;

/** One buffer of all the pieces. */
export function joined(pieces: readonly Piece[], from = 0, to = pieces.length): Buffer {
  if (to - from === 1) {
    const only = pieces[from]!;
    return typeof only === 'string' ? Buffer.from(only) : only;
  }
  let size = 0;
  for (let i = from; i < to; i++) {
    const piece = pieces[i]!;
    size += typeof piece === 'string' ? Buffer.byteLength(piece) : piece.length;
  }
  const buffer = Buffer.allocUnsafe(size);
  let at = 0;
  for (let i = from; i < to; i++) {
    const piece = pieces[i]!;
    at += typeof piece === 'string' ? buffer.write(piece, at) : piece.copy(buffer, at);
  }
  return buffer;
}

/** Pieces below this length are cheaper to copy than to send on their own. */
const SHORT = 16 * 1024;

/** The pieces as few buffers: short ones are joined with their neighbours, a long one is passed on without a copy. */
export function gathered(pieces: readonly Piece[]): Buffer[] {
  const buffers: Buffer[] = [];
  let from = 0;
  for (let i = 0; i < pieces.length; i++) {
    const piece = pieces[i]!;
    if (piece.length < SHORT || typeof piece === 'string') continue;
    if (i > from) buffers.push(joined(pieces, from, i));
    buffers.push(piece);
    from = i + 1;
  }
  if (pieces.length > from) buffers.push(joined(pieces, from));
  return buffers;
}

const texts = new WeakMap<object, string>();

/** The JSON text of a value that never changes, such as what a program says of itself; written once. */
export function textOf(value: object): string {
  let text = texts.get(value);
  if (text === undefined) {
    text = JSON.stringify(value);
    texts.set(value, text);
  }
  return text;
}

/** The spans of a JSON array's elements, as bytes. */
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

/**
 * Whether no value nests deeper than `cap`. Asked before parsing: `JSON.parse` takes a million levels and stalls the loop,
 * and what it returns can then not be written again.
 */
export function depthWithin(source: Buffer, cap: number): boolean {
  let depth = 0;
  let i = 0;
  const end = source.length;
  while (i < end) {
    const byte = source[i]!;
    if (byte === QUOTE) {
      i++;
      while (i < end && source[i] !== QUOTE) i += source[i] === BACKSLASH ? 2 : 1;
    } else if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) {
      if (++depth > cap) return false;
    } else if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) depth--;
    i++;
  }
  return true;
}
