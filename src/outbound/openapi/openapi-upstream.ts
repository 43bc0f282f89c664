/** An HTTP API with an OpenAPI document as a server of the newest revision, whose tools are the operations. */
import type { Caller } from '../../core/caller.js';
import { type BreakerSettings, CircuitBreaker } from '../../core/circuit-breaker.js';
import { complete, failed, type Outcome } from '../../core/gateway.js';
import { within } from '../../core/timing.js';
import type { Upstream, UpstreamCall, UpstreamHealth, UpstreamStatus, Watch, WatchEvent } from '../../core/upstream.js';
import { ProtocolError, UpstreamRpcError } from '../../protocol/errors.js';
import { isObject, type JsonObject, RawObject } from '../../protocol/jsonrpc/raw.js';
import type { ServerDescription, SubscriptionFilter } from '../../protocol/mcp/model.js';
import { methodNotFound } from '../../protocol/mcp/recognised-upstream-errors.js';
import type { Log } from '../../telemetry/log.js';
import { type Abortable, httpTarget } from '../http/index.js';
import { sendRaw } from '../mcp/raw-http.js';
import { CredentialError, unavailable } from '../mcp/server-errors.js';
import type { UpstreamContext } from '../mcp/upstream-context.js';
import { DocumentProblem, readDocument } from './document.js';
import { type DocumentSource, documentSource } from './document-source.js';
import { type Operation, operationsOf } from './operations.js';
import { encodeRequest } from './request-encoding.js';
import { resultOf } from './tool-result.js';

export interface OpenApiUpstreamOptions {
  readonly context: UpstreamContext;
  /** A path or a URL. */
  readonly document: string;
  /** The base URL of the API. If absent, the base URL in the document. */
  readonly url: string | undefined;
  readonly breaker?: BreakerSettings | undefined;
  readonly log: Log;
}

/** The content of the last valid document. */
interface Api {
  readonly base: string;
  readonly title: string;
  readonly version: string;
  readonly tools: readonly JsonObject[];
  readonly operations: ReadonlyMap<string, Operation>;
}

/** The gateway reads the list again after this time, and at once when the document changes. */
const LIST_TTL = 60_000;
/** Milliseconds between two attempts to read a document for the first time. */
const PAUSE = 2_000;
/** Maximum number of left-out operations that are named in the log. */
const MOST_LOGGED = 20;

export class OpenApiUpstream implements Upstream {
  readonly name: string;
  private readonly source: DocumentSource;
  private api: Api | undefined;
  private reading: Promise<Api> | undefined;
  /** The problem of the present document. The last valid document stays in use. */
  private broken: string | undefined;
  /** Why the last request did not reach the API. Undefined if it reached the API. */
  private unreachable: string | undefined;
  private readonly watches = new Set<(event: WatchEvent) => void>();
  private timer: NodeJS.Timeout | undefined;
  /** Earliest time of the next attempt to read a document that could not be read, on the clock of `performance.now`. */
  private nextAttempt = 0;
  private readonly breaker: CircuitBreaker;
  private closed = false;

  constructor(private readonly options: OpenApiUpstreamOptions) {
    const { context, document } = options;
    this.name = context.name;
    this.breaker = new CircuitBreaker(options.breaker);
    this.source = documentSource(document, context.http, context.timeouts.connect + context.timeouts.call);
  }

  async describe(): Promise<ServerDescription> {
    const { title, version } = await this.current();
    return { capabilities: { tools: { listChanged: true } }, serverInfo: { name: this.name, title, version } };
  }

  async request(caller: Caller, call: UpstreamCall): Promise<Outcome> {
    try {
      switch (call.method) {
        case 'tools/list': {
          const { tools } = await this.read();
          return complete(
            RawObject.from({ resultType: 'complete', tools: [...tools], ttlMs: LIST_TTL, cacheScope: 'public' }),
          );
        }
        case 'tools/call':
          return complete(RawObject.from(await this.call(caller, call)));
        default:
          return failed(methodNotFound(call.method));
      }
    } catch (error) {
      if (error instanceof ProtocolError || error instanceof UpstreamRpcError) return failed(error);
      throw error;
    }
  }

