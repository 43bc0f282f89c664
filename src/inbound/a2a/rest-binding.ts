import type { Passed } from '../../core/a2a/agent.js';
import type { AgentAnswer } from '../../core/a2a/gateway.js';
import type { DialectId } from '../../protocol/a2a/dialect.js';
import { NATIVE } from '../../protocol/a2a/dialect.js';
import { dialect, restError } from '../../protocol/a2a/index.js';
import { isStreaming, type Operation, type RequestOf, type ResultOf } from '../../protocol/a2a/model.js';
import { streamContext } from '../../protocol/a2a/stream-context.js';
import { A2A_JSON, behavior, EXTENDED_CARD_BY_GET } from '../../protocol/a2a/version-behavior.js';
import { restDialect } from '../../protocol/a2a/version-detection.js';
import { ProtocolError } from '../../protocol/errors.js';
import type { JsonObject, RawObject } from '../../protocol/jsonrpc/raw.js';
import { isJson } from '../http/accept-header.js';
import type { Params, Query, RequestContext, Route } from '../http/route.js';
import { sendText } from '../http/send-body.js';
import { dispatchCall, eventsOf, extensionHeaders, knownFailure, unsupportedVersion } from './dispatch-call.js';
import { incompatibleContent, JSON_TYPE, restErrors, restType, sendRestError } from './error-response.js';
import { type HttpBinding, type HttpBindingOptions, namedVersion, replyTo } from './http-binding.js';
import { passableText, readObject } from './json-body.js';
import { EXTENDED_CARD_PATHS, restPaths } from './paths.js';
import type { Answered, Framed, StreamForm } from './streams.js';

/** A2A over HTTP+JSON: 1.0 under the agent's path, 0.3 under its `/v1`, in either of the two JSON shapes of 0.3. */
export class RestBinding implements HttpBinding {
  constructor(private readonly options: HttpBindingOptions) {}

  routes(base: string): Route[] {
    const { profile } = this.options;
    const [errors, olderErrors] = [restErrors(profile), restErrors(profile, true)];
    return [
      ...restPaths(base).map(
        ({ method, path, operation, v1 }): Route => ({
          method,
          path,
          access: 'user',
          errors: v1 ? olderErrors : errors,
          description: `A2A over HTTP+JSON: ${operation}`,
          handle: (context) => this.handle(context, operation, v1),
        }),
      ),
      ...EXTENDED_CARD_PATHS.map(
        (path): Route => ({
          method: 'GET',
          path: base + path,
          access: 'user',
          errors,
          description: 'A2A up to 0.2: the extended card',
          handle: (context) => this.extendedCard(context),
        }),
      ),
    ];
  }

  /** `v1`: the request came under the `/v1` of 0.3. */
  private async handle(context: RequestContext, operation: Operation, v1: boolean): Promise<void> {
    const named = namedVersion(context);
    let as = restDialect(v1, named === 'unsupported' ? undefined : named, undefined);
    try {
      if (named === 'unsupported') throw unsupportedVersion(context);
      const body = await this.body(context);
      if (!body.isEmpty) as = restDialect(v1, named, body.value());
      await this.answer(context, operation, as, requestOf(operation, as, context.params, context.query, body));
    } catch (error) {
      this.refuse(context, error, as);
    }
  }

  /** Up to 0.2 the extended card is a page beside the endpoint; only its status reports an error. */
  private async extendedCard(context: RequestContext): Promise<void> {
    try {
      await this.answer(context, 'GetExtendedAgentCard', EXTENDED_CARD_BY_GET, { value: {} });
    } catch (error) {
      const none =
        error instanceof ProtocolError &&
        (error.reason === 'extended_card_not_configured' || error.reason === 'unsupported_operation');
      this.refuse(context, none ? new ProtocolError('not_found', error.message) : error, EXTENDED_CARD_BY_GET);
    }
  }

  private async body({ req }: RequestContext): Promise<RawObject> {
    const { limits } = this.options;
    const source = await req.read(limits.body);
    if (source.length > 0 && !isJson(req.header('content-type')))
      throw incompatibleContent(req.header('content-type'), `${JSON_TYPE} or ${A2A_JSON}`);
    return readObject(source, limits);
  }

  private async answer(
    context: RequestContext,
    operation: Operation,
    as: DialectId,
    request: Passed<JsonObject>,
  ): Promise<void> {
    const asking = dispatchCall(this.options.gateway, context, operation, as, request);
    if (isStreaming(operation)) {
      const late = (error: unknown): Framed => this.framed(context, as, error);
      await this.options.streams.serve(replyTo(context), this.stream(context, as, request.value, asking), late);
      return;
    }
    const answer = await asking;
    if (answer.kind !== 'result') throw new Error(`${operation} returned a stream`);
    const { value, text } = answer.result;
    const passed = behavior(as).isModel && value !== null ? text : undefined;
    const written = passed ?? JSON.stringify(dialect(as).writeResult(operation, value as ResultOf<Operation>) ?? {});
    const headers = [...context.headers, ...extensionHeaders(behavior(as), answer)];
    sendText(context.res, 200, headers, restType(context), written);
  }

