import { withoutControls } from '../report/escape.js';
import type { Evidence } from '../requirement.js';
import type { Received } from './reply.js';
import { maskVolatile } from './volatile.js';

const LONGEST = 1_500;
/** Most characters that are searched for secrets and other values to mask. */
const SEARCHED = 64 * 1024;
const LONGEST_QUOTE = 300;
const SEARCHED_QUOTE = 4_096;
/** Request headers whose values are secrets. */
const SECRET = /^(authorization|cookie|x-api-key|proxy-authorization)$/i;
/** Response headers about the protocol. Others, such as counters of requests, differ between two runs. */
const SHOWN =
  /^(content-(type|encoding|language)|location|allow|accept|accept-post|vary|cache-control|www-authenticate|x-accel-buffering|access-control-.*|mcp-.*|(x-)?a2a-.*|grpc-.*)$/i;
const SESSION = /^mcp-session-id$/i;

/**
 * The values that no report shows: credentials, whole and without their scheme, and the query of the target, which may
 * hold a key.
 */
export const secretsOf = (credentials: readonly (readonly [string, string])[] = [], url?: URL): string[] => [
  ...credentials.flatMap(([, value]) => [value, value.replace(/^\S+\s+/, '')]),
  ...(url === undefined || url.search === '' ? [] : [url.search.slice(1), ...url.searchParams.values()]),
];

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
  const back = received.messages.map(textOf);
  return { request: clip(line, secrets), response: clip(withFailure(back, received), secrets) };
}

/** Values that are nested more deeply than the stack allows have no text. */
export function textOf(message: unknown): string {
  try {
    return JSON.stringify(message);
  } catch {
    return '(a message that is nested too deeply to be shown)';
  }
}

/** The text of a request and a reply of any other kind. */
export const evidenceText = (request: string, response: string, secrets: readonly string[]): Evidence => ({
  request: clip(request, secrets),
  response: clip(response, secrets),
});

function responseText(received: Received): string {
  if (received.status === undefined) return withFailure([], received);
  const head: string[] = [];
  for (let i = 0; i < received.headers.length; i += 2) {
    const name = received.headers[i]!;
    if (SHOWN.test(name)) head.push(`${name}: ${shownValue(name, received.headers[i + 1]!)}`);
  }
  return withFailure([`HTTP ${received.status}`, ...head.sort(), '', received.body], received);
}

const withFailure = (lines: readonly string[], { failure }: Received): string =>
  [...lines, ...(failure === undefined ? [] : [`(${failure})`])].join('\n').trim();

/** A session id belongs to one run only. */
const shownValue = (name: string, value: string): string => (SESSION.test(name) ? '<session>' : value);

function clip(text: string, secrets: readonly string[]): string {
  const { shown, rest } = masked(text, secrets, SEARCHED);
  const more = Math.max(0, shown.length - LONGEST) + rest;
  return more === 0 ? shown : `${shown.slice(0, LONGEST)}… (${more} more characters)`;
}

/** Text that quotes the server, such as the reason of a verdict, as reports show it: masked and short. */
export function quoted(text: string, secrets: readonly string[]): string {
  const { shown, rest } = masked(text, secrets, SEARCHED_QUOTE);
  return rest === 0 && shown.length <= LONGEST_QUOTE ? shown : `${shown.slice(0, LONGEST_QUOTE)}…`;
}

/** The text without secrets, volatile values and control characters, and the number of characters that were cut off. */
function masked(text: string, secrets: readonly string[], most: number): { shown: string; rest: number } {
  let shown = text.slice(0, most);
  const rest = text.length - shown.length;
  for (const secret of secrets) if (secret.length > 3) shown = shown.replaceAll(secret, '***');
  // The end of a text that was cut may be a part of a secret.
  const margin = Math.max(0, ...secrets.map(({ length }) => length));
  if (rest > 0) shown = shown.slice(0, Math.max(0, shown.length - margin));
  return { shown: withoutControls(maskVolatile(shown)), rest };
}
