import { type GatewayAddress, jsonOf, refusalText } from './gateway-api.js';

/** One event of a stream of the gateway. */
export interface GatewayEvent {
  readonly event: string;
  readonly data: Readonly<Record<string, unknown>>;
}

export interface FollowOptions {
  /** The path of the stream. */
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  /** Limit on the length of a line. The gateway writes only shorter lines. */
  readonly longest: number;
}

/** Milliseconds for the gateway to begin its answer. */
const TIMEOUT = 10_000;

/** Follows an event stream of a running gateway until it ends the stream, or the signal aborts. */
export async function* followEvents(
  { url, token }: GatewayAddress,
  { path, query, longest }: FollowOptions,
  signal: AbortSignal,
): AsyncGenerator<GatewayEvent> {
  const response = await open(`${url}${path}?${new URLSearchParams(query)}`, url, token, signal);
  if (!response) return;
  let kind = 'message';
  let text = '';
  const decoder = new TextDecoder();
  try {
    for await (const chunk of response.body ?? []) {
      text += decoder.decode(chunk as Uint8Array, { stream: true });
      const lines = text.split('\n');
      text = lines.pop() ?? '';
      if (text.length > longest) throw new Error(`the server at ${url} does not send the events of a Parley gateway`);
      for (const line of lines) {
        if (line.startsWith('event: ')) kind = line.slice('event: '.length);
        else if (line.startsWith('data: '))
          yield { event: kind, data: JSON.parse(line.slice('data: '.length)) as GatewayEvent['data'] };
      }
    }
  } catch (error) {
    // The stream ended because the gateway stopped, or because the command was stopped.
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
  const body: unknown = await jsonOf(response);
  if (typeof body !== 'object')
    throw new Error(`the server at ${url} is not a Parley gateway (HTTP ${response.status})`);
  throw new Error(refusalText(response.status, body, url, token !== undefined));
}
