import type { Events, Exchange, Passed } from '../../core/a2a/agent.js';
import { type Credential, configuredCredential } from '../../identity/upstream-credentials.js';
import type { Dialect } from '../../protocol/a2a/dialect.js';
import { dialect } from '../../protocol/a2a/index.js';
import type { Operation, RequestOf, ResultOf, Streaming } from '../../protocol/a2a/model.js';
import { type RequestFormat, requestFormatOf, withWholeHistory } from '../../protocol/a2a/request-format.js';
import { streamContext } from '../../protocol/a2a/stream-context.js';
import { ProtocolError } from '../../protocol/errors.js';
import { depthWithin } from '../../protocol/jsonrpc/json-depth-limit.js';
import { quoted } from '../../protocol/jsonrpc/json-pieces.js';
import { type JsonValue, RawObject } from '../../protocol/jsonrpc/raw.js';
import { type HttpTarget, httpTarget } from '../http/index.js';
import { nextId } from '../request-ids.js';
import type { AgentContext } from './agent-context.js';
import { invalidReply } from './agent-errors.js';
import { MAX_DEPTH, readJson, refusal } from './agent-reply.js';
import { exchange as exchangeHttp, type HttpCall, type WholeReply } from './http-exchange.js';
import { passed, StreamSink, tenanted } from './passthrough.js';
import { requestHeaders, standingHeaders, targetWith, withExchange } from './request-headers.js';
import type { Wire, WireOptions } from './wire.js';

const JSON_TYPE = 'application/json';
const NO_CREDENTIAL = configuredCredential({});
const ASKS_JSON = ['content-type', JSON_TYPE, 'accept', JSON_TYPE];
/** Accepts JSON too, because some agents answer a streaming call with a single result (C-10). */
const ASKS_EVENTS = ['content-type', JSON_TYPE, 'accept', `text/event-stream, ${JSON_TYPE}`];

/** JSON-RPC over HTTP, for all versions with this binding. */
export class JsonRpcWire implements Wire {
  private readonly context: AgentContext;
  private readonly format: RequestFormat;
  private readonly dialect: Dialect;
  private readonly target: HttpTarget;
  /** The headers for the credential that was used last. */
  private standing: { readonly of: Credential; readonly json: readonly string[]; readonly events: readonly string[] };

  constructor(private readonly options: WireOptions) {
    this.context = options.context;
    this.format = requestFormatOf(options.version);
    this.dialect = dialect(this.format.dialect);
    this.target = httpTarget(options.url);
    this.standing = this.standingOf(NO_CREDENTIAL);
  }

  private standingOf(of: Credential): JsonRpcWire['standing'] {
    if (this.standing?.of !== of)
      this.standing = {
        of,
        json: standingHeaders(of, this.format, ASKS_JSON),
        events: standingHeaders(of, this.format, ASKS_EVENTS),
      };
    return this.standing;
  }

  async call<O extends Operation>(
    operation: O,
    request: Passed<RequestOf<O>>,
    exchange: Exchange,
    credential: Credential,
  ): Promise<Passed<ResultOf<O>>> {
    if (operation === 'GetExtendedAgentCard' && this.format.cardPage)
      return this.cardPage(operation, exchange, credential);
    const { json } = this.standingOf(credential);
    const reply = await exchangeHttp(this.httpCall(operation, request, exchange, credential, json));
    const wire = this.unwrap(this.accepted(reply!).body, operation === 'DeleteTaskPushNotificationConfig');
    return passed(this.dialect.readResult(operation, wire.value), wire, this.format.plain);
  }

