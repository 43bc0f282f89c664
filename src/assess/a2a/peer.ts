/** Calls operations of an agent in one version over one binding, and keeps everything that comes back. */
import { asList, asObject, isObject, isText, type Json } from '../json.js';
import type { HttpWire } from '../wire/http-wire.js';
import type { Reply } from '../wire/reply.js';

export type A2aVersion = '0.3' | '1.0';
export type Operation = 'send' | 'stream' | 'get' | 'list' | 'cancel' | 'subscribe' | 'getPush' | 'extendedCard';

export interface A2aOptions {
  readonly headers?: Readonly<Record<string, string | undefined>>;
  /** Added to the address. */
  readonly query?: string;
  readonly credentials?: boolean;
}

/** A reply with the result and the error in the same form for both bindings. */
export interface A2aReply {
  readonly reply: Reply;
  readonly result: Json | undefined;
  /** The code of JSON-RPC; for HTTP+JSON the code that belongs to the reason. */
  readonly code: number | undefined;
  readonly evidence: Reply['evidence'];
}

const METHODS: Readonly<Record<A2aVersion, Readonly<Record<Operation, string>>>> = {
  '1.0': {
    send: 'SendMessage',
    stream: 'SendStreamingMessage',
    get: 'GetTask',
    list: 'ListTasks',
    cancel: 'CancelTask',
    subscribe: 'SubscribeToTask',
    getPush: 'GetTaskPushNotificationConfig',
    extendedCard: 'GetExtendedAgentCard',
  },
  '0.3': {
    send: 'message/send',
    stream: 'message/stream',
    get: 'tasks/get',
    list: 'tasks/list',
    cancel: 'tasks/cancel',
    subscribe: 'tasks/resubscribe',
    getPush: 'tasks/pushNotificationConfig/get',
    extendedCard: 'agent/getAuthenticatedExtendedCard',
  },
};

const REASONS: Readonly<Record<string, number>> = {
  TASK_NOT_FOUND: -32001,
  TASK_NOT_CANCELABLE: -32002,
  PUSH_NOTIFICATION_NOT_SUPPORTED: -32003,
  UNSUPPORTED_OPERATION: -32004,
  CONTENT_TYPE_NOT_SUPPORTED: -32005,
  INVALID_AGENT_RESPONSE: -32006,
  EXTENDED_AGENT_CARD_NOT_CONFIGURED: -32007,
  EXTENSION_SUPPORT_REQUIRED: -32008,
  VERSION_NOT_SUPPORTED: -32009,
};

/** The ErrorInfo of an error, from `details` or `data`. */
export const errorInfo = (error: Json): Json | undefined =>
  [...asList(error['details']), ...asList(error['data'])]
    .filter(isObject)
    .find((each) => String(each['@type']).endsWith('google.rpc.ErrorInfo'));

export class A2aPeer {
  readonly log: Reply[] = [];
  private ids = 0;

  constructor(
    readonly http: HttpWire,
    readonly version: A2aVersion,
    readonly binding: 'JSONRPC' | 'HTTP+JSON',
    /** The address of the interface. */
    readonly url: URL,
    readonly card: Json,
    readonly cardReply: Reply,
  ) {}

  headers(): Record<string, string> {
    return {
      'Content-Type': 'application/json',
      Accept: 'application/json, application/a2a+json, text/event-stream',
      ...(this.version === '1.0' && { 'A2A-Version': '1.0' }),
    };
  }

  async call(operation: Operation, params: Json = {}, options: A2aOptions = {}): Promise<A2aReply> {
    if (this.binding === 'HTTP+JSON') return this.rest(operation, params, options);
    const json = { jsonrpc: '2.0', id: `parley-${++this.ids}`, method: METHODS[this.version][operation], params };
    return this.rpc(json, options);
  }

  /** Sends any JSON to the JSON-RPC address. */
  async rpc(json: unknown, options: A2aOptions = {}): Promise<A2aReply> {
    return this.judge(await this.post({ json }, options));
  }

  async text(text: string): Promise<A2aReply> {
    return this.judge(await this.post({ text }, {}));
  }

  private post(body: { json?: unknown; text?: string }, { headers, query, credentials }: A2aOptions): Promise<Reply> {
    const url = new URL(this.url);
    if (query !== undefined) url.search = query;
    return this.http.send({
      method: 'POST',
      url,
      headers: { ...this.headers(), ...headers },
      enough: () => false,
      ...body,
      ...(credentials !== undefined && { credentials }),
    });
  }

  private async rest(
    operation: Operation,
    params: Json,
    { headers, query, credentials }: A2aOptions,
  ): Promise<A2aReply> {
    const id = encodeURIComponent(String(params['id'] ?? params['taskId'] ?? ''));
    const prefix = this.version === '0.3' ? '/v1' : '';
    const listed = new URLSearchParams();
    for (const [key, value] of Object.entries(params)) if (key !== 'id') listed.set(key, String(value));
    const history = operation === 'get' || operation === 'list' ? listed.toString() : '';
    const paths: Readonly<Record<Operation, readonly ['GET' | 'POST', string]>> = {
      send: ['POST', '/message:send'],
      stream: ['POST', '/message:stream'],
      get: ['GET', `/tasks/${id}`],
      list: ['GET', '/tasks'],
      cancel: ['POST', `/tasks/${id}:cancel`],
      subscribe: ['POST', `/tasks/${id}:subscribe`],
      getPush: ['GET', `/tasks/${id}/pushNotificationConfigs/parley-none`],
      extendedCard: ['GET', this.version === '0.3' ? '/card' : '/extendedAgentCard'],
    };
    const [method, path] = paths[operation];
    const url = new URL(`${this.url.href.replace(/\/$/, '')}${prefix}${path}`);
    url.search = [history, query ?? ''].filter((each) => each !== '').join('&');
    const send = operation === 'send' || operation === 'stream';
    const reply = await this.http.send({
      method,
      url,
      headers: { ...this.headers(), ...headers },
      enough: () => false,
      ...(method === 'POST' && { json: send ? params : {} }),
      ...(credentials !== undefined && { credentials }),
    });
    return this.judge(reply);
  }

  private judge(reply: Reply): A2aReply {
    this.log.push(reply);
    const [first] = reply.messages.filter(isObject);
    if (this.binding === 'JSONRPC') return { reply, result: reply.result, code: reply.code, evidence: reply.evidence };
    const refused = (reply.status ?? 500) >= 400;
    const error = asObject(first?.['error'] ?? first);
    const reason = errorInfo(error)?.['reason'];
    const code = typeof first?.['code'] === 'number' ? first['code'] : undefined;
    return {
      reply,
      result: refused ? undefined : first,
      code: refused ? (isText(reason) ? REASONS[reason] : code) : undefined,
      evidence: reply.evidence,
    };
  }
}
