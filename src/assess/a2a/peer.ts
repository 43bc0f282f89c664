/** Calls operations of an agent in one version over one binding, and keeps everything that comes back. */

import { serviceOf } from '../../protocol/a2a/proto/services.js';
import { ERROR_INFO } from '../../protocol/a2a/wire-errors.js';
import type { JsonObject } from '../../protocol/jsonrpc/raw.js';
import { asList, asObject, isObject, isText, type Json } from '../json.js';
import { evidenceText } from '../wire/evidence.js';
import type { GrpcClient, GrpcReceived } from '../wire/grpc-wire.js';
import type { HttpWire } from '../wire/http-wire.js';
import { NOTHING, type Reply, replyOf } from '../wire/reply.js';
import {
  type A2aBinding,
  type A2aVersion,
  grpcMessage,
  type MessageInput,
  messageBody,
  OPERATION_NAMES,
  type Operation,
  type OperationInput,
  RPC_METHODS,
  restRequest,
  rpcParams,
} from './operations.js';

export interface A2aOptions {
  /** Headers over HTTP, metadata over gRPC. */
  readonly headers?: Readonly<Record<string, string | undefined>>;
  /** Added to the address. */
  readonly query?: string;
  readonly credentials?: boolean;
  /** Ends the reading of a stream at its first event. */
  readonly firstOnly?: boolean;
  /** Another address for JSON-RPC. */
  readonly url?: URL;
  /** Sends a request of HTTP+JSON without its body. */
  readonly bodyless?: boolean;
  /** Uses the method of another version. */
  readonly version?: A2aVersion;
}

/** A reply with the result and the error in the same form for all bindings. */
export interface A2aReply {
  readonly reply: Reply;
  readonly result: Json | undefined;
  /** The code of JSON-RPC; for the other bindings the code that belongs to the reason. */
  readonly code: number | undefined;
  /** The name of the status of gRPC. */
  readonly grpc?: string;
  readonly evidence: Reply['evidence'];
}

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
  [...asList(error['details']), ...asList(error['data'])].filter(isObject).find((each) => each['@type'] === ERROR_INFO);

export const requiredExtensions = (card: Json): string[] =>
  asList(asObject(card['capabilities'])['extensions']).flatMap((each) => {
    const { uri, required } = asObject(each);
    return required === true && isText(uri) ? [uri] : [];
  });

export interface A2aPeerOptions {
  readonly http: HttpWire;
  readonly version: A2aVersion;
  readonly binding: A2aBinding;
  /** The address of the interface; for gRPC it may be `host:port`. */
  readonly url: string;
  /** The tenant that the interface declares, which every request repeats. */
  readonly tenant?: string | undefined;
  readonly card: Json;
  readonly cardReply: Reply;
  /** The connection of an interface over gRPC. */
  readonly grpc?: GrpcClient | undefined;
  /** Credentials for gRPC, where they may be sent. */
  readonly grpcCredentials?: readonly (readonly [string, string])[];
}

export class A2aPeer {
  readonly log: Reply[] = [];
  /** Whether the agent serves the operations that were called, as far as its answers tell. */
  readonly served = new Map<Operation, boolean>();
  readonly http: HttpWire;
  readonly version: A2aVersion;
  readonly binding: A2aBinding;
  readonly card: Json;
  readonly cardReply: Reply;
  readonly url: string;
  private ids = 0;
  /** Whether messages over HTTP+JSON before 1.0 have the form of JSON-RPC: both forms are in use. */
  rpcForm = false;

  constructor(private readonly options: A2aPeerOptions) {
    ({ http: this.http, version: this.version, binding: this.binding, url: this.url } = options);
    ({ card: this.card, cardReply: this.cardReply } = options);
  }

  get modern(): boolean {
    return this.version === '1.0';
  }

  /** The body of a request with a message. */
  message(input?: MessageInput): Json {
    return messageBody(this.version, this.rpcForm ? 'JSONRPC' : this.binding, input);
  }

  private headers(): Record<string, string> {
    return {
      'Content-Type': 'application/json',
      Accept: 'application/json, application/a2a+json, text/event-stream',
      ...this.serviceParameters(),
    };
  }

  /** The version, and the extensions that the agent requires. */
  private serviceParameters(): Record<string, string> {
    const required = requiredExtensions(this.card);
    return {
      ...(this.modern && { 'A2A-Version': this.version }),
      ...(required.length > 0 && { [this.modern ? 'A2A-Extensions' : 'X-A2A-Extensions']: required.join(', ') }),
    };
  }

  async call(operation: Operation, input: OperationInput = {}, options: A2aOptions = {}): Promise<A2aReply> {
    const answer = await this.send(operation, input, options);
    const served = isServed(answer);
    if (served !== undefined) this.served.set(operation, served || this.served.get(operation) === true);
    return answer;
  }

  private async send(operation: Operation, input: OperationInput, options: A2aOptions): Promise<A2aReply> {
    switch (this.binding) {
      case 'HTTP+JSON':
        return this.rest(operation, input, options);
      case 'GRPC':
        return this.grpc(operation, input, options);
      case 'JSONRPC': {
        const { version = this.version } = options;
        const method = RPC_METHODS[version][operation];
        const params = { ...this.tenantMember(), ...rpcParams(version, operation, input) };
        return this.rpc({ jsonrpc: '2.0', id: `parley-${++this.ids}`, method, params }, options);
      }
    }
  }

  /** Sends any JSON to the JSON-RPC address. */
  async rpc(json: unknown, options: A2aOptions = {}): Promise<A2aReply> {
    return this.judge(await this.post({ json }, options));
  }

  async text(text: string): Promise<A2aReply> {
    return this.judge(await this.post({ text }, {}));
  }

