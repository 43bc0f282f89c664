import type { InboundResponse } from './response.js';

/** Answers with a whole body. */
export function sendBody(
  res: InboundResponse,
  status: number,
  headers: readonly string[],
  contentType: string,
  body: readonly Buffer[],
): void {
  res.send(status, [...headers, 'Content-Type', contentType], body);
}

/** The same for what is a string already. */
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
): void {
  sendBody(res, status, headers, 'application/json', body);
}

export function sendEmpty(res: InboundResponse, status: number, headers: readonly string[]): void {
  res.send(status, headers, []);
}
