import type { Events, Exchange, Passed } from '../../core/a2a/agent.js';
import type { Credential } from '../../identity/upstream-credentials.js';
import type { Dialect } from '../../protocol/a2a/dialect.js';
import { dialect } from '../../protocol/a2a/index.js';
import type { Operation, RequestOf, ResultOf, Streaming } from '../../protocol/a2a/model.js';
import {
  type RequestFormat,
  type RestFormat,
  type RestRoute,
  requestFormatOf,
  restRoute,
} from '../../protocol/a2a/request-format.js';
import { streamContext } from '../../protocol/a2a/stream-context.js';
import { ProtocolError } from '../../protocol/errors.js';
import { isObject, type JsonObject, type JsonValue } from '../../protocol/jsonrpc/raw.js';
import { type HttpTarget, httpTarget } from '../http/index.js';
import type { AgentContext } from './agent-context.js';
import { type AgentRef, EndpointNotFound } from './agent-errors.js';
import { readJson, refusal } from './agent-reply.js';
import { type EventSink, exchange as exchangeHttp, type HttpCall, type WholeReply } from './http-exchange.js';
import { passed, StreamSink, tenanted } from './passthrough.js';
import { requestHeaders, targetWith } from './request-headers.js';
import type { Wire, WireOptions } from './wire.js';

/** One form of a request. Agents of one version differ in the form that they accept. */
interface Form {
  readonly key: string;
  readonly dialect: Dialect;
  readonly body: string | undefined;
}

const ACCEPT_JSON = 'application/json, application/a2a+json';
const ACCEPT_EVENTS = 'text/event-stream, application/json';

/** HTTP+JSON, for all versions with this binding. */
export class RestWire implements Wire {
  private readonly context: AgentContext;
  private readonly format: RequestFormat;
  private readonly rest: RestFormat;
  private readonly target: HttpTarget;
  private readonly dialects: readonly Dialect[];
  /** The form of each operation that the agent accepted last. It is tried first. */
  private readonly understood = new Map<Operation, string>();
  /** The dialect of the agent's last readable answer. */
  private spoken: Dialect;
  private subscribeBy: 'POST' | 'GET' = 'POST';

  constructor(private readonly options: WireOptions) {
    this.context = options.context;
    this.format = requestFormatOf(options.version);
    if (!this.format.rest) throw new Error('this version has no HTTP+JSON binding');
    this.rest = this.format.rest;
    this.dialects = this.rest.dialects.map((id) => dialect(id));
    this.spoken = this.dialects[0]!;
    const { origin, path } = httpTarget(options.url);
    this.target = { origin, path: path.replace(/\?.*$/, '').replace(/\/+$/, '') };
  }

  async call<O extends Operation>(
    operation: O,
    request: Passed<RequestOf<O>>,
    exchange: Exchange,
    credential: Credential,
  ): Promise<Passed<ResultOf<O>>> {
    const sent = tenanted(request as Passed<RequestOf<O> & { tenant?: string }>, this.options.tenant);
    const route = restRoute(this.rest, operation, sent.value as JsonObject);
    return this.inSomeForm(operation, route, sent, async (form) => {
      const reply = await exchangeHttp(this.httpCall(route, form, exchange, credential, ACCEPT_JSON));
      const { body } = this.accepted(reply!, form.dialect);
      if (operation === 'DeleteTaskPushNotificationConfig') return { value: null as ResultOf<O> };
      const wire = readJson(this.context, body);
      return passed(
        this.understand(form.dialect, (by) => by.readResult(operation, wire.value)),
        wire,
        this.format.plain,
      );
    });
  }

  async stream(
    operation: Streaming,
    request: Passed<RequestOf<Streaming>>,
    exchange: Exchange,
    credential: Credential,
  ): Promise<Events> {
    const sent = tenanted(request, this.options.tenant);
    const route = restRoute(this.rest, operation, sent.value as JsonObject);
    return this.inSomeForm(operation, route, sent, async (form) => {
      const sink = new StreamSink(
        this.context,
        form.dialect.eventReader(streamContext(request.value)),
        this.format.plain,
        (name, data) => this.unwrap(form.dialect, name, data),
      );
      const reply = await this.open(operation, route, form, exchange, credential, sink);
      if (reply) {
        const { body } = this.accepted(reply, form.dialect);
        sink.take(readJson(this.context, body), body.length);
        sink.end();
      }
      return sink.events();
    });
  }

