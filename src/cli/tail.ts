import { stripVTControlCharacters } from 'node:util';
import { sentenceOf } from '../telemetry/log-sentences.js';
import { oneLine } from '../telemetry/style.js';
import type { Gateway } from './logs.js';

/** One event of the live tail. */
export interface TailEvent {
  readonly event: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** Milliseconds for the gateway to begin its answer. */
const TIMEOUT = 10_000;
/** The longest line of an event; the gateway writes far shorter ones. */
const MOST_LINE = 64 * 1024;

/** Follows the calls of a running gateway until it ends the stream, or the signal aborts. */
export async function* followTail(
  { url, token }: Gateway,
  filter: Readonly<Record<string, string>>,
  signal: AbortSignal,
): AsyncGenerator<TailEvent> {
  const response = await open(`${url}/api/v1/tail?${new URLSearchParams(filter)}`, url, token, signal);
  if (!response) return;
  let kind = 'message';
  let text = '';
  const decoder = new TextDecoder();
  try {
    for await (const chunk of response.body ?? []) {
      text += decoder.decode(chunk as Uint8Array, { stream: true });
      const lines = text.split('\n');
      text = lines.pop() ?? '';
      if (text.length > MOST_LINE) throw new Error(`the server at ${url} does not send the events of a Parley gateway`);
      for (const line of lines) {
        if (line.startsWith('event: ')) kind = line.slice('event: '.length);
        else if (line.startsWith('data: '))
          yield { event: kind, data: JSON.parse(line.slice('data: '.length)) as TailEvent['data'] };
      }
    }
  } catch (error) {
    // The gateway stopped, or the command was stopped.
    if (error instanceof SyntaxError || !isLost(error)) throw error;
  }
}

const isLost = (error: unknown): boolean =>
  error instanceof TypeError || ['AbortError', 'TimeoutError'].includes((error as Error).name);

async function open(
  address: string,
  url: string,
  token: string | undefined,
  signal: AbortSignal,
): Promise<Response | undefined> {
  const begun = new AbortController();
  const timer = setTimeout(() => begun.abort(), TIMEOUT);
  let response: Response;
  try {
    response = await fetch(address, {
      headers: { Accept: 'text/event-stream', ...(token !== undefined && { Authorization: `Bearer ${token}` }) },
      redirect: 'manual',
      signal: AbortSignal.any([signal, begun.signal]),
    });
  } catch {
    if (signal.aborted) return undefined;
    throw new Error(
      begun.signal.aborted
        ? `the gateway at ${url} did not answer within ${TIMEOUT / 1000} s`
        : `no gateway answers at ${url}; start one with parley serve, or give another URL with --url`,
    );
  } finally {
    clearTimeout(timer);
  }
  if (response.ok && response.headers.get('content-type')?.startsWith('text/event-stream')) return response;
  const body = (await response.json().catch(() => undefined)) as { error?: { message?: string } } | undefined;
  throw new Error(body?.error?.message ?? `the server at ${url} is not a Parley gateway (HTTP ${response.status})`);
}

/** The line of a call for a person. Names come from clients, so control characters never reach the terminal. */
export function tailText({ event, data }: TailEvent): string | undefined {
  if (event === 'dropped') return `# ${String(data['lines'])} calls were not shown: the reader was too slow\n`;
  if (event !== 'call') return undefined;
  const { time, replica, ...fields } = data;
  const at = String(time).slice(11, 23);
  const where = typeof replica === 'string' ? ` @${replica}` : '';
  return `${stripVTControlCharacters(oneLine(`${at} ${sentenceOf(fields) ?? ''}${where}`))}\n`;
}
