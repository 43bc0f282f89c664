import { Client, Metadata, type ServiceError, status } from '@grpc/grpc-js';
import type { Events, Exchange, Passed } from '../../core/a2a/agent.js';
import type { Credential } from '../../identity/upstream-credentials.js';
import type { Dialect } from '../../protocol/a2a/dialect.js';
import { dialect } from '../../protocol/a2a/index.js';
import type { Operation, RequestOf, ResultOf, Streaming, StreamResponse } from '../../protocol/a2a/model.js';
import { ProtoSyntaxError } from '../../protocol/a2a/proto/binary-format.js';
import { decodeDetails, STATUS_DETAILS } from '../../protocol/a2a/proto/error-details.js';
import { type GrpcMethod, type GrpcService, serviceOf } from '../../protocol/a2a/proto/services.js';
import { requestFormatOf } from '../../protocol/a2a/request-format.js';
import { streamContext } from '../../protocol/a2a/stream-context.js';
import { ProtocolError } from '../../protocol/errors.js';
import type { JsonObject } from '../../protocol/jsonrpc/raw.js';
import { EndpointNotFound, invalidReply, lost, problemOf, subject, timedOut, unavailable } from './agent-errors.js';
import { EventQueue } from './event-queue.js';
import { dial, grpcTarget } from './grpc-target.js';
import { tenanted } from './passthrough.js';
import { requestHeaders } from './request-headers.js';
import type { Wire, WireOptions } from './wire.js';

const asIs = (bytes: Buffer): Buffer => bytes;

/**
 * Maximum number of connections to one agent. Each credential has its own connection. The least recently used
 * connection is closed.
 */
const MAX_CLIENTS = 64;

/** The HTTP statuses of gRPC statuses, for errors without details. */
const HTTP_STATUS: Readonly<Record<number, number>> = {
  [status.INVALID_ARGUMENT]: 400,
  [status.NOT_FOUND]: 404,
  [status.ALREADY_EXISTS]: 409,
  [status.PERMISSION_DENIED]: 403,
  [status.RESOURCE_EXHAUSTED]: 429,
  [status.FAILED_PRECONDITION]: 400,
  [status.UNIMPLEMENTED]: 501,
  [status.INTERNAL]: 500,
  [status.UNAVAILABLE]: 503,
  [status.UNAUTHENTICATED]: 401,
};

/** Calls over gRPC, with the protocol buffers of A2A 0.3 and of 1.0. */
export class GrpcWire implements Wire {
  private readonly service: GrpcService;
  private readonly dialect: Dialect;
  /** The connections by credential key, in order of their last use. */
  private readonly clients = new Map<string, Promise<Client>>();

  constructor(private readonly options: WireOptions) {
    this.service = serviceOf(options.version);
    this.dialect = dialect(this.service.dialect);
  }

  private client({ key }: Credential): Promise<Client> {
    const known = this.clients.get(key);
    this.clients.delete(key);
    const client =
      known ??
      this.connect(key !== '').catch((error: unknown) => {
        if (this.clients.get(key) === client) this.clients.delete(key);
        throw unavailable(this.options.context, problemOf(error as Error));
      });
    this.clients.set(key, client);
    const [oldest] = this.clients.keys();
    if (this.clients.size > MAX_CLIENTS && oldest !== undefined) this.leave(oldest);
    return client;
  }

  /** Closes a connection after its running calls. */
  private leave(key: string): void {
    const client = this.clients.get(key);
    this.clients.delete(key);
    void client?.then((each) => each.close()).catch(() => {});
  }

  /** `apart` gives the client its own connection. By default the library shares connections between clients. */
  private async connect(apart: boolean): Promise<Client> {
    const { url, egress, context, http } = this.options;
    const { address, credentials, options } = await dial(grpcTarget(url), egress, http.options);
    return new Client(address, credentials, {
      ...options,
      ...(apart && { 'grpc.use_local_subchannel_pool': 1 }),
      'grpc.max_receive_message_length': context.limits.event,
      'grpc.initial_reconnect_backoff_ms': 200,
      'grpc.max_reconnect_backoff_ms': 2_000,
      'grpc.enable_http_proxy': 0,
      // The gRPC library must not repeat calls: it does not know which calls may be repeated.
      'grpc.enable_retries': 0,
    });
  }

  async call<O extends Operation>(
    operation: O,
    request: Passed<RequestOf<O>>,
    exchange: Exchange,
    credential: Credential,
  ): Promise<Passed<ResultOf<O>>> {
    const method = this.method(operation);
    const bytes = this.encode(method, operation, request);
    const client = await this.client(credential);
    const reply = await new Promise<Buffer>((resolve, reject) => {
      const { timeouts } = this.options.context;
      const call = client.makeUnaryRequest(
        method.path,
        asIs,
        asIs,
        bytes,
        this.metadata(exchange, credential),
        { deadline: Date.now() + timeouts.call },
        (error, value) => {
          stop();
          if (error) reject(this.failure(error, credential));
          else resolve(value ?? Buffer.alloc(0));
        },
      );
      const stop = exchange.cancellation.onCancel(() => call.cancel());
    });
    const wire = this.decode(method, reply);
    if (operation === 'DeleteTaskPushNotificationConfig') return { value: null as ResultOf<O> };
    return { value: this.dialect.readResult(operation, wire) };
  }