  private async call(caller: Caller, call: UpstreamCall): Promise<JsonObject> {
    const { params, cancellation, timeouts, trace } = call;
    const { operations, base } = await this.current();
    const name = params.get('name');
    const operation = typeof name === 'string' ? operations.get(name) : undefined;
    if (!operation)
      throw new ProtocolError('tool_not_found', `Unknown tool: ${String(name)}`, { outcome: 'not_executed' });
    const args = params.get('arguments') ?? {};
    if (!isObject(args)) throw new ProtocolError('invalid_params', '"arguments" must be an object');
    const { path, query, headers, body } = encodeRequest(operation, args);
    const traced = trace
      ? ['traceparent', trace.traceparent, ...(trace.tracestate ? ['tracestate', trace.tracestate] : [])]
      : [];
    const { context } = this.options;
    const chunks: Buffer[] = [];
    let replied: { readonly status: number; readonly headers: readonly string[] } | undefined;
    call.permit?.();
    this.refuseWhileOpen();
    try {
      await sendRaw({ ...context, timeouts: { ...context.timeouts, ...timeouts } }, base, caller, {
        ...{ method: operation.method, path, query, body, cancellation },
        headers: [...headers, ...traced],
        start: (status, given) => {
          replied = { status, headers: given };
          this.reached();
        },
        data: (chunk) => chunks.push(chunk),
      });
    } catch (error) {
      this.failed(error);
      throw error;
    }
    return resultOf(this.name, { ...replied!, body: Buffer.concat(chunks) });
  }

  /** Throws while the API could not be reached several times in a row. */
  private refuseWhileOpen(): void {
    const refusal = this.breaker.enter();
    if (!refusal) return;
    const { state, nextTrialMs } = refusal;
    throw new ProtocolError('upstream_unavailable', `Server "${this.name}" could not be reached; try again later`, {
      outcome: 'not_executed',
      data: { server: this.name, breaker: state, nextTrialMs },
    });
  }

  /**
   * Only an unreachable API is down. A slow operation, or a caller without a credential, does not change its health.
   */
  private failed(error: unknown): void {
    const unreached =
      error instanceof ProtocolError && error.reason === 'upstream_unavailable' && !(error instanceof CredentialError);
    if (!unreached) {
      this.breaker.inconclusive();
      return;
    }
    this.breaker.failed();
    this.unreachable = error.message;
  }

  private reached(): void {
    this.breaker.answered();
    this.unreachable = undefined;
  }

  /** The known document. Reads the document if none is known. */
  private current(): Promise<Api> {
    return this.api ? Promise.resolve(this.api) : this.read();
  }

  /**
   * Reads the document again if it has changed. If the new document has a problem, the last valid document stays in
   * use.
   */
  private read(): Promise<Api> {
    this.reading ??= this.readNow().finally(() => {
      this.reading = undefined;
    });
    return this.reading;
  }

  private async readNow(): Promise<Api> {
    const { context, log } = this.options;
    // While there is no document, callers cause at most one attempt to read it per pause.
    if (!this.api && performance.now() < this.nextAttempt)
      throw unavailable(context, this.broken ?? 'its OpenAPI document could not be read');
    try {
      const text = await this.source.read();
      if (text !== undefined) this.take(readDocument(text));
      // The document has not changed since its problem was reported.
      else if (this.broken !== undefined || !this.api)
        return this.kept(this.broken ?? 'its OpenAPI document could not be read');
      return this.api!;
    } catch (error) {
      if (!(error instanceof DocumentProblem)) throw error;
      const problem = `its OpenAPI document ${error.message}`;
      if (this.api && this.broken !== problem)
        log.warn({ server: this.name, why: problem }, 'kept the last OpenAPI document');
      return this.kept(problem);
    }
  }

  /** Replaces the document in use, and reports changed tools. */
  private take(document: JsonObject): void {
    const before = this.api;
    this.api = this.apiOf(document);
    this.broken = undefined;
    if (before && JSON.stringify(before.tools) !== JSON.stringify(this.api.tools))
      for (const deliver of this.watches) deliver({ kind: 'toolsListChanged' });
  }

  /** The last valid document. Throws if there is none. */
  private kept(problem: string): Api {
    this.broken = problem;
    if (this.api) return this.api;
    this.nextAttempt = performance.now() + PAUSE;
    throw unavailable(this.options.context, problem);
  }

