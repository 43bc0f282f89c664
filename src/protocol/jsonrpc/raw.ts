/**
 * JSON texts as bytes. The gateway passes a result on as the bytes the upstream wrote. Members that must change at an
 * edge (an id, `resultType`, a `_meta` key) are replaced by span, so that no other member is parsed, reordered or
 * rounded.
 */
import { between, type Gap, NO_GAPS } from './gapped-message.js';
import { Assembly, isShortText, joined, type Piece, quoted } from './json-pieces.js';
import {
  type Field,
  fail,
  isNamed,
  isSameKey,
  isText,
  keyText,
  OPEN_OBJECT,
  readSpans,
  type Spans,
  skipSpace,
  wholeNumber,
} from './scan.js';

export type JsonValue = string | number | boolean | null | JsonObject | JsonValue[];
export interface JsonObject {
  [key: string]: JsonValue | undefined;
}

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

export function isEmpty(object: object): boolean {
  for (const _ in object) return false;
  return true;
}

/** Up to this number of members, pairwise comparison is faster than a set. */
const FEW_FIELDS = 16;

/** The new JSON text of a member, or `undefined` to remove it. A key that does not exist is added. */
export type Edits = { readonly [key: string]: string | Buffer | undefined };

/**
 * One JSON object as bytes, with the spans of its members. An edited object keeps its origin and the list of edits
 * until its bytes are needed, so that several edits cost one serialisation.
 */
export class RawObject {
  private parsed: JsonObject | undefined;
  /** The original object and the edits since, the latest last. */
  private origin: { readonly base: RawObject; readonly edits: readonly Edits[] } | undefined;

  private constructor(
    private known: Spans | undefined,
    /** Long values outside of the bytes. */
    private readonly gaps: readonly Gap[] = NO_GAPS,
  ) {}

  private get spans(): Spans {
    this.known ??= readSpans(joined(this.pieces()), 0);
    return this.known;
  }

  /**
   * Reads the members of the object that starts at `offset` (white space before it is skipped). `path` names the inner
   * objects that will be needed, so that a long text is scanned once.
   */
  static at(source: Buffer, offset = 0, path?: readonly string[]): RawObject {
    return new RawObject(readSpans(source, offset, path));
  }

  /** Like `at`, but only white space may follow the object. */
  static whole(source: Buffer, path?: readonly string[], gaps?: readonly Gap[]): RawObject {
    const object = new RawObject(readSpans(source, 0, path), gaps);
    const rest = skipSpace(source, object.spans.end);
    if (rest < source.length) fail(source, rest);
    return object;
  }

  static from(value: object): RawObject {
    const object = RawObject.at(Buffer.from(JSON.stringify(value)));
    object.parsed = value as JsonObject;
    return object;
  }

  /** An object of members whose JSON texts are known, without scanning them again. */
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

  get isEmpty(): boolean {
    return this.spans.fields.length === 0;
  }

  keys(): string[] {
    const { source, fields } = this.spans;
    return fields.map((field) => keyText(source, field));
  }

