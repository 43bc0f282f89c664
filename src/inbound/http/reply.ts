import type { ServerResponse } from 'node:http';

/** Writes a whole body at once; small pieces are joined so that they leave in one packet. */
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
  if (body.length === 1) {
    res.end(body[0]);
    return;
  }
  if (length <= JOIN_LIMIT) {
    res.end(Buffer.concat(body, length));
    return;
  }
  res.cork();
  for (const part of body) res.write(part);
  res.end();
}

const JOIN_LIMIT = 64 * 1024;

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
