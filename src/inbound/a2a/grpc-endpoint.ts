import type { AddressInfo } from 'node:net';
import {
  Metadata,
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type ServerWritableStream,
  type ServiceDefinition,
  type sendUnaryData,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js';
import type { AgentAnswer, AgentGateway } from '../../core/a2a/gateway.js';
import { Cancellation, type Principal } from '../../core/caller.js';
import { requestIdFrom } from '../../core/request-id.js';
import type { Refusals } from '../../identity/audited-refusals.js';
import { type AuthenticationRequest, type Authenticator, admitted } from '../../identity/authenticator.js';
import type { ErrorProfile } from '../../protocol/a2a/dialect.js';
import { dialect, grpcError } from '../../protocol/a2a/index.js';
import type { RequestOf, ResultOf } from '../../protocol/a2a/model.js';
import { ProtoSyntaxError } from '../../protocol/a2a/proto/binary-format.js';
import { encodeStatus, STATUS_DETAILS } from '../../protocol/a2a/proto/error-details.js';
import { type GrpcMethod, type GrpcService, SERVICES } from '../../protocol/a2a/proto/services.js';
import { streamContext } from '../../protocol/a2a/stream-context.js';
import { behavior, VERSION_HEADER } from '../../protocol/a2a/version-behavior.js';
import { readVersion } from '../../protocol/a2a/version-detection.js';
import { ProtocolError } from '../../protocol/errors.js';
import type { JsonObject } from '../../protocol/jsonrpc/raw.js';
import { OpenExchanges } from '../http/open-exchanges.js';
import { agentCaller, exchangeOf } from './caller.js';
import { AWAITED, eventsOf, knownFailure, versionRefused } from './dispatch-call.js';
import { wireEvents } from './wire-events.js';

export interface GrpcEndpointOptions {
  readonly gateway: AgentGateway;
  readonly authenticator: Authenticator;
  /** Examines the credentials of open calls again; absent if they never become invalid. */
  readonly recheck?: Authenticator | undefined;
  /** Receives requests whose caller is unknown. */
  readonly refusals?: Refusals;
  readonly profile: ErrorProfile;
  readonly limits: { readonly body: number };
  failed(error: unknown, path: string, requestId: string): void;
  /** Receives every error that a client gets, for the metrics. */
  readonly refused?: (error: unknown) => void;
}

/** Metadata that names the agent if the message has no tenant. */
const AGENT_METADATA = 'x-parley-agent';

const asIs = (bytes: Buffer): Buffer => bytes;

/** Both A2A services on one port (S-73), as a third binding to the same gateway. */
export class GrpcEndpoint {
  private readonly server: Server;
  private readonly exchanges: OpenExchanges | undefined;

  constructor(private readonly options: GrpcEndpointOptions) {
    this.exchanges = options.recheck && new OpenExchanges(options.recheck);
    this.server = new Server({
      'grpc.max_receive_message_length': options.limits.body,
      'grpc.max_send_message_length': -1,
      'grpc.max_concurrent_streams': 1_000,
      'grpc.keepalive_time_ms': 60_000,
      'grpc.max_metadata_size': 16_384,
    });
    for (const service of SERVICES) this.server.addService(...this.served(service));
  }

  listen(host: string, port: number): Promise<AddressInfo> {
    const name = host.includes(':') ? `[${host}]` : host;
    return new Promise((resolve, reject) => {
      this.server.bindAsync(`${name}:${port}`, ServerCredentials.createInsecure(), (error, bound) => {
        if (error) reject(error);
        else resolve({ address: host, port: bound, family: host.includes(':') ? 'IPv6' : 'IPv4' });
      });
    });
  }

  /** Stops accepting calls. Open calls may finish until `force` resolves. */
  async close(force: Promise<unknown>): Promise<void> {
    const closed = new Promise<void>((resolve) => this.server.tryShutdown(() => resolve()));
    void force.then(() => this.server.forceShutdown());
    await closed;
    this.exchanges?.close();
  }

  private served(service: GrpcService): [ServiceDefinition, UntypedServiceImplementation] {
    const definition: Record<string, ServiceDefinition[string]> = {};
    const implementation: UntypedServiceImplementation = {};
    for (const method of service.methods) {
      // The handler decodes the bytes itself, so that it can refuse an unreadable message with a status.
      definition[method.path] = {
        path: method.path,
        requestStream: false,
        responseStream: method.streams,
        requestSerialize: asIs,
        requestDeserialize: asIs,
        responseSerialize: asIs,
        responseDeserialize: asIs,
      };
      implementation[method.path] = method.streams
        ? (call: ServerWritableStream<Buffer, Buffer>) => void this.stream(service, method, call)
        : (call: ServerUnaryCall<Buffer, Buffer>, done: sendUnaryData<Buffer>) =>
            void this.unary(service, method, call, done);
    }
    return [definition, implementation];
  }

  private async unary(
    service: GrpcService,
    method: GrpcMethod,
    call: ServerUnaryCall<Buffer, Buffer>,
    done: sendUnaryData<Buffer>,
  ): Promise<void> {
    const requestId = requestIdOf(call);
    const cancellation = new Cancellation();
    let open = true;
    let unwatch = (): void => {};
    const finish: sendUnaryData<Buffer> = (...answer) => {
      if (!open) return;
      open = false;
      unwatch();
      done(...answer);
    };
    const leave = (reason: string): void => {
      if (AWAITED.has(method.operation)) cancellation.cancel(reason);
    };
    call.on('cancelled', () => leave('the client cancelled'));
    const known = (principal: Principal, request: AuthenticationRequest): void => {
      unwatch = this.watch(request, principal, method, () => {
        finish(this.statusOf(REVOKED, method, requestId));
        leave('the credential is no longer valid');
      });
    };
    try {
      const answer = await this.ask(service, method, call, requestId, known, cancellation);
      if (answer.kind !== 'result') throw new ProtocolError('internal', 'A result was expected');
      const { operation } = method;
      const result = answer.result.value as ResultOf<typeof operation>;
      const wire = dialect(service.dialect).writeResult(operation, result) as JsonObject | null;
      if (!open) return;
      sendMetadata(call, service, answer, requestId);
      finish(null, service.codec.encode(method.response, wire ?? {}));
    } catch (error) {
      // If a status was already sent, the call was cancelled, and the error is a consequence of that.
      if (open) finish(this.statusOf(error, method, requestId));
    }
  }

  private async stream(
    service: GrpcService,
    method: GrpcMethod,
    call: ServerWritableStream<Buffer, Buffer>,
  ): Promise<void> {
    const requestId = requestIdOf(call);
    let iterator: AsyncIterator<unknown> | undefined;
    let gone = false;
    let leave = (): void => {};
    let unwatch = (): void => {};
    const left = new Promise<void>((resolve) => {
      leave = () => {
        gone = true;
        unwatch();
        resolve();
      };
    });
    call.on('cancelled', leave);
    const known = (principal: Principal, request: AuthenticationRequest): void => {
      unwatch = this.watch(request, principal, method, () => {
        leave();
        call.emit('error', this.statusOf(REVOKED, method, requestId));
      });
    };
    // A client that leaves a stream does not cancel its task (G-25); only the iteration for this client ends.
    left.then(() => iterator?.return?.()).catch(() => {});
    try {
      const answer = await this.ask(service, method, call, requestId, known);
      const request = this.read(service, method, call.request);
      const events = eventsOf(answer)[Symbol.asyncIterator]();
      iterator = events;
      if (gone) return;
      sendMetadata(call, service, answer, requestId);
      const writer = dialect(service.dialect).eventWriter(streamContext(request));
      for await (const { wire } of wireEvents(events, events.next(), writer, behavior(service.dialect))) {
        if (gone) return;
        const room = call.write(service.codec.encode(method.response, wire as JsonObject));
        if (!room) await Promise.race([left, new Promise((resolve) => call.once('drain', resolve))]);
      }
      call.end();
    } catch (error) {
      // `destroy` would prevent the status from being sent.
      if (!gone) call.emit('error', this.statusOf(error, method, requestId));
    } finally {
      unwatch();
      void Promise.resolve(iterator?.return?.()).catch(() => {});
    }
  }

  private read(service: GrpcService, { request }: GrpcMethod, bytes: Buffer): JsonObject {
    try {
      return service.codec.decode(request, bytes);
    } catch (error) {
      if (error instanceof ProtoSyntaxError)
        throw new ProtocolError('parse_error', `The message cannot be read: ${error.message}`);
      throw error;
    }
  }

  private async ask(
    service: GrpcService,
    method: GrpcMethod,
    call: ServerUnaryCall<Buffer, Buffer> | ServerWritableStream<Buffer, Buffer>,
    requestId: string,
    authenticated: (principal: Principal, request: AuthenticationRequest) => void,
    cancellation = new Cancellation(),
  ): Promise<AgentAnswer> {
    const { metadata } = call;
    const authentication = authenticationOf(method, call);
    const known = this.principalOf(authentication);
    const principal = known instanceof Promise ? await known : known;
    authenticated(principal, authentication);
    checkVersion(metadata);
    const { operation } = method;
    const wire = this.read(service, method, call.request);
    const request = dialect(service.dialect).readRequest(operation, wire) as RequestOf<typeof operation>;
    const { tenant, ...rest } = request as JsonObject;
    const agent = this.agentOf(tenant, metadata);
    return this.options.gateway.handle(agentCaller(principal), {
      requestId,
      address: addressOf(call),
      agent,
      operation,
      request: { value: rest as JsonObject },
      bytes: call.request.length,
      dialect: service.dialect,
      exchange: exchangeOf((name) => textIn(metadata, name), cancellation),
      ...deadlineOf(call),
    });
  }

  /** Ends a call when its credential is revoked (S17). Returns the function that ends the watch. */
  private watch(
    request: AuthenticationRequest,
    principal: Principal,
    { operation }: GrpcMethod,
    end: () => void,
  ): () => void {
    const { exchanges } = this;
    if (!exchanges || principal.credential === undefined) return () => {};
    const exchange = exchanges.add({ request, principal, listens: operation === 'SubscribeToTask', end });
    return () => exchanges.remove(exchange);
  }

  private principalOf(request: AuthenticationRequest): Principal | Promise<Principal> {
    const { authenticator, refusals } = this.options;
    const refused = (error: unknown): never => {
      refusals?.refused(request, error);
      throw error;
    };
    try {
      const given = authenticator.authenticate(request);
      return given instanceof Promise ? given.then(admitted).catch(refused) : admitted(given);
    } catch (error) {
      return refused(error);
    }
  }

  /** Without a tenant and metadata the call goes to the routing agent. */
  private agentOf(tenant: unknown, metadata: Metadata): string | undefined {
    const named = typeof tenant === 'string' && tenant !== '' ? tenant : textIn(metadata, AGENT_METADATA);
    if (named === undefined || named === '') return undefined;
    return named.toLowerCase();
  }

  private statusOf(
    error: unknown,
    { path }: GrpcMethod,
    requestId: string,
  ): Error & { code: number; details: string; metadata: Metadata } {
    const { failed, refused } = this.options;
    const known = knownFailure(error, (unexpected) => failed(unexpected, path, requestId), refused);
    const { code, message, details } = grpcError(known, this.options.profile);
    const metadata = new Metadata();
    metadata.set(STATUS_DETAILS, encodeStatus(code, message, details));
    metadata.set(REQUEST_ID, requestId);
    return Object.assign(new Error(message), { code, details: message, metadata });
  }
}

const REVOKED = new ProtocolError('unauthorized', 'Unauthorized: the credential is no longer valid');

const authenticationOf = (
  { path }: GrpcMethod,
  call: Pick<ServerUnaryCall<Buffer, Buffer>, 'metadata' | 'getPeer'>,
): AuthenticationRequest => ({
  method: 'POST',
  url: path,
  peer: addressOf(call),
  certificate: undefined,
  header: (name) => textIn(call.metadata, name),
});

/** The address of the client without its port; the peer is such as `127.0.0.1:50000` or `[::1]:50000`. */
const addressOf = (call: Pick<ServerUnaryCall<Buffer, Buffer>, 'getPeer'>): string =>
  call.getPeer().replace(/:\d+$/, '');

/** The client's deadline, by the clock of this process. */
function deadlineOf(call: { getDeadline(): Date | number }): { readonly deadline?: number } {
  const left = Number(call.getDeadline()) - Date.now();
  return Number.isFinite(left) ? { deadline: performance.now() + left } : {};
}

const requestIdOf = ({ metadata }: { readonly metadata: Metadata }): string =>
  requestIdFrom(textIn(metadata, REQUEST_ID));

const REQUEST_ID = 'x-request-id';

function textIn(metadata: Metadata, name: string): string | undefined {
  const values = metadata.get(name).filter((value) => typeof value === 'string');
  return values.length > 0 ? values.join(', ') : undefined;
}

function checkVersion(metadata: Metadata): void {
  const named = textIn(metadata, VERSION_HEADER);
  if (named !== undefined && readVersion(named) === 'unsupported') throw versionRefused(named);
}

function sendMetadata(
  call: ServerUnaryCall<Buffer, Buffer> | ServerWritableStream<Buffer, Buffer>,
  service: GrpcService,
  { extensions = [] }: AgentAnswer,
  requestId: string,
): void {
  const metadata = new Metadata();
  metadata.set(REQUEST_ID, requestId);
  if (extensions.length > 0) {
    metadata.set(behavior(service.dialect).extensionsHeader.toLowerCase(), extensions.join(', '));
  }
  call.sendMetadata(metadata);
}
