/**
 * A long message that arrives in parts. Joining the parts costs as much as receiving them, so a long member of the
 * result (or of the params) stays in its parts: the message is a short text with gaps.
 */
import { BodyBuffer } from '../http/body-buffer.js';
import {
  BACKSLASH,
  CLOSE_ARRAY,
  CLOSE_OBJECT,
  COLON,
  COMMA,
  OPEN_ARRAY,
  OPEN_OBJECT,
  QUOTE,
  quoteFrom,
} from './scan.js';

/** The value of one member, left out of the text. */
export interface Gap {
  /** The offset of the placeholder byte in the text. */
  readonly at: number;
  readonly parts: readonly Buffer[];
}

/** A JSON text with the placeholder `0` in each gap instead of a long value. */
export interface GappedText {
  readonly text: Buffer;
  /** In the order of their offsets. */
  readonly gaps: readonly Gap[];
}

export const NO_GAPS: readonly Gap[] = [];

/** The number of bytes of a message, including those in its gaps. */
export function byteLength(source: Buffer | GappedText): number {
  if (Buffer.isBuffer(source)) return source.length;
  let bytes = source.text.length;
  for (const { parts } of source.gaps) for (const part of parts) bytes += part.length;
  return bytes;
}

const STAND_IN = Buffer.from('0');
/**
 * The least number of bytes that the first part of a value must contain to make it a gap. Smaller values are copied,
 * because a gap costs memory and the sender decides where parts end.
 */
const LEAST_GAP = 4 * 1024;
/** The depth of the members that may become gaps: those of an object inside the outermost object. */
const LEVEL = 2;

/** Finds the values that become gaps while a message arrives, in one pass over its bytes. */
export class GappedReader {
  private readonly text = new BodyBuffer();
  private readonly gaps: Gap[] = [];
  /** The parts of a value that began in an earlier part. */
  private gap: BodyBuffer | undefined;
  private depth = 0;
  private inString = false;
  /** The next byte follows a backslash. */
  private escaped = false;
  /** The scan is between the colon of a member at `LEVEL` and the end of its value. */
  private inValue = false;
  /** The part of that value that the scan has passed: nothing, the start of a number or word, or the whole value. */
  private token: 'none' | 'scalar' | 'whole' = 'none';
  /** Whether a member has several values or no value. The message is then not valid JSON. */
  private malformed = false;

  constructor(private readonly leastGap = LEAST_GAP) {}

  /** The caller must not write to the part afterwards. */
  add(part: Buffer): void {
    const end = part.length;
    let i = 0;
    // `taken`: the bytes before this offset are stored. `valueStart`: the start of the current value, if it begins in
    // this part.
    let taken = 0;
    let valueStart = -1;
    while (i < end) {
      if (this.inString) {
        i = this.skipString(part, i);
        continue;
      }
      const byte = part[i++]!;
      if (this.inValue && this.depth === LEVEL) this.follow(byte);
      switch (byte) {
        case QUOTE:
          this.inString = true;
          break;
        case OPEN_OBJECT:
        case OPEN_ARRAY:
          this.depth++;
          break;
        case CLOSE_OBJECT:
        case CLOSE_ARRAY:
          if (this.depth-- === LEVEL && this.inValue) taken = this.endValue(part, i - 1, taken);
          break;
        case COMMA:
          if (this.depth === LEVEL && this.inValue) taken = this.endValue(part, i - 1, taken);
          break;
        case COLON:
          if (this.depth === LEVEL && !this.inValue) {
            this.inValue = true;
            this.token = 'none';
            valueStart = i;
          }
      }
    }
    if (this.gap) this.gap.add(part);
    else if (this.inValue && valueStart >= 0 && end - valueStart >= this.leastGap) {
      this.text.add(part.subarray(taken, valueStart));
      this.gap = new BodyBuffer();
      this.gap.add(part.subarray(valueStart));
    } else this.text.add(part.subarray(taken));
  }

  /** Returns the offset up to which the part is stored. */
  private endValue(part: Buffer, at: number, taken: number): number {
    this.inValue = false;
    const { gap } = this;
    if (!gap) return taken;
    gap.add(part.subarray(0, at));
    this.gaps.push({ at: this.text.size, parts: gap.takeAll() });
    this.text.add(STAND_IN);
    this.gap = undefined;
    return at;
  }

  /** Checks that a member has exactly one value, because the content of a gap is not parsed later. */
  private follow(byte: number): void {
    switch (byte) {
      case 0x20:
      case 0x09:
      case 0x0a:
      case 0x0d:
        if (this.token === 'scalar') this.token = 'whole';
        break;
      case COMMA:
      case CLOSE_OBJECT:
      case CLOSE_ARRAY:
        if (this.token === 'none') this.malformed = true;
        break;
      case QUOTE:
      case OPEN_OBJECT:
      case OPEN_ARRAY:
        if (this.token !== 'none') this.malformed = true;
        this.token = 'whole';
        break;
      default:
        if (this.token === 'whole') this.malformed = true;
        else this.token = 'scalar';
    }
  }

  /** `at` is inside a string; returns the offset after its closing quote, or the end of the part. */
  private skipString(part: Buffer, at: number): number {
    const from = this.escaped ? at + 1 : at;
    const quote = quoteFrom(part, from);
    if (quote >= 0) {
      this.escaped = false;
      this.inString = false;
      return quote + 1;
    }
    let slashes = 0;
    while (part.length - 1 - slashes >= from && part[part.length - 1 - slashes] === BACKSLASH) slashes++;
    this.escaped = slashes % 2 === 1;
    return part.length;
  }

  /** The message received so far. A value without an end becomes part of the text again. */
  take(): Buffer | GappedText {
    if (this.gap) for (const part of this.gap.takeAll()) this.text.add(part);
    this.gap = undefined;
    const text = this.text.take();
    if (this.gaps.length === 0) return text;
    // The reader of the whole text reports the error.
    if (this.malformed) return Buffer.concat(between(text, this.gaps, 0, text.length));
    return { text, gaps: this.gaps };
  }
}

/** The bytes of a text between two offsets, including those in its gaps. */
export function between(text: Buffer, gaps: readonly Gap[], from: number, to: number): Buffer[] {
  const pieces: Buffer[] = [];
  let at = from;
  for (const gap of gaps) {
    if (gap.at < from || gap.at >= to) continue;
    if (gap.at > at) pieces.push(text.subarray(at, gap.at));
    pieces.push(...gap.parts);
    at = gap.at + 1;
  }
  if (to > at) pieces.push(text.subarray(at, to));
  return pieces;
}
