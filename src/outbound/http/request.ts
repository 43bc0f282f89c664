import { NOT_IN_VALUE, TOKEN } from '../../protocol/http/fields.js';
import { HttpError, type HttpRequest } from './exchange.js';

const PATH = /^\/[\x21-\x7e]*$/;
/** How the message is framed is said here and by nobody else. */
const OURS = /^(?:connection|content-length|expect|keep-alive|transfer-encoding|upgrade)$/i;

const unsendable = (why: string): HttpError => new HttpError('HTTP_UNSENDABLE', why);

/** The lines before the body, the empty one included. Throws where a header could be read as something else. */
export function requestHead(path: string, authority: string, { method, headers, body }: HttpRequest): string {
  if (!PATH.test(path)) throw unsendable('the path of the URL has characters that cannot stand there');
  let host = authority;
  let lines = '';
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i]!;
    const value = headers[i + 1]!;
    if (!sendable.has(name)) checkName(name);
    if (NOT_IN_VALUE.test(value)) throw unsendable(`the value of the header ${name} cannot be sent`);
    if (name.length === 4 && name.toLowerCase() === 'host') host = value;
    else lines += `${name}: ${value}\r\n`;
  }
  const length = body ? `content-length: ${body.length}\r\n` : method === 'POST' ? 'content-length: 0\r\n' : '';
  return `${method} ${path} HTTP/1.1\r\nhost: ${host}\r\nconnection: keep-alive\r\n${lines}${length}\r\n`;
}

/** Names are few, and each is looked at once. */
const sendable = new Set<string>();
const MOST_NAMES = 512;

function checkName(name: string): void {
  if (!TOKEN.test(name) || OURS.test(name)) throw unsendable(`${JSON.stringify(name)} cannot be sent as a header`);
  if (sendable.size < MOST_NAMES) sendable.add(name);
}
