import type { Evidence } from '../requirement.js';
import type { Received } from './reply.js';

const LONGEST = 1_500;
/** Request headers whose values are secrets. */
const SECRET = /^(authorization|cookie|x-api-key|proxy-authorization)$/i;
/** Response headers that differ between two runs, or that say nothing about the protocol. */
const VOLATILE =
  /^(date|connection|keep-alive|server|etag|last-modified|set-cookie|x-request-id|traceparent|content-length|transfer-encoding|via|age)$/i;
const SESSION = /^mcp-session-id$/i;

export interface SentHttp {
  readonly method: string;
  readonly path: string;
  readonly headers: readonly (readonly [string, string])[];
  readonly body?: string | undefined;
}

/** The text of a request over HTTP and its reply. */
export function httpEvidence(sent: SentHttp, received: Received, secrets: readonly string[]): Evidence {
  const head = sent.headers.map(([name, value]) => `${name}: ${SECRET.test(name) ? '***' : shownValue(name, value)}`);
  const request = [`${sent.method} ${sent.path}`, ...head, '', sent.body ?? ''].join('\n');
  return { request: clip(request, secrets), response: clip(responseText(received), secrets) };
}

/** The text of a line over stdio and the lines that came back. */
export function lineEvidence(line: string, received: Received, secrets: readonly string[]): Evidence {
  const back = received.messages.map((message) => JSON.stringify(message));
  return { request: clip(line, secrets), response: clip(withFailure(back, received), secrets) };
}

function responseText(received: Received): string {
  if (received.status === undefined) return withFailure([], received);
  const head: string[] = [];
  for (let i = 0; i < received.headers.length; i += 2) {
    const name = received.headers[i]!;
    if (!VOLATILE.test(name)) head.push(`${name}: ${shownValue(name, received.headers[i + 1]!)}`);
  }
  return withFailure([`HTTP ${received.status}`, ...head.sort(), '', received.body], received);
}

const withFailure = (lines: readonly string[], { failure }: Received): string =>
  [...lines, ...(failure === undefined ? [] : [`(${failure})`])].join('\n').trim();

/** A session id belongs to one run only. */
const shownValue = (name: string, value: string): string => (SESSION.test(name) ? '<session>' : value);

function clip(text: string, secrets: readonly string[]): string {
  let shown = text;
  for (const secret of secrets) if (secret.length > 3) shown = shown.replaceAll(secret, '***');
  // Control characters of a hostile server must not reach a terminal.
  shown = shown.replace(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/g, '\ufffd');
  return shown.length <= LONGEST ? shown : `${shown.slice(0, LONGEST)}… (${shown.length - LONGEST} more characters)`;
}