  private async stream(
    context: RequestContext,
    as: DialectId,
    request: JsonObject,
    asking: Promise<AgentAnswer>,
  ): Promise<Answered> {
    const answer = await asking;
    const form: StreamForm = {
      behavior: behavior(as),
      writer: dialect(as).eventWriter(streamContext(request)),
      wrap: (text) => text,
      error: (error) => this.framed(context, as, error),
    };
    return { events: eventsOf(answer), form, headers: extensionHeaders(behavior(as), answer) };
  }

  private framed(context: RequestContext, as: DialectId, error: unknown): Framed {
    const { body } = restError(this.failure(error, context), as, this.options.profile);
    return { text: JSON.stringify(body), event: 'error' };
  }

  private refuse(context: RequestContext, error: unknown, as: DialectId): void {
    if (context.res.begun) throw error;
    sendRestError(context, this.failure(error, context), as, this.options.profile);
  }

  private failure(error: unknown, context: RequestContext): Error {
    const { failed, refused } = this.options;
    return knownFailure(error, (unknown) => failed(unknown, context.path, context.req.id), refused);
  }
}

/**
 * Operations whose request is in the body, in the form of its version. For all other operations, path and query contain
 * the request.
 */
const WRITTEN: ReadonlySet<Operation> = new Set<Operation>([
  'SendMessage',
  'SendStreamingMessage',
  'CreateTaskPushNotificationConfig',
]);

function requestOf(
  operation: Operation,
  as: DialectId,
  { task: taskId, config: configId, tenant }: Params,
  query: Query,
  body: RawObject,
): Passed<JsonObject> {
  const around: JsonObject = { ...(tenant !== undefined && { tenant }) };
  if (operation === 'CreateTaskPushNotificationConfig') {
    const read = readIn(as, operation, { ...body.value(), ...(taskId !== undefined && { taskId }) });
    return { value: { ...read, ...around, ...(taskId !== undefined && { taskId }) } };
  }
  if (WRITTEN.has(operation)) {
    const given = body.value();
    const read = readIn(as, operation, given);
    if (tenant !== undefined) return { value: { ...read, ...around } };
    const text = behavior(as).isModel && read === given ? passableText(body) : undefined;
    return { value: read, ...(text !== undefined && { text }) };
  }
  const aboutPush = operation.includes('PushNotification');
  const params = {
    ...queryMembers(operation, query),
    ...body.value(),
    ...around,
    ...(taskId !== undefined && (aboutPush ? { taskId } : { id: taskId })),
    ...(configId !== undefined && { id: configId }),
  };
  // Push configurations have too many resource names; the path parameters already contain the ids.
  return { value: readIn(aboutPush ? NATIVE : as, operation, params) };
}

const readIn = (as: DialectId, operation: Operation, params: JsonObject): JsonObject =>
  dialect(as).readRequest(operation, params) as RequestOf<Operation> as JsonObject;

type Kind = 'text' | 'count' | 'flag';

const TENANT: Readonly<Record<string, Kind>> = { tenant: 'text' };
const PAGE: Readonly<Record<string, Kind>> = { ...TENANT, pageSize: 'count', pageToken: 'text' };
const QUERY: Partial<Readonly<Record<Operation, Readonly<Record<string, Kind>>>>> = {
  GetTask: { ...TENANT, historyLength: 'count' },
  ListTasks: {
    ...PAGE,
    contextId: 'text',
    status: 'text',
    historyLength: 'count',
    statusTimestampAfter: 'text',
    includeArtifacts: 'flag',
  },
  ListTaskPushNotificationConfigs: PAGE,
};

/** The members of a request in the query, in camelCase or in the proto's snake_case. */
function queryMembers(operation: Operation, query: Query): JsonObject {
  const known = QUERY[operation] ?? TENANT;
  const members: JsonObject = {};
  for (const [key, value] of query) {
    const name = key.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
    const kind = Object.hasOwn(known, name) ? known[name] : undefined;
    if (kind === undefined || value === '') continue;
    if (kind === 'text') members[name] = value;
    else if (kind === 'count') members[name] = count(key, value);
    else members[name] = flag(key, value);
  }
  return members;
}

function count(key: string, value: string): number {
  if (!/^-?\d{1,10}$/.test(value)) throw new ProtocolError('invalid_params', `${key} must be a whole number`);
  return Number(value);
}

function flag(key: string, value: string): boolean {
  if (!/^(?:true|false|1|0)$/i.test(value)) throw new ProtocolError('invalid_params', `${key} must be true or false`);
  return /^(?:true|1)$/i.test(value);
}