  async stream(
    operation: Streaming,
    request: Passed<RequestOf<Streaming>>,
    exchange: Exchange,
    credential: Credential,
  ): Promise<Events> {
    const method = this.method(operation);
    const bytes = this.encode(method, operation, request);
    const { context } = this.options;
    const { timeouts, limits } = context;
    const reader = this.dialect.eventReader(streamContext(request.value));
    const queue = new EventQueue<Passed<StreamResponse>>(limits.waiting);
    const client = await this.client(credential);
    const metadata = this.metadata(exchange, credential);
    const call = client.makeServerStreamRequest(method.path, asIs, asIs, bytes, metadata, {
      deadline: Date.now() + timeouts.callMax,
    });
    let idle: NodeJS.Timeout | undefined;
    const waiting = (): void => {
      clearTimeout(idle);
      idle = setTimeout(() => {
        queue.fail(timedOut(context, timeouts.call));
        call.cancel();
      }, timeouts.call);
    };
    const stop = exchange.cancellation.onCancel(() => call.cancel());
    const over = (): void => {
      clearTimeout(idle);
      stop();
    };
    waiting();
    queue.open({ abort: () => call.cancel(), pause: () => void call.pause(), resume: () => void call.resume() });
    call.on('data', (event: Buffer) => {
      waiting();
      try {
        for (const value of reader.read(this.decode(method, event))) queue.push({ value }, event.length);
      } catch (error) {
        queue.fail(error as Error);
        call.cancel();
      }
      if (reader.ended) queue.end();
    });
    call.on('end', () => {
      over();
      queue.end();
    });
    call.on('error', (error: ServiceError) => {
      over();
      queue.fail(this.failure(error, credential));
    });
    if (!(await queue.started())) throw invalidReply(context, 'ended its stream before the first event');
    return queue;
  }

  close(): void {
    for (const key of [...this.clients.keys()]) this.leave(key);
  }

  private method(operation: Operation): GrpcMethod {
    const method = this.service.methods.find((each) => each.operation === operation);
    if (method) return method;
    throw new ProtocolError(
      'unsupported_operation',
      `Agent "${this.options.context.name}" does not support ${operation}`,
      {
        outcome: 'not_executed',
      },
    );
  }

  private encode<O extends Operation>(method: GrpcMethod, operation: O, request: Passed<RequestOf<O>>): Buffer {
    const { value } = tenanted(request as Passed<RequestOf<O> & { tenant?: string }>, this.options.tenant);
    return this.service.codec.encode(method.request, this.dialect.writeRequest(operation, value));
  }

  private decode({ response }: GrpcMethod, bytes: Buffer): JsonObject {
    try {
      return this.service.codec.decode(response, bytes);
    } catch (error) {
      if (error instanceof ProtoSyntaxError)
        throw invalidReply(this.options.context, `sent an answer that cannot be read: ${error.message}`);
      throw error;
    }
  }

  private metadata(exchange: Exchange, credential: Credential): Metadata {
    if (credential.query !== undefined)
      throw new ProtocolError(
        'upstream_unauthorized',
        `${subject(this.options.context)} requires its API key in the query of a URL, but gRPC requests have no query; set "binding" of the agent to another binding`,
        { outcome: 'not_executed', data: { agent: this.options.context.name } },
      );
    const metadata = new Metadata();
    const headers = requestHeaders(credential, requestFormatOf(this.options.version), exchange, []);
    for (let i = 0; i < headers.length; i += 2) metadata.set(headers[i]!.toLowerCase(), headers[i + 1]!);
    return metadata;
  }

  private failure(error: ServiceError, { key }: Credential): Error {
    const { context } = this.options;
    const { code, details: message, metadata } = error;
    const [packed] = metadata?.get(STATUS_DETAILS) ?? [];
    const details = packed instanceof Buffer ? decodeDetails(packed) : [];
    if (details.length === 0) {
      if (code === status.DEADLINE_EXCEEDED) return timedOut(context, context.timeouts.call);
      if (code === status.CANCELLED)
        return new ProtocolError('cancelled', 'The request was cancelled', { outcome: 'unknown' });
      if (code === status.UNAVAILABLE) {
        if (!isUnconnected(message)) return lost(context, 'the connection was reset');
        // The connection is bound to the address that was checked. The name may have a different address now.
        if (this.options.egress) this.leave(key);
        return unavailable(context, problemOf(Object.assign(new Error(message), { code: refusedCode(message) })));
      }
      if (code === status.UNIMPLEMENTED && /unknown|does not implement|not found/i.test(message))
        return new EndpointNotFound(
          'upstream_unavailable',
          `${subject(context)} has no A2A service there; check its URL`,
          {
            outcome: 'not_executed',
          },
        );
    }
    return this.dialect.readError(
      { error: { status: status[code] ?? 'UNKNOWN', message, details } },
      HTTP_STATUS[code] ?? 500,
    );
  }
}

/** Only the text of the error shows whether anything was sent. */
const isUnconnected = (message: string): boolean =>
  /no connection established|ECONNREFUSED|ENOTFOUND|name resolution/i.test(message);

/** Finds the cause of a failed connection in the text of the error: the library has no code for it. */
const refusedCode = (message: string): string =>
  /ENOTFOUND|name resolution/i.test(message) ? 'ENOTFOUND' : 'ECONNREFUSED';
