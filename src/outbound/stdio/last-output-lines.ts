import type { OutputLine } from '../../core/upstream.js';

const MAX_LINES = 500;
const MAX_CHARACTERS = 64 * 1024;

/** The last output lines of all processes of one server, limited in number and size. */
export class LastOutputLines {
  readonly #lines: OutputLine[] = [];
  #characters = 0;

  add(line: OutputLine): void {
    this.#lines.push(line);
    this.#characters += line.text.length;
    while (this.#lines.length > MAX_LINES || this.#characters > MAX_CHARACTERS)
      this.#characters -= this.#lines.shift()!.text.length;
  }

  lines(): readonly OutputLine[] {
    return [...this.#lines];
  }
}

const LF = 0x0a;
/** Maximum number of characters of a line. Longer lines are cut. */
const MAX_BYTES = 2000;

/**
 * Splits an endless stream of text into lines with limited memory. Lines are copies, because a slice would keep its
 * whole chunk in memory.
 */
export class TextLines {
  readonly #line: (text: string) => void;
  #held = Buffer.alloc(0);
  #skipping = false;

  constructor(line: (text: string) => void) {
    this.#line = line;
  }

  push(chunk: Buffer): void {
    let start = 0;
    for (let end = chunk.indexOf(LF); end !== -1; end = chunk.indexOf(LF, start)) {
      if (!this.#skipping) this.#finish(chunk.subarray(start, end));
      this.#skipping = false;
      start = end + 1;
    }
    if (this.#skipping || start === chunk.length) return;
    const rest = chunk.subarray(start);
    if (this.#held.length + rest.length <= MAX_BYTES) this.#held = Buffer.concat([this.#held, rest]);
    else {
      this.#finish(rest);
      this.#skipping = true;
    }
  }

  /** Emits the last line at the end of the stream. */
  end(): void {
    if (this.#held.length > 0) this.#finish(Buffer.alloc(0));
  }

  #finish(rest: Buffer): void {
    const room = MAX_BYTES - this.#held.length;
    const bytes =
      this.#held.length === 0 ? rest.subarray(0, room) : Buffer.concat([this.#held, rest.subarray(0, room)]);
    this.#held = Buffer.alloc(0);
    // The cut may split a character.
    const text = bytes.toString('utf8');
    this.#line(rest.length > room ? `${text.replace(/\uFFFD+$/, '')}…` : text);
  }
}