  async stream(
    operation: Streaming,
    request: Passed<RequestOf<Streaming>>,
    exchange: Exchange,
    credential: Credential,
  ): Promise<Events> {
    const sink = new StreamSink(
      this.context,
      this.dialect.eventReader(streamContext(request.value)),
      this.format.plain,
      (_, data) => this.unwrap(data, false),
    );
    const { events } = this.standingOf(credential);
    const reply = await exchangeHttp(this.httpCall(operation, request, exchange, credential, events), sink);
    if (reply) {
      const { body } = this.accepted(reply);
      sink.take(this.unwrap(body, false), body.length);
      sink.end();
    }
    return sink.events();
  }

  private httpCall<O extends Operation>(
    operation: O,
    request: Passed<RequestOf<O>>,
    exchange: Exchange,
    credential: Credential,
    standing: readonly string[],
  ): HttpCall {
    const method = this.dialect.method(operation);
    if (method === undefined) {
      throw new ProtocolError('unsupported_operation', `Agent "${this.context.name}" does not support ${operation}`, {
        outcome: 'not_executed',
      });
    }
    const { value, text } = tenanted(request as Passed<RequestOf<O> & { tenant?: string }>, this.options.tenant);
    const params =
      this.format.plain && text !== undefined
        ? text
        : JSON.stringify(this.dialect.writeRequest(operation, withWholeHistory(this.format, operation, value)));
    const body = Buffer.from(`{"jsonrpc":"2.0","id":${nextId()},"method":${quoted(method)},"params":${params}}`);
    const headers = withExchange(standing, credential, this.format, exchange);
    return this.framed(targetWith(this.target, credential), 'POST', headers, exchange, body);
  }

  private framed(
    target: HttpTarget,
    method: 'GET' | 'POST',
    headers: readonly string[],
    { cancellation }: Exchange,
    body?: Buffer,
  ): HttpCall {
    const { timeouts, limits } = this.context;
    const { http } = this.options;
    const { call: idle, callMax: total } = timeouts;
    const call = { http, target, agent: this.context, idle, total, limit: limits.event, cancellation, method, headers };
    return body ? Object.assign(call, { body }) : call;
  }

  private accepted(reply: WholeReply): WholeReply {
    if (reply.status >= 300) throw refusal(this.context, this.dialect, reply);
    return reply;
  }

  /** Returns the result of a response, or throws its error. */
  private unwrap(body: Buffer, mayBeEmpty: boolean): Passed<JsonValue> {
    const { context } = this;
    if (body.length === 0 && mayBeEmpty) return { value: null };
    if (!depthWithin(body, MAX_DEPTH)) throw invalidReply(context, 'answered with JSON that nests too deep');
    let wire: Passed<JsonValue> | undefined;
    let error: JsonValue | undefined;
    try {
      const response = RawObject.whole(body);
      error = response.get('error') ?? undefined;
      const result = response.raw('result');
      if (result) {
        const text = result.toString('utf8');
        wire = { text, value: JSON.parse(text) as JsonValue };
      }
    } catch {
      throw invalidReply(context, 'sent an answer that is not a JSON-RPC response');
    }
    if (error !== undefined) throw this.dialect.readError(error);
    if (wire) return wire;
    if (mayBeEmpty) return { value: null };
    throw invalidReply(context, 'answered with neither a result nor an error');
  }

  /** Fetches `{url}/../agent/authenticatedExtendedCard`: older versions have this page instead of a method. */
  private async cardPage<O extends Operation>(
    operation: O,
    exchange: Exchange,
    credential: Credential,
  ): Promise<Passed<ResultOf<O>>> {
    const page = new URL(this.options.url);
    page.search = '';
    page.pathname = `${page.pathname.replace(/\/+$/, '').replace(/\/[^/]*$/, '')}/agent/authenticatedExtendedCard`;
    const headers = requestHeaders(credential, this.format, exchange, ['accept', JSON_TYPE]);
    const target = targetWith(httpTarget(page), credential);
    const reply = await exchangeHttp(this.framed(target, 'GET', headers, exchange));
    const { value } = readJson(this.context, this.accepted(reply!).body);
    return { value: this.dialect.readResult(operation, value) };
  }
}
