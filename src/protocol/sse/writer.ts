/** Writes event streams. A JSON text contains no line breaks here, so an event's data is one line. */

const DATA = Buffer.from('data: ');
const END = Buffer.from('\n\n');

export interface EventFields {
  readonly id?: string;
  readonly event?: string;
}

/** One event with a JSON text in pieces. */
export function writeEvent(data: readonly Buffer[], fields: EventFields = {}): Buffer[] {
  const head = `event: ${fields.event ?? 'message'}\n${fields.id === undefined ? '' : `id: ${fields.id}\n`}`;
  return [Buffer.from(head), DATA, ...data, END];
}

/** The first event of a resumable stream: an id to resume from, without data (HL-05). */
export function writePriming(id: string, retryMs: number): string {
  return `id: ${id}\nretry: ${retryMs}\ndata: \n\n`;
}

export function writeRetry(retryMs: number): string {
  return `retry: ${retryMs}\n\n`;
}

export function writeComment(text: string): string {
  return `: ${text}\n\n`;
}

export const EVENT_STREAM = 'text/event-stream';

/** `X-Accel-Buffering` prevents reverse proxies from buffering events (HM-09). */
export const STREAM_HEADERS = {
  'Content-Type': EVENT_STREAM,
  'Cache-Control': 'no-cache, no-transform',
  'X-Accel-Buffering': 'no',
} as const;