  /**
   * The proto file defines subscription with GET, the text of the specification with POST. Remembers what works (§1.5).
   */
  private async open(
    operation: Streaming,
    route: RestRoute,
    form: Form,
    exchange: Exchange,
    credential: Credential,
    sink: EventSink,
  ): Promise<WholeReply | undefined> {
    if (operation !== 'SubscribeToTask')
      return exchangeHttp(this.httpCall(route, form, exchange, credential, ACCEPT_EVENTS), sink);
    const by = (verb: 'POST' | 'GET'): HttpCall =>
      this.httpCall(
        { ...route, verb, body: verb === 'GET' ? 'none' : route.body },
        form,
        exchange,
        credential,
        ACCEPT_EVENTS,
      );
    const reply = await exchangeHttp(by(this.subscribeBy), sink);
    if (!reply || !(refused(this.context, form.dialect, reply) instanceof EndpointNotFound)) return reply;
    const other = this.subscribeBy === 'POST' ? 'GET' : 'POST';
    const second = await exchangeHttp(by(other), sink);
    if (!second || !(refused(this.context, form.dialect, second) instanceof EndpointNotFound)) this.subscribeBy = other;
    return second;
  }

  /**
   * Tries the forms of a request until the agent accepts one. Only a refusal of the body leads to the next form: such a
   * request was not executed.
   */
  private async inSomeForm<O extends Operation, T>(
    operation: O,
    route: RestRoute,
    request: Passed<RequestOf<O>>,
    use: (form: Form) => Promise<T>,
  ): Promise<T> {
    let refusedAs: unknown;
    for (const form of this.forms(operation, route, request)) {
      try {
        const result = await use(form);
        this.remember(operation, form);
        return result;
      } catch (error) {
        if (!isBodyRefusal(error)) {
          // An error about the content of the request shows that the agent accepts the form.
          if (!(error instanceof EndpointNotFound)) this.remember(operation, form);
          throw error;
        }
        refusedAs ??= error;
      }
    }
    throw refusedAs;
  }

  private remember(operation: Operation, { key, dialect }: Form): void {
    this.understood.set(operation, key);
    this.spoken = dialect;
  }

  /** All forms of a request, starting with the form that the agent is known to accept. */
  private forms<O extends Operation>(operation: O, route: RestRoute, { value, text }: Passed<RequestOf<O>>): Form[] {
    const { spoken } = this;
    if (route.body !== 'request')
      return [{ key: spoken.id, dialect: spoken, body: route.body === 'empty' ? '{}' : undefined }];
    if (this.format.plain && text !== undefined) return [{ key: spoken.id, dialect: spoken, body: text }];
    const forms: Form[] = [];
    for (const each of this.dialects) {
      const written = each.writeRequest(operation, value);
      forms.push({ key: each.id, dialect: each, body: JSON.stringify(written) });
      // By the HTTP rule of the proto file, the body is only the configuration. Existing servers expect the whole
      // request.
      const inner = written['config'];
      if (operation === 'CreateTaskPushNotificationConfig' && isObject(inner))
        forms.push({ key: `${each.id} config`, dialect: each, body: JSON.stringify(inner) });
    }
    const known = this.understood.get(operation) ?? spoken.id;
    return forms.sort((a, b) => Number(b.key === known) - Number(a.key === known));
  }

  /** Reads an answer in either dialect: an agent may accept one dialect and answer in the other. */
  private understand<T>(by: Dialect, read: (by: Dialect) => T): T {
    try {
      return read(by);
    } catch (error) {
      const other = this.dialects.find((each) => each !== by);
      if (!other || !(error instanceof ProtocolError) || error.reason !== 'invalid_agent_response') throw error;
      return read(other);
    }
  }

  private httpCall(route: RestRoute, form: Form, exchange: Exchange, credential: Credential, accept: string): HttpCall {
    const { timeouts, limits } = this.context;
    const body = route.body === 'none' ? undefined : Buffer.from(form.body ?? '{}');
    const own = ['accept', accept, ...(body ? ['content-type', 'application/json'] : [])];
    return {
      http: this.options.http,
      target: targetWith({ origin: this.target.origin, path: `${this.target.path}${route.path}` }, credential),
      method: route.verb,
      headers: requestHeaders(credential, this.format, exchange, own),
      ...(body && { body }),
      agent: this.context,
      idle: timeouts.call,
      total: timeouts.callMax,
      limit: limits.event,
      cancellation: exchange.cancellation,
    };
  }

  private accepted(reply: WholeReply, by: Dialect): WholeReply {
    const error = refused(this.context, by, reply);
    if (error) throw error;
    return reply;
  }

  /**
   * Returns the data of an event. Throws if the event is an error: its name is `error`, or its data is an object with
   * an `error` member.
   */
  private unwrap(by: Dialect, name: string, data: Buffer): Passed<JsonValue> {
    const wire = readJson(this.context, data);
    const { value } = wire;
    if (name === 'error' || (isObject(value) && isObject(value['error']))) throw by.readError(value);
    return wire;
  }
}

const refused = (agent: AgentRef, by: Dialect, reply: WholeReply): Error | undefined =>
  reply.status >= 300 ? refusal(agent, by, reply) : undefined;

const BODY_REFUSALS: ReadonlySet<string> = new Set(['invalid_params', 'invalid_request', 'parse_error']);

const isBodyRefusal = (error: unknown): boolean => error instanceof ProtocolError && BODY_REFUSALS.has(error.reason);