  /** The first duplicate key. Parsers disagree whether the first or the last value counts. */
  duplicateKey(): string | undefined {
    const { source, fields } = this.spans;
    if (fields.length > FEW_FIELDS) {
      // Pairwise comparison of many keys would block the event loop.
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

  /** Whether the object has no member besides this one. */
  hasOnly(key: string): boolean {
    const { source, fields } = this.spans;
    for (const field of fields) if (!isNamed(source, field, key)) return false;
    return true;
  }

  private find(key: string): Field | undefined {
    const { source, fields } = this.spans;
    for (let i = fields.length - 1; i >= 0; i--) {
      const field = fields[i]!;
      if (isNamed(source, field, key)) return field;
    }
    return undefined;
  }

  /** The latest edit of this member. */
  private changeOf(key: string): Edits | undefined {
    return this.origin?.edits.findLast((each) => Object.hasOwn(each, key));
  }

  has(key: string): boolean {
    if (this.known || !this.origin) return this.find(key) !== undefined;
    const latest = this.changeOf(key);
    return latest ? latest[key] !== undefined : this.origin.base.has(key);
  }

  /** The member's JSON text; undefined if there is no such member. */
  raw(key: string): Buffer | undefined {
    const field = this.find(key);
    return field && this.text(field);
  }

  private text({ start, end }: Field): Buffer {
    const { source } = this.spans;
    return this.gaps.length === 0 ? source.subarray(start, end) : joined(between(source, this.gaps, start, end));
  }

  /** Whether the member's JSON text contains these bytes. */
  mentions(key: string, word: Buffer): boolean {
    const field = this.find(key);
    if (!field) return false;
    const { source } = this.spans;
    if (this.gaps.length === 0) return source.subarray(field.start, field.end).includes(word);
    return mention(between(source, this.gaps, field.start, field.end), word);
  }

  /** The member's value, parsed now. */
  get(key: string): JsonValue | undefined {
    if (this.parsed) return this.parsed[key];
    if (this.origin) {
      const latest = this.changeOf(key);
      if (!latest) return this.origin.base.get(key);
      const text = latest[key];
      return text === undefined ? undefined : parsedText(text.toString());
    }
    const field = this.find(key);
    if (!field) return undefined;
    if (this.gaps.length > 0) return JSON.parse(this.text(field).toString('utf8')) as JsonValue;
    const { source } = this.spans;
    return (
      wholeNumber(source, field.start, field.end) ??
      (JSON.parse(source.toString('utf8', field.start, field.end)) as JsonValue)
    );
  }

  /** Whether the member's JSON text is exactly this ASCII text. Compares bytes. */
  is(key: string, text: string): boolean {
    if (!this.known && this.origin) return false;
    const field = this.find(key);
    return field !== undefined && isText(this.spans.source, field.start, field.end, text);
  }

  /** The member as a RawObject, if it is an object. */
  object(key: string): RawObject | undefined {
    const field = this.find(key);
    if (!field) return undefined;
    const { source } = this.spans;
    if (this.isGap(field)) {
      const text = this.text(field);
      return text[skipSpace(text, 0)] === OPEN_OBJECT ? RawObject.at(text) : undefined;
    }
    if (source[field.start] !== OPEN_OBJECT) return undefined;
    return new RawObject(field.inner ?? readSpans(source, field.start), this.gaps);
  }

  private isGap({ start }: Field): boolean {
    for (const { at } of this.gaps) if (at === start) return true;
    return false;
  }

  /** Whether the member's JSON text starts with this character, such as `{` for an object. */
  startsWith(key: string, character: string): boolean {
    const field = this.find(key);
    if (!field) return false;
    const gap = this.isGap(field) ? this.text(field) : undefined;
    const first = gap ? gap[skipSpace(gap, 0)] : this.spans.source[field.start];
    return first === character.charCodeAt(0);
  }

  /** The number of bytes of the text, without building it. */
  get size(): number {
    let size = 0;
    for (const piece of this.pieces()) size += Buffer.byteLength(piece);
    return size;
  }

  bytes(): Buffer {
    const { source, start, end } = this.spans;
    return this.gaps.length === 0 ? source.subarray(start, end) : joined(between(source, this.gaps, start, end));
  }

  /** The text as pieces to write in order, without a copy. */
  pieces(): Piece[] {
    if (this.origin && !this.known) return this.origin.base.edited(this.origin.edits);
    return this.allPieces();
  }

  private allPieces(): Piece[] {
    const { source, start, end } = this.spans;
    return this.gaps.length === 0 ? [source.subarray(start, end)] : between(source, this.gaps, start, end);
  }

  value(): JsonObject {
    this.parsed ??= JSON.parse(this.bytes().toString('utf8')) as JsonObject;
    return this.parsed;
  }

  /** Stores the value of these bytes if they were parsed before as part of a larger text. */
  withValue(value: JsonObject): this {
    this.parsed = value;
    return this;
  }

  /** The object with some members replaced, removed or added; the bytes of all others do not change. */
  edit(edits: Edits): RawObject {
    const { origin } = this;
    const edited = new RawObject(undefined);
    edited.origin = origin ? { base: origin.base, edits: [...origin.edits, edits] } : { base: this, edits: [edits] };
    return edited;
  }

  private edited(edits: readonly Edits[]): Piece[] {
    const { source, start, fields } = this.spans;
    const names: string[] = [];
    let changes = false;
    for (const layer of edits) {
      for (const name of Object.keys(layer)) {
        names.push(name);
        changes ||= layer[name] !== undefined || this.find(name) !== undefined;
      }
    }
    if (!changes) return this.allPieces();
    const { gaps } = this;
    const short = gaps.length === 0 && isShortText(source);
    const out = new Assembly();
    let first = true;
    for (let i = 0; i < fields.length; ) {
      if (isOneOf(source, fields[i]!, names)) {
        i++;
        continue;
      }
      // Unchanged members are passed on in runs with the text between them; the first run includes the opening brace.
      const runStart = i === 0 ? start : fields[i]!.from;
      let last = i++;
      while (i < fields.length && !isOneOf(source, fields[i]!, names)) last = i++;
      if (runStart !== start) out.add(first ? '{' : ',');
      const { end } = fields[last]!;
      if (short) out.add(source.toString('latin1', runStart, end));
      else if (gaps.length === 0) out.add(source.subarray(runStart, end));
      else for (const piece of between(source, gaps, runStart, end)) out.add(piece);
      first = false;
    }
    if (first) out.add('{');
    for (let i = 0; i < edits.length; i++) {
      const layer = edits[i]!;
      for (const key of Object.keys(layer)) {
        const value = layer[key];
        if (value === undefined || isChangedLater(edits, i, key)) continue;
        out.add(`${first ? '' : ','}${quoted(key)}:`);
        out.add(value);
        first = false;
      }
    }
    out.add('}');
    return out.done();
  }
}

/** Whether a text in parts contains these bytes, also across the boundary of two parts. */
function mention(parts: readonly Buffer[], word: Buffer): boolean {
  let before = NOTHING;
  for (const part of parts) {
    if (part.includes(word)) return true;
    const seam = Buffer.concat([before, part.subarray(0, word.length - 1)]);
    if (seam.includes(word)) return true;
    before = Buffer.concat([before, part.subarray(-(word.length - 1))]).subarray(-(word.length - 1));
  }
  return false;
}

const NOTHING = Buffer.alloc(0);

/** The value of a text that the gateway wrote; mostly a plain string, which needs no parser. */
const parsedText = (text: string): JsonValue =>
  text.startsWith('"') && !text.includes('\\') ? text.slice(1, -1) : (JSON.parse(text) as JsonValue);

function isOneOf(source: Buffer, field: Field, names: readonly string[]): boolean {
  for (const name of names) if (isNamed(source, field, name)) return true;
  return false;
}

function isChangedLater(edits: readonly Edits[], index: number, key: string): boolean {
  for (let i = index + 1; i < edits.length; i++) if (Object.hasOwn(edits[i]!, key)) return true;
  return false;
}
