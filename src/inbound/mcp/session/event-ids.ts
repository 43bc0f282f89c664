import type { Id } from '../../../protocol/jsonrpc/message.js';

/** Maximum number of bytes of a request id in an event id. Longer request ids are left out. */
const MOST_BYTES = 40;

export const eventId = (stream: string, seq: number): string => `${stream}.${seq}`;

/** The stream and the number an event id stands for. */
export function streamOf(event: string): { readonly stream: string; readonly seq: number } | undefined {
  const match = /^([A-Za-z0-9-]{1,128})\.(\d{1,9})$/.exec(event);
  return match ? { stream: match[1]!, seq: Number(match[2]) } : undefined;
}

/** Whether an event belongs to the messages of a session that answer no request. */
export const isGetEvent = (event: string): boolean => /^[A-Za-z0-9-]{1,120}-g\d{1,9}\.\d{1,9}$/.test(event);

/**
 * The part of a stream's name that contains the request it answers. If a replica finds no events for an event id, it
 * can still answer the request with an error, so that the client does not wait for a reply that never comes.
 */
export function requestPart(request: Id | undefined): string {
  if (typeof request === 'number') return Number.isSafeInteger(request) && request >= 0 ? `n${request}-` : '';
  if (request === undefined || request === '' || Buffer.byteLength(request) > MOST_BYTES) return '';
  return `t${Buffer.from(request).toString('hex')}-`;
}

/** The request whose reply contains this event; undefined if the id does not name it. */
export function requestOf(event: string): Id | undefined {
  const match = /-(?:n(\d{1,16})|t((?:[0-9a-f]{2}){1,40}))-[a-z]\d{1,9}\.\d{1,9}$/.exec(event);
  if (match?.[1] !== undefined) return Number(match[1]);
  return match?.[2] === undefined ? undefined : Buffer.from(match[2], 'hex').toString('utf8');
}