  private tenantMember(): Json {
    const { tenant } = this.options;
    return tenant === undefined ? {} : { tenant };
  }

  private post(
    body: { json?: unknown; text?: string },
    { headers, query, credentials, firstOnly = false, url: other }: A2aOptions,
  ): Promise<Reply> {
    const url = new URL(other ?? this.url, this.http.url);
    if (query !== undefined) url.search = query;
    return this.http.send({
      method: 'POST',
      url,
      headers: { ...this.headers(), ...headers },
      enough: (messages) => firstOnly && messages.length > 0,
      ...body,
      ...(credentials !== undefined && { credentials }),
    });
  }

  private async rest(operation: Operation, input: OperationInput, options: A2aOptions): Promise<A2aReply> {
    const { headers, query = '', credentials, firstOnly = false } = options;
    const { tenant } = this.options;
    const request = restRequest(this.version, operation, input);
    const prefix = tenant === undefined ? '' : `/${encodeURIComponent(tenant)}`;
    const base = new URL(this.url, this.http.url).href.replace(/\/$/, '');
    const url = new URL(`${base}${prefix}${request.path}`);
    url.search = [request.query, query].filter((each) => each !== '').join('&');
    const reply = await this.http.send({
      method: request.method,
      url,
      headers: { ...this.headers(), ...headers },
      enough: (messages) => firstOnly && messages.length > 0,
      ...(request.json !== undefined && !options.bodyless && { json: request.json }),
      ...(credentials !== undefined && { credentials }),
    });
    return this.judge(reply);
  }

  private async grpc(operation: Operation, input: OperationInput, options: A2aOptions): Promise<A2aReply> {
    const service = serviceOf(this.version);
    const method = service.methods.find((each) => each.operation === OPERATION_NAMES[operation]);
    if (method === undefined) throw new Error(`the service ${service.name} has no ${OPERATION_NAMES[operation]}`);
    const { pace, secrets } = this.http;
    await pace.turn();
    const sent = { ...this.tenantMember(), ...grpcMessage(this.version, operation, input) };
    const { grpc, grpcCredentials = [] } = this.options;
    const metadata = [
      ...(options.credentials === false ? [] : grpcCredentials),
      ...Object.entries({ ...this.serviceParameters(), ...options.headers }).flatMap(([name, value]) =>
        value === undefined ? [] : [[name.toLowerCase(), value] as const],
      ),
    ];
    const started = performance.now();
    const received = await grpc!.call({
      path: method.path,
      streams: method.streams,
      bytes: service.codec.encode(method.request, sent as JsonObject),
      metadata,
      limit: pace.limit(),
      firstOnly: options.firstOnly,
    });
    const { messages, failure } = decoded(received, (bytes) => service.codec.decode(method.response, bytes));
    const evidence = evidenceText(
      `${method.path}\n${JSON.stringify(sent)}`,
      [received.status, received.message, ...received.details.map((each) => JSON.stringify(each))]
        .concat(messages.map((each) => JSON.stringify(each)))
        .filter((each) => each !== '')
        .join('\n'),
      secrets,
    );
    const { status, ended } = received;
    const late = status === 'DEADLINE_EXCEEDED';
    const error = { status, message: received.message, details: received.details };
    const ok = status === 'OK' && failure === undefined;
    const whole = {
      ...NOTHING,
      messages: ok ? messages : [...messages, { error }],
      stream: method.streams && messages.length > 0,
      ended,
      failure: failure ?? (late ? 'no complete answer in time' : undefined),
      late,
      milliseconds: Math.round(performance.now() - started),
    };
    const reply = replyOf('', sent, whole, evidence);
    this.log.push(reply);
    return { reply, result: ok ? messages[0] : undefined, code: codeOf(errorInfo(error)), grpc: status, evidence };
  }

  private judge(reply: Reply): A2aReply {
    this.log.push(reply);
    const [first] = reply.messages.filter(isObject);
    if (this.binding === 'JSONRPC') return { reply, result: reply.result, code: reply.code, evidence: reply.evidence };
    const refused = (reply.status ?? 500) >= 400;
    const error = asObject(first?.['error'] ?? first);
    const code = typeof first?.['code'] === 'number' ? first['code'] : undefined;
    return {
      reply,
      result: refused ? undefined : first,
      code: refused ? (codeOf(errorInfo(error)) ?? code) : undefined,
      evidence: reply.evidence,
    };
  }
}

/** Errors of an agent that has the operation, and those of one that does not offer it. */
const SERVED_CODES: ReadonlySet<number> = new Set([-32001, -32002, -32005, -32008, -32602]);
const OTHER_CODES: ReadonlySet<number> = new Set([-32601, -32003, -32004, -32007]);

function isServed({ result, code, grpc, reply }: A2aReply): boolean | undefined {
  if (result !== undefined || (code !== undefined && SERVED_CODES.has(code)) || grpc === 'NOT_FOUND') return true;
  const refused = (code !== undefined && OTHER_CODES.has(code)) || grpc === 'UNIMPLEMENTED';
  return refused || reply.status === 405 || reply.status === 501 ? false : undefined;
}

const codeOf = (info: Json | undefined): number | undefined =>
  isText(info?.['reason']) ? REASONS[info['reason']] : undefined;

function decoded(
  { messages }: GrpcReceived,
  decode: (bytes: Buffer) => JsonObject,
): { readonly messages: Json[]; readonly failure?: string } {
  const read: Json[] = [];
  for (const bytes of messages) {
    try {
      read.push(decode(bytes));
    } catch (error) {
      return { messages: read, failure: `a message cannot be read: ${(error as Error).message}` };
    }
  }
  return { messages: read };
}
