import type { InboundResponse } from './response.js';

/**
 * Sends a response with a whole body. `written` is called when all of it was handed to the system, and never if the
 * connection was lost before.
 */
export function sendBody(
  res: InboundResponse,
  status: number,
  headers: readonly string[],
  contentType: string,
  body: readonly Buffer[],
  written?: () => void,
): void {
  res.send(status, [...headers, 'Content-Type', contentType], body);
  if (written)
    res.onClose(() => {
      if (res.finished) written();
    });
}

/** Sends a response with a whole body that is a string. */
export function sendText(
  res: InboundResponse,
  status: number,
  headers: readonly string[],
  contentType: string,
  text: string,
): void {
  res.sendText(status, [...headers, 'Content-Type', contentType], text);
}

export function sendJson(
  res: InboundResponse,
  status: number,
  headers: readonly string[],
  body: readonly Buffer[],
  written?: () => void,
): void {
  sendBody(res, status, headers, 'application/json', body, written);
}

export function sendEmpty(res: InboundResponse, status: number, headers: readonly string[]): void {
  res.send(status, headers, []);
}
