/**
 * The hooks of a plugin over signed HTTP, for plugins in other languages and for code that must not run in the gateway.
 */
import { randomUUID } from 'node:crypto';
import { CircuitBreaker } from '../../core/circuit-breaker.js';
import type { Hook, JsonObject, JsonValue, Plugin, PluginCall } from '../../plugins/api.js';
import { bufferedRequest, type HttpClient } from '../http/index.js';
import { webhookSignature } from '../webhooks/headers-and-signature.js';

export interface HttpPluginOptions {
  readonly client: HttpClient;
  readonly url: string;
  /** Signs each request, together with its time. */
  readonly secret: string;
  readonly hooks: readonly Hook[];
  /**
   * The content of a request besides the names of the method and of its target: nothing more, the parameters, or also
   * results, errors and events.
   */
  readonly body: 'none' | 'params' | 'full';
  /** Time limit for one exchange, in milliseconds. */
  readonly timeout: number;
  /** The clock of the signature, in milliseconds since 1970. */
  readonly now: () => number;
}

/** Maximum size of an answer, in bytes. */
const MOST_ANSWER = 32 * 1024 * 1024;

/** The receiver could not be asked, or answered with an error. The message contains nothing of the request. */
class ReceiverError extends Error {
  override readonly name = 'ReceiverError';

  constructor(readonly code: string) {
    super(code);
  }
}

export function httpPlugin(options: HttpPluginOptions): Plugin {
  const { hooks, body } = options;
  const breaker = new CircuitBreaker();
  const send = async (hook: Hook, content: JsonObject): Promise<unknown> => {
    if (breaker.enter()) throw new ReceiverError('CIRCUIT_OPEN');
    try {
      const answer = await exchange(options, Buffer.from(JSON.stringify({ apiVersion: 1, hook, ...content })));
      breaker.answered();
      return answer;
    } catch (error) {
      breaker.failed();
      throw error;
    }
  };
  const about = (call: PluginCall): JsonObject => ({ call: described(call, body !== 'none') });
  const full = (content: () => JsonObject): JsonObject => (body === 'full' ? content() : {});
  const all: Required<Pick<Plugin, Hook>> = {
    onRequest: (call) => send('onRequest', about(call)) as never,
    onResponse: (call, response) =>
      send('onResponse', {
        ...about(call),
        size: response.size,
        ...full(() => ({ result: response.result })),
      }) as never,
    onError: (call, { message, data, ...known }) =>
      send('onError', {
        ...about(call),
        error: { ...known, ...full(() => ({ message, ...(data !== undefined && { data }) })) },
      }) as never,
    onEvent: (call, event) => send('onEvent', { ...about(call), ...full(() => ({ event })) }) as never,
    onList: (call, items) => send('onList', { ...about(call), items: items as unknown as JsonValue[] }) as never,
    onAudit: (record) => send('onAudit', { record }) as never,
  };
  return { apiVersion: 1, ...Object.fromEntries(hooks.map((hook) => [hook, all[hook]])) };
}

function described(call: PluginCall, withParams: boolean): JsonObject {
  const { protocol, method, requestId, caller, server, kind, name, tool } = call;
  return {
    ...{ protocol, method, requestId, server, kind, name },
    caller: { ...caller } as unknown as JsonObject,
    ...(tool && { tool }),
    ...(withParams && { params: call.params }),
  };
}

async function exchange({ client, url, secret, timeout, now }: HttpPluginOptions, body: Buffer): Promise<unknown> {
  const id = randomUUID();
  const seconds = Math.floor(now() / 1_000);
  const headers = [
    ...['Content-Type', 'application/json', 'Accept', 'application/json', 'User-Agent', 'Parley'],
    ...['webhook-id', id, 'webhook-timestamp', String(seconds)],
    ...['webhook-signature', webhookSignature(Buffer.from(secret), id, seconds, body)],
  ];
  const limits = { time: timeout, size: MOST_ANSWER };
  const { status, body: answer } = await bufferedRequest(client, url, { method: 'POST', headers, body }, limits);
  if (status === 204) return undefined;
  if (status !== 200) throw new ReceiverError(`HTTP_${status}`);
  const text = answer.toString('utf8');
  if (text.trim() === '') return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new ReceiverError('NOT_JSON');
  }
}
