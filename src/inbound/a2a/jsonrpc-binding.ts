import type { Passed } from '../../core/a2a/agent.js';
import type { AgentAnswer } from '../../core/a2a/gateway.js';
import type { DialectId, Version } from '../../protocol/a2a/dialect.js';
import { dialect } from '../../protocol/a2a/index.js';
import { isStreaming, type Operation, type ResultOf } from '../../protocol/a2a/model.js';
import { streamContext } from '../../protocol/a2a/stream-context.js';
import { behavior, refusalDialect, sharedDialect } from '../../protocol/a2a/version-behavior.js';
import { rpcDialect } from '../../protocol/a2a/version-detection.js';
import { ProtocolError } from '../../protocol/errors.js';
import {
  type Id,
  isId,
  type RpcNotification,
  type RpcRequest,
  readIncoming,
  resultHead,
} from '../../protocol/jsonrpc/message.js';
import { isObject, type JsonObject, type JsonValue } from '../../protocol/jsonrpc/raw.js';
import { isJson } from '../http/accept-header.js';
import type { RequestContext, Route } from '../http/route.js';
import { sendText } from '../http/send-body.js';
import { dispatchCall, eventsOf, extensionHeaders, knownFailure, unsupportedVersion } from './dispatch-call.js';
import {
  A2A_RPC_ERRORS,
  headersOf,
  incompatibleContent,
  JSON_TYPE,
  rpcError,
  rpcStatus,
  sendRpcError,
} from './error-response.js';
import { type HttpBinding, type HttpBindingOptions, namedVersion, replyTo } from './http-binding.js';
import { passableText } from './json-body.js';
import { RPC_PATHS, RPC_STREAM_PATH } from './paths.js';
import { type Answered, type Framed, type StreamForm, sendRefusedStream } from './streams.js';

type NamedVersion = Version | 'unsupported' | undefined;

/** The operation and dialect of a method, and whether only this dialect has this spelling. */
interface RecognisedMethod {
  readonly operation: Operation;
  readonly dialect: DialectId;
  readonly certain: boolean;
}

/** A2A over JSON-RPC: all versions at one URL, distinguished by the header and the method (C-24). */
export class JsonRpcBinding implements HttpBinding {
  constructor(private readonly options: HttpBindingOptions) {}

  routes(base: string): Route[] {
    const post = (path: string, streams: boolean): Route => ({
      method: 'POST',
      path: base + path,
      access: 'user',
      errors: A2A_RPC_ERRORS,
      description: streams ? 'A2A over JSON-RPC, with a streamed response' : 'A2A over JSON-RPC',
      handle: (context) => this.post(context, streams),
    });
    return [...RPC_PATHS.map((path) => post(path, false)), post(RPC_STREAM_PATH, true)];
  }

  /** `streams`: the URL itself requests a stream, independent of the method. */
  private async post(context: RequestContext, streams: boolean): Promise<void> {
    const { req, res, headers } = context;
    const named = namedVersion(context);
    let request: RpcRequest;
    try {
      if (!isJson(req.header('content-type'))) throw incompatibleContent(req.header('content-type'), JSON_TYPE);
      request = this.read(await req.read(this.options.limits.body), named);
    } catch (error) {
      const failure = this.failure(error, context);
      const id = failure instanceof ProtocolError ? (failure.detail.id ?? null) : null;
      sendRpcError(res, headers, id, failure, refusalDialect(named));
      return;
    }
    const recognised = recognise(request.method, named, streams);
    if (!recognised) {
      const unknown =
        named === 'unsupported'
          ? unsupportedVersion(context)
          : new ProtocolError('method_not_found', `Method not found: ${request.method}`);
      this.options.refused?.(unknown);
      sendRpcError(res, headers, request.id, unknown, refusalDialect(named, request.method));
      return;
    }
    try {
      if (named === 'unsupported') throw unsupportedVersion(context);
      await this.answer(context, request, recognised);
    } catch (error) {
      if (res.begun) throw error;
      this.refuse(context, request.id, this.failure(error, context), recognised);
    }
  }

  private read(body: Buffer, named: NamedVersion): RpcRequest {
    let incoming: ReturnType<typeof readIncoming>;
    try {
      incoming = readIncoming(body, this.options.limits);
    } catch (error) {
      throw paramsFault(error, body) ?? error;
    }
    if (incoming.kind === 'request') return incoming;
    if (incoming.kind === 'notification') checkMethodAndParams(incoming, named);
    throw new ProtocolError(
      'invalid_request',
      incoming.kind === 'batch' ? 'A2A does not support batches' : 'A request needs a "method" and an "id"',
    );
  }

