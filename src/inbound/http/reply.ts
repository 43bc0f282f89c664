import type { ServerResponse } from 'node:http';
import { atEndOfTurn } from '../../core/turn.js';

/** Writes a whole body at once. A small one leaves in one piece with its head, which Node does for text only. */
export function sendBody(
  res: ServerResponse,
  status: number,
  headers: readonly string[],
  contentType: string,
  body: readonly Buffer[],
): void {
  let length = 0;
  for (const part of body) length += part.length;
  res.writeHead(status, [...headers, 'Content-Type', contentType, 'Content-Length', String(length)]);
  if (length <= ONE_PIECE) {
    let text = '';
    for (const part of body) text += part.toString('latin1');
    endWith(res, text, 'latin1');
    return;
  }
  res.cork();
  for (const part of body) res.write(part);
  res.end();
}

/** The same for what is a string already. */
export function sendText(
  res: ServerResponse,
  status: number,
  headers: readonly string[],
  contentType: string,
  text: string,
): void {
  const length = String(Buffer.byteLength(text));
  res.writeHead(status, [...headers, 'Content-Type', contentType, 'Content-Length', length]);
  endWith(res, text, 'utf8');
}

function endWith(res: ServerResponse, text: string, encoding: 'latin1' | 'utf8'): void {
  atEndOfTurn(() => {
    if (!res.destroyed) res.end(text, encoding);
  });
}

const ONE_PIECE = 16 * 1024;

export function sendJson(
  res: ServerResponse,
  status: number,
  headers: readonly string[],
  body: readonly Buffer[],
): void {
  sendBody(res, status, headers, 'application/json', body);
}

export function sendEmpty(res: ServerResponse, status: number, headers: readonly string[]): void {
  res.writeHead(status, [...headers, 'Content-Length', '0']);
  res.end();
}
