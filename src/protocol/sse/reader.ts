import { BodyBuffer } from '../http/body-buffer.js';

/**
 * Reads an event stream from bytes. Data stays bytes: the gateway passes it on without decoding it. Comment lines are
 * dropped (HC-03).
 */
export interface SseEvent {
  readonly event: string;
  readonly data: Buffer;
  /** The id of this event, if the event itself has one. */
  readonly id: string | undefined;
}

export interface SseHandler {
  event(event: SseEvent): void;
  /** The server requests a wait of this many milliseconds before a reconnect. */
  retry?(milliseconds: number): void;
}

/** Whether a body of this content type is an event stream. */
export const isEventStream = (type: string | undefined): boolean =>
  type !== undefined && /^text\/event-stream/i.test(type);

export class SseOverflow extends Error {
  override readonly name = 'SseOverflow';
}

const LF = 0x0a;
const CR = 0x0d;
const COLON = 0x3a;
const SPACE = 0x20;
const NEWLINE = Buffer.from('\n');
const EMPTY = Buffer.alloc(0);
const MANY_LINES = 1_024;

export class SseReader {
  /** The beginning of an unfinished line. */
  private readonly held = new BodyBuffer();
  private readonly data: Buffer[] = [];
  private dataBytes = 0;
  /** The number of leading parts of `data` that are already joined lines. */
  private joined = 0;
  private eventName = '';
  private id: string | undefined;
  private skipLf = false;
  private atStart = true;

  /** `limit` bounds one event including its unfinished line, so that an endless line cannot fill the memory. */
  constructor(
    private readonly handler: SseHandler,
    private readonly limit: number,
  ) {}

  push(chunk: Buffer): void {
    let start = 0;
    if (this.atStart && chunk.length > 0) {
      this.atStart = false;
      if (chunk[0] === 0xef && chunk[1] === 0xbb && chunk[2] === 0xbf) start = 3;
    }
    while (start < chunk.length) {
      if (this.skipLf) {
        this.skipLf = false;
        if (chunk[start] === LF) {
          start++;
          continue;
        }
      }
      const end = lineEnd(chunk, start);
      if (end < 0) {
        this.hold(chunk.subarray(start));
        return;
      }
      let line = chunk.subarray(start, end);
      if (this.held.size > 0) {
        this.hold(line);
        line = this.held.take();
      }
      this.skipLf = chunk[end] === CR;
      start = end + 1;
      this.line(line);
    }
  }

  private hold(part: Buffer): void {
    const { held } = this;
    if (held.size + part.length + this.dataBytes > this.limit)
      throw new SseOverflow(`an event exceeds ${this.limit} bytes`);
    // The first part is copied: it may be the small rest of a large read, and it may be stored for a long time.
    held.add(held.size === 0 ? Buffer.from(part) : part);
  }

  private line(line: Buffer): void {
    if (line.length === 0) {
      this.dispatch();
      return;
    }
    const colon = line.indexOf(COLON);
    if (colon === 0) return;
    const field = line.toString('latin1', 0, colon < 0 ? line.length : colon);
    let valueStart = colon < 0 ? line.length : colon + 1;
    if (line[valueStart] === SPACE) valueStart++;
    const value = line.subarray(valueStart);
    switch (field) {
      case 'data':
        this.dataBytes += value.length + 1;
        if (this.dataBytes > this.limit) throw new SseOverflow(`an event exceeds ${this.limit} bytes`);
        this.data.push(value);
        if (this.data.length - this.joined >= MANY_LINES) {
          // Lines are joined in groups. With one object per line, millions of one-byte lines would need a hundred times
          // the memory of the limit.
          this.data.push(joinLines(this.data.splice(this.joined)));
          this.joined = this.data.length;
        }
        break;
      case 'event':
        this.eventName = value.toString('utf8');
        break;
      case 'id':
        if (!value.includes(0)) this.id = value.toString('utf8');
        break;
      case 'retry': {
        const text = value.toString('latin1');
        if (/^\d+$/.test(text)) this.handler.retry?.(Number(text));
        break;
      }
    }
  }

  private dispatch(): void {
    const { eventName, id } = this;
    const parts = this.data.splice(0);
    this.dataBytes = 0;
    this.joined = 0;
    this.eventName = '';
    this.id = undefined;
    // An id without data still moves the resume point: a priming event is such an event (HL-05).
    if (parts.length === 0 && id === undefined) return;
    this.handler.event({ event: eventName || 'message', data: joinLines(parts), id });
  }
}

function lineEnd(chunk: Buffer, from: number): number {
  const lf = chunk.indexOf(LF, from);
  const cr = chunk.subarray(from, lf < 0 ? chunk.length : lf).indexOf(CR);
  return cr < 0 ? lf : from + cr;
}

function joinLines(parts: Buffer[]): Buffer {
  if (parts.length === 0) return EMPTY;
  if (parts.length === 1) return parts[0]!;
  const joined: Buffer[] = [];
  for (const part of parts) joined.push(part, NEWLINE);
  joined.pop();
  return Buffer.concat(joined);
}
