import { CR, HttpSyntaxError, isBlank, LF } from './fields.js';

type Step =
  | 'size'
  | 'blanks'
  | 'extension'
  | 'size-end'
  | 'data'
  | 'data-cr'
  | 'data-lf'
  | 'trailer'
  | 'trailer-end'
  | 'over';

const SEMICOLON = 59;
/** Hexadecimal digits of a chunk's size: more than any body has bytes, and still an exact number. */
const DIGITS = 13;
/** What chunks may say beside the body. */
const MOST_UNREAD = 32 * 1024;

/** Takes a chunked body apart (RFC 9112 §7.1), however the pieces it comes in are cut. */
export class ChunkedBody {
  private step: Step = 'size';
  private left = 0;
  private digits = 0;
  /** Bytes of a chunk's extensions, or of the trailers, which nobody reads. */
  private unread = 0;
  /** Whether the trailer's current line has anything in it. */
  private filled = false;
  /** Where the part of a chunk begins behind which `read` stopped; where it stopped, if there is none. */
  from = 0;

  get over(): boolean {
    return this.step === 'over';
  }

  /** Reads on from `at` and returns where it stopped: at `end`, behind the body, or behind a part of a chunk. */
  read(source: Buffer, at: number, end: number): number {
    let i = at;
    while (i < end && this.step !== 'over') {
      if (this.step === 'data') {
        this.from = i;
        i = Math.min(end, i + this.left);
        this.left -= i - this.from;
        if (this.left === 0) this.step = 'data-cr';
        return i;
      }
      this.take(source[i++]!);
    }
    this.from = i;
    return i;
  }

  private take(byte: number): void {
    switch (this.step) {
      case 'size':
        this.size(byte);
        return;
      case 'blanks':
        if (isBlank(byte)) this.skip(byte);
        else this.sized(byte);
        return;
      case 'extension':
        if (byte === CR) this.step = 'size-end';
        else this.skip(byte);
        return;
      case 'size-end':
        if (byte !== LF) throw new HttpSyntaxError('the size of a chunk does not end with its line');
        this.step = this.left > 0 ? 'data' : 'trailer';
        this.digits = 0;
        this.unread = 0;
        return;
      case 'data-cr':
        if (byte !== CR) throw new HttpSyntaxError('a chunk is longer than it said');
        this.step = 'data-lf';
        return;
      case 'data-lf':
        if (byte !== LF) throw new HttpSyntaxError('a chunk is longer than it said');
        this.step = 'size';
        return;
      case 'trailer':
        if (byte === CR) this.step = 'trailer-end';
        else {
          this.filled = true;
          this.skip(byte);
        }
        return;
      case 'trailer-end':
        if (byte !== LF) throw new HttpSyntaxError('a trailer does not end with its line');
        this.step = this.filled ? 'trailer' : 'over';
        this.filled = false;
        return;
    }
  }

  private size(byte: number): void {
    const digit = hexadecimal(byte);
    if (digit >= 0) {
      if (++this.digits > DIGITS) throw new HttpSyntaxError('a chunk is too large');
      this.left = this.left * 16 + digit;
      return;
    }
    if (this.digits === 0) throw new HttpSyntaxError('a chunk has no size');
    if (isBlank(byte)) this.step = 'blanks';
    else this.sized(byte);
  }

  private sized(byte: number): void {
    if (byte === CR) this.step = 'size-end';
    else if (byte === SEMICOLON) this.step = 'extension';
    else throw new HttpSyntaxError('the size of a chunk is no number');
  }

  private skip(byte: number): void {
    if (byte === LF) throw new HttpSyntaxError('a line ends without a carriage return');
    if (++this.unread > MOST_UNREAD) throw new HttpSyntaxError('the chunks say too much beside the body');
  }
}

function hexadecimal(byte: number): number {
  if (byte >= 48 && byte <= 57) return byte - 48;
  const letter = byte | 32;
  return letter >= 97 && letter <= 102 ? letter - 87 : -1;
}