  private async answer(
    context: RequestContext,
    { id, params }: RpcRequest,
    recognised: RecognisedMethod,
  ): Promise<void> {
    const { operation } = recognised;
    const given = params.value();
    const value = dialect(recognised.dialect).readRequest(operation, given) as JsonObject;
    const text = behavior(recognised.dialect).isModel && value === given ? passableText(params) : undefined;
    const request: Passed<JsonObject> = { value, ...(text !== undefined && { text }) };
    const asking = dispatchCall(this.options.gateway, context, operation, recognised.dialect, request, id);
    if (isStreaming(operation)) {
      const late = (error: unknown): Framed => this.framed(context, id, recognised.dialect, error);
      await this.options.streams.serve(replyTo(context), this.stream(context, id, recognised, value, asking), late);
      return;
    }
    const answer = await asking;
    if (answer.kind !== 'result') throw new Error(`${operation} returned a stream`);
    const as = answeredIn(recognised, answer);
    const { result } = answer;
    const written =
      (behavior(as).isModel ? result.text : undefined) ??
      JSON.stringify(dialect(as).writeResult(operation, result.value as ResultOf<Operation>));
    const headers = [...context.headers, ...extensionHeaders(behavior(as), answer)];
    sendText(context.res, 200, headers, 'application/json', `${resultHead(id)}${written}}`);
  }

  private async stream(
    context: RequestContext,
    id: Id,
    recognised: RecognisedMethod,
    request: JsonObject,
    asking: Promise<AgentAnswer>,
  ): Promise<Answered> {
    const answer = await asking;
    const as = answeredIn(recognised, answer);
    const head = resultHead(id);
    const form: StreamForm = {
      behavior: behavior(as),
      writer: dialect(as).eventWriter(streamContext(request)),
      wrap: (text) => `${head}${text}}`,
      error: (error) => this.framed(context, id, as, error),
    };
    return { events: eventsOf(answer), form, headers: extensionHeaders(behavior(as), answer) };
  }

  private framed(context: RequestContext, id: Id, as: DialectId, error: unknown): Framed {
    return { text: rpcError(id, this.failure(error, context), as).toString('utf8') };
  }

  private refuse(context: RequestContext, id: Id, error: unknown, recognised: RecognisedMethod): void {
    const { res, headers } = context;
    // A client of these versions that expects a stream accepts a plain response only with an HTTP error status.
    if (isStreaming(recognised.operation) && behavior(recognised.dialect).refusesInStream && rpcStatus(error) === 200) {
      const reply = { ...replyTo(context), headers: [...headers, ...headersOf(error)] };
      sendRefusedStream(reply, rpcError(id, error, recognised.dialect).toString('utf8'));
    } else sendRpcError(res, headers, id, error, recognised.dialect);
  }

  private failure(error: unknown, context: RequestContext): unknown {
    const { failed, refused } = this.options;
    return knownFailure(error, (unknown) => failed(unknown, context.path, context.req.id), refused);
  }
}

/**
 * The dialect of the response: the request's dialect, or the dialect of the task's creator if the request's is
 * uncertain.
 */
const answeredIn = ({ certain, dialect: spoken }: RecognisedMethod, { createdIn }: AgentAnswer): DialectId =>
  certain ? spoken : sharedDialect(createdIn, spoken);

function recognise(method: string, named: NamedVersion, streams: boolean): RecognisedMethod | undefined {
  const recognised = rpcDialect(method, named === 'unsupported' ? undefined : named);
  if (!streams || recognised?.operation !== 'SendMessage') return recognised;
  return { ...recognised, operation: 'SendStreamingMessage' };
}

/** For a request without an id that has another fault, reports the other fault, as the official test kit expects. */
function checkMethodAndParams({ method, params }: RpcNotification, named: NamedVersion): void {
  const recognised = recognise(method, named, false);
  if (!recognised) throw new ProtocolError('method_not_found', `Method not found: ${method}`);
  dialect(recognised.dialect).readRequest(recognised.operation, params.value());
}

/** Params that are not an object are reported as invalid params, if the rest of the request is valid (S-71). */
function paramsFault(error: unknown, body: Buffer): ProtocolError | undefined {
  if (!(error instanceof ProtocolError) || error.reason !== 'invalid_request') return undefined;
  const value = JSON.parse(body.toString('utf8')) as JsonValue;
  if (!isObject(value)) return undefined;
  const { jsonrpc, id, method, params } = value;
  if (jsonrpc !== '2.0' || !(id === undefined || isId(id)) || typeof method !== 'string' || params === undefined)
    return undefined;
  if (isObject(params)) return undefined;
  return new ProtocolError('invalid_params', '"params" must be an object', id === undefined ? {} : { id });
}