  private apiOf(document: JsonObject): Api {
    const { log } = this.options;
    const { server, operations, skipped } = operationsOf(document);
    for (const reason of skipped.slice(0, MOST_LOGGED))
      log.warn({ server: this.name, why: reason }, 'an operation of an OpenAPI document is not offered');
    const info = isObject(document['info']) ? document['info'] : {};
    const text = (value: unknown, other: string): string =>
      typeof value === 'string' && value !== '' ? value.slice(0, 200) : other;
    return {
      base: this.baseOf(server),
      title: text(info['title'], this.name),
      version: text(info['version'], '0'),
      tools: operations.map(({ tool }) => tool),
      operations: new Map(operations.map((operation) => [operation.name, operation])),
    };
  }

  /**
   * The base URL: the setting, otherwise the first server of the document. A fetched document names only its own
   * origin: otherwise its author could lead requests, with the credential of the gateway, to any address.
   */
  private baseOf(written = '/'): string {
    if (this.options.url !== undefined) return this.options.url;
    const from = this.source.url;
    const set = 'set "url" of the server to the base URL of the API';
    if (!URL.canParse(written, from) || written.includes('{')) throw new DocumentProblem(`names no base URL; ${set}`);
    const base = new URL(written, from);
    if (base.protocol !== 'http:' && base.protocol !== 'https:') throw new DocumentProblem(`names no base URL; ${set}`);
    if (base.username !== '' || (from !== undefined && base.origin !== new URL(from).origin))
      throw new DocumentProblem(`names a base URL at another origin; ${set}`);
    return base.href;
  }

  watch(filter: SubscriptionFilter, deliver: (event: WatchEvent) => void): Promise<Watch> {
    if (filter.toolsListChanged !== true) return Promise.resolve({ honoured: {}, close: () => {} });
    // Each watch is an entry of its own, also for the same function.
    const entry = (event: WatchEvent): void => deliver(event);
    this.watches.add(entry);
    this.look();
    return Promise.resolve({ honoured: { toolsListChanged: true }, close: () => void this.watches.delete(entry) });
  }

  keepWatching(filter: SubscriptionFilter, deliver: (event: WatchEvent) => void): Promise<unknown> {
    return this.watch(filter, deliver);
  }

  /** Checks for a changed document at intervals while there are watches. */
  private look(): void {
    if (this.closed || this.timer) return;
    this.timer = setTimeout(() => {
      this.timer = undefined;
      if (this.watches.size === 0) return;
      void this.read()
        .catch(() => {})
        .finally(() => this.look());
    }, this.source.interval).unref();
  }

  /** The list has a TTL, and the document is checked for changes in between. */
  listNews(): 'polled' {
    return 'polled';
  }

  rootsChanged(): void {}

  release(): void {}

  health(): UpstreamHealth {
    const breaker = this.breaker.health();
    const problem = this.unreachable ?? this.broken;
    return {
      status: this.status,
      speaks: [],
      ...(problem !== undefined && { detail: problem }),
      ...(breaker.state !== 'closed' && { breaker }),
    };
  }

  private get status(): UpstreamStatus {
    if (!this.api) return this.broken === undefined ? 'unknown' : 'down';
    return this.unreachable === undefined ? 'up' : 'down';
  }

  /**
   * Checks for a changed document. If the API could not be reached, sends it a request without a credential; any answer
   * shows that it can be reached again.
   */
  async checkHealth(): Promise<void> {
    const api = await this.read().catch(() => undefined);
    if (!api || this.unreachable === undefined) return;
    if (await this.answers(api.base)) this.reached();
  }

  private async answers(url: string): Promise<boolean> {
    const { http, timeouts } = this.options.context;
    let probe: Abortable | undefined;
    const reply = new Promise<boolean>((resolve) => {
      probe = http.request(
        httpTarget(url),
        { method: 'GET', headers: [] },
        { start: () => resolve(true), data: () => {}, end: () => {}, fail: () => resolve(false) },
      );
    });
    const answered = await within(reply, timeouts.connect);
    probe?.abort();
    return answered === true;
  }

  async close(): Promise<void> {
    this.closed = true;
    clearTimeout(this.timer);
    this.watches.clear();
    await this.options.context.http.close();
  }
}
