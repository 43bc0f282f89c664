/** Writing event streams. JSON texts hold no line breaks, so an event's data is one line. */

const DATA = Buffer.from('data: ');
const END = Buffer.from('\n\n');

export interface EventFields {
  readonly id?: string;
  readonly event?: string;
}

/** One event around a JSON text given in pieces. */
export function writeEvent(data: readonly Buffer[], fields: EventFields = {}): Buffer[] {
  const head = `event: ${fields.event ?? 'message'}\n${fields.id === undefined ? '' : `id: ${fields.id}\n`}`;
  return [Buffer.from(head), DATA, ...data, END];
}

/** The first event of a stream that can be resumed: an id to resume from and no data yet (HL-05). */
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

/** `X-Accel-Buffering` keeps reverse proxies from holding events back (HM-09). */
export const STREAM_HEADERS = {
  'Content-Type': EVENT_STREAM,
  'Cache-Control': 'no-cache, no-transform',
  'X-Accel-Buffering': 'no',
} as const;
