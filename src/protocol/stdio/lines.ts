/** stdio framing: one JSON text per line (STD-01). Bytes in, bytes out; nothing is parsed here. */

const LF = 0x0a;
const CR = 0x0d;
const FIRST_ROOM = 64 * 1024;

export interface LineSink {
  /** One line that looks like a JSON-RPC message. The receiver may keep the bytes. */
  message(line: Buffer): void;
  /** A line that is not a message (a log line on stdout, a banner). `preview` is its beginning. */
  bad(preview: Buffer): void;
  /** A line longer than `maxLine`. Its bytes are dropped; reported once per line, as soon as the limit is exceeded. */
  tooLong(): void;
}

/**
 * Splits a byte stream into lines. `maxLine` bounds the memory: an endless line is dropped at the limit and skipped to
 * its end, and a line that arrives byte by byte is collected in one growing buffer, not in a list of chunks.
 */
export class LineReader {
  #held: Buffer | undefined;
  #length = 0;
  #skipping = false;
  readonly #maxLine: number;
  readonly #sink: LineSink;

  constructor(maxLine: number, sink: LineSink) {
    this.#maxLine = maxLine;
    this.#sink = sink;
  }

  push(chunk: Buffer): void {
    let start = 0;
    for (;;) {
      const end = chunk.indexOf(LF, start);
      if (end === -1) break;
      this.#finish(chunk, start, end);
      start = end + 1;
    }
    if (start < chunk.length) this.#hold(chunk, start);
  }

  /**
   * The stream ended. A last line without a newline is a message only if it is complete, which only a parser can
   * decide: half a message must never be passed on.
   */
  end(): void {
    if (this.#length === 0 || this.#skipping) return;
    const line = this.#take();
    const text = trim(line);
    if (text.length === 0) return;
    if (looksLikeMessage(text) && parses(text)) this.#sink.message(text);
    else this.#sink.bad(preview(text));
  }

  #finish(chunk: Buffer, start: number, end: number): void {
    if (this.#skipping) {
      this.#skipping = false;
      return;
    }
    let line: Buffer;
    if (this.#length === 0) {
      line = chunk.subarray(start, end);
      // The CR of a CRLF does not count towards the limit.
      if (line.length > this.#maxLine + 1) {
        this.#sink.tooLong();
        return;
      }
    } else {
      if (end > start) this.#hold(chunk.subarray(0, end), start);
      if (this.#skipping) {
        this.#skipping = false;
        return;
      }
      line = this.#take();
    }
    const text = trim(line);
    if (text.length === 0) return;
    if (text.length > this.#maxLine) this.#sink.tooLong();
    else if (looksLikeMessage(text)) this.#sink.message(text);
    else this.#sink.bad(preview(text));
  }

  #hold(chunk: Buffer, start: number): void {
    if (this.#skipping) return;
    const more = chunk.length - start;
    const length = this.#length + more;
    if (length > this.#maxLine + 1) {
      this.#held = undefined;
      this.#length = 0;
      this.#skipping = true;
      this.#sink.tooLong();
      return;
    }
    let held = this.#held;
    if (held === undefined || held.length < length) {
      const room = Math.min(Math.max(length * 2, FIRST_ROOM), this.#maxLine + 1);
      const grown = Buffer.allocUnsafeSlow(room);
      if (held !== undefined) held.copy(grown, 0, 0, this.#length);
      held = grown;
      this.#held = held;
    }
    chunk.copy(held, this.#length, start);
    this.#length = length;
  }

  #take(): Buffer {
    const line = (this.#held ?? Buffer.alloc(0)).subarray(0, this.#length);
    this.#held = undefined;
    this.#length = 0;
    return line;
  }
}

/**
 * A message as written to the wire, without its final newline. Valid JSON has raw line breaks only between tokens
 * (inside strings they are escaped), so replacing them with spaces puts a pretty-printed message on one line (STD-01).
 */
export function oneLine(message: Buffer | string): Buffer | string {
  if (typeof message === 'string') {
    return message.includes('\n') || message.includes('\r') ? message.replace(/[\r\n]/g, ' ') : message;
  }
  if (message.indexOf(LF) === -1 && message.indexOf(CR) === -1) return message;
  const copy = Buffer.from(message);
  for (let i = 0; i < copy.length; i++) {
    if (copy[i] === LF || copy[i] === CR) copy[i] = 0x20;
  }
  return copy;
}

/**
 * True for `{"…}`, `{}` and `[{…}]`, the first and last characters of a JSON-RPC message or batch. Distinguishes
 * messages from log lines such as `[12:00:01] [info]` without parsing; a later parser finds other errors.
 */
export function looksLikeMessage(text: Buffer): boolean {
  const last = text[text.length - 1];
  if (text[0] === 0x7b) {
    const next = text[skipBlank(text, 1)];
    return last === 0x7d && (next === 0x22 || next === 0x7d);
  }
  if (text[0] === 0x5b) return last === 0x5d && text[skipBlank(text, 1)] === 0x7b;
  return false;
}

/** The line without surrounding white space, the CR of a CRLF, and a byte order mark. */
function trim(line: Buffer): Buffer {
  let start = skipBlank(line, 0);
  if (line[start] === 0xef && line[start + 1] === 0xbb && line[start + 2] === 0xbf) start = skipBlank(line, start + 3);
  let end = line.length;
  while (end > start && isBlank(line[end - 1])) end--;
  return start === 0 && end === line.length ? line : line.subarray(start, end);
}

function skipBlank(text: Buffer, at: number): number {
  let i = at;
  while (i < text.length && isBlank(text[i])) i++;
  return i;
}

function isBlank(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x09 || byte === CR || byte === LF;
}

function preview(text: Buffer): Buffer {
  return text.subarray(0, 120);
}

function parses(text: Buffer): boolean {
  try {
    JSON.parse(text.toString('utf8'));
    return true;
  } catch {
    return false;
  }
}
