import { ProtocolError, UpstreamRpcError } from '../protocol/errors.js';
import { type Edits, isEmpty, RawObject } from '../protocol/jsonrpc/raw.js';
import { type ClientCapabilities, type InputRequests, TASKS_EXTENSION } from '../protocol/mcp/model.js';
import { needsTask, refusalIn } from '../protocol/mcp/recognised-upstream-errors.js';
import { declares, lacksCapability } from '../protocol/mcp/translate/questions.js';
import { createTaskResult, detailedTask, taskSupport } from '../protocol/mcp/translate/task.js';
import type { ItemTarget } from './admission.js';
import type { McpContext, McpRoute } from './call.js';
import type { Caller } from './caller.js';
import type { CapabilitySet } from './catalog/capability-set.js';
import type { Catalog } from './catalog/catalog.js';
import type { Item } from './catalog/server-list-cache.js';
import type { CallState } from './era-bridge/call-state.js';
import type { HostedTaskRecord } from './era-bridge/hosted-task-record.js';
import { type HostedTasks, unknownTask } from './era-bridge/hosted-tasks.js';
import type { ParkedCalls } from './era-bridge/parked-calls.js';
import { readAnswers, refuseDeclined, refuseFailures, refuseUndeclared } from './era-bridge/question-checks.js';
import { type BridgeSwitches, relayable } from './era-bridge/relayed-capabilities.js';
import { finishing, parkedUntilAnswered, parkedUntilVisited, type SendAgain } from './era-bridge/resume-answered.js';
import { type Call, complete, failed, type Outcome } from './gateway.js';
import { type Seal, SealBroken } from './seal.js';
import { readTrace, type TraceContext, writeTrace } from './trace-context.js';
import type { Upstream, UpstreamCall } from './upstream.js';
import type { View } from './view.js';

/** The route to a server: the target at that server, and the parameters to rewrite for it. */
export class ServerRoute implements McpRoute {
  constructor(
    private readonly forwarder: Forwarder,
    readonly target: ItemTarget,
    readonly edits: Edits,
    readonly item?: Item,
    /** For a tool: the capability set of the list that contains it. */
    readonly set?: CapabilitySet,
  ) {}

  forward(context: McpContext): Promise<Outcome> {
    return this.forwarder.forward(context, this);
  }
}

type Route = Pick<ServerRoute, 'target' | 'edits' | 'item' | 'set'>;

export interface ForwarderOptions {
  readonly catalog: Catalog;
  readonly parking: ParkedCalls;
  readonly tasks: HostedTasks;
  readonly seal: Seal;
  readonly bridge: BridgeSwitches & { readonly parkTtl: number };
  /** The longest duration of a task, and the lifetime of its handle. */
  readonly taskTtl: number;
}

/** Whether the server may answer with a task, the time limits, and the edits of the parameters. */
type RequestMode = Pick<UpstreamCall, 'tasks' | 'timeouts'> & { readonly edits?: Edits };

const PLAIN: RequestMode = { tasks: 'none' };
const TASKS_CAPABILITY: ClientCapabilities = { extensions: { [TASKS_EXTENSION]: {} } };

/** Forwards a call to its server and translates the server's outcome to the caller's revision. */
export class Forwarder {
  constructor(private readonly options: ForwarderOptions) {}

  /** Only the pipeline calls this method, after all interceptors. */
  async forward({ caller, call }: McpContext, route: Route): Promise<Outcome> {
    const { target } = route;
    const upstream = this.upstream(target.server);
    const { state } = call;
    if (state && state.kind !== 'approval' && state.server !== target.server) {
      throw new ProtocolError('invalid_state', 'The request state belongs to another request');
    }
    if (call.cancellation.cancelled) {
      if (state?.kind === 'parked') this.options.parking.abandon(state.ticket, call.cancellation.reason);
      if (state?.kind === 'relay' && state.state !== undefined) upstream.abandon?.(caller, state.state);
      throw new ProtocolError('cancelled', 'The request was cancelled', { outcome: 'not_executed' });
    }
    if (state?.kind === 'parked') return this.resume(caller, call, target.server, state);
    if (state?.kind === 'relay') refuseFailures(call);
    if (state?.kind === 'again') refuseDeclined(target.server, readAnswers(call));
    const onBehalf = this.onBehalf(caller, call);
    const takesTasks = caller.capabilities.extensions !== undefined && declares(caller.capabilities, TASKS_CAPABILITY);
    const support = route.item ? taskSupport(route.item.value) : 'forbidden';
    if (call.method === 'tools/call' && (call.task || (takesTasks && support !== 'forbidden'))) {
      return this.host(onBehalf, call, route, upstream, state, support !== 'forbidden');
    }
    const mode = takesTasks ? RELAYED : support === 'required' ? this.asTask(undefined) : PLAIN;
    let outcome = await upstream.request(onBehalf, this.toUpstream(call, route, state, mode));
    if (outcome.kind === 'complete') return outcome;
    if (route.set !== undefined && isHeaderMismatch(outcome)) {
      // The server refused the call and executed nothing, so one retry is safe (BR-23).
      const renewed = await this.withCurrentTool(caller, route, route.set);
      outcome = await upstream.request(onBehalf, this.toUpstream(call, renewed, state, mode));
    }
    if (
      caller.revision.expresses.tasks !== 'extension' &&
      outcome.kind === 'error' &&
      needsTask(refusalIn(outcome.error))
    ) {
      // The server runs this tool only as a task. The caller's revision has no such tasks, so the gateway follows the
      // task.
      const followed = await upstream.request(
        onBehalf,
        this.toUpstream(call, route, state, { ...this.asTask(undefined), edits: {} }),
      );
      return this.bridged(caller, onBehalf.capabilities, call, target.server, followed);
    }
    return this.bridged(caller, onBehalf.capabilities, call, target.server, outcome);
  }

  /**
   * The route of a method that the gateway does not know. The gateway forwards such a method only if the view shows a
   * single server under its own names.
   */
  unknown(call: Call): McpRoute {
    const { only: server } = call.view;
    if (server === undefined) throw new ProtocolError('method_not_found', `Method not found: ${call.method}`);
    const target: ItemTarget = { server, kind: 'method', name: call.method };
    return { target, forward: (context) => this.passOn(context, target) };
  }

  private async passOn({ caller, call }: McpContext, target: ItemTarget): Promise<Outcome> {
    const { server } = target;
    const outcome = await this.upstream(server).request(
      this.onBehalf(caller, call),
      this.toUpstream(call, { target, edits: {} }, call.state, PLAIN),
    );
    if (outcome.kind === 'error' && refusalIn(outcome.error)?.reason === 'method_not_found') {
      throw new ProtocolError('method_not_found', `Method not found: ${call.method}`);
    }
    return this.bridged(caller, caller.capabilities, call, server, outcome);
  }

  /** The same route with the tool as its server lists it now. */
  private async withCurrentTool(caller: Caller, { target, edits }: Route, set: CapabilitySet): Promise<Route> {
    const { catalog } = this.options;
    const { server, name, offered = name } = target;
    await catalog.refreshTools(caller, server, set);
    const item = catalog.knownTool(caller, server, offered, set);
    return { target, edits, ...(item && { item }) };
  }

  private upstream(server: string): Upstream {
    const upstream = this.options.catalog.upstream(server);
    if (!upstream) throw new ProtocolError('not_found', `There is no server "${server}"`);
    return upstream;
  }

  private onBehalf(caller: Caller, call: Call): Caller {
    const { capabilities } = caller;
    // Most callers declare no capabilities, so there are none to remove.
    if (isEmpty(capabilities)) return caller;
    return { ...caller, capabilities: relayable(capabilities, this.options.bridge, call.view.only !== undefined) };
  }

  private asTask(ttl: number | undefined): RequestMode {
    const { taskTtl } = this.options;
    const time = Math.min(ttl ?? taskTtl, taskTtl);
    return { tasks: 'follow', timeouts: { call: time, callMax: time }, edits: { task: JSON.stringify({ ttl: time }) } };
  }

  private toUpstream(call: Call, route: Route, state: CallState | undefined, mode: RequestMode): UpstreamCall {
    // Each hop decides by itself whether to ask for a task (TSKX-10).
    let params = isEmpty(route.edits) ? call.params : call.params.edit(route.edits);
    if (mode.edits || call.params.has('task')) params = params.edit({ task: undefined, ...mode.edits });
    // The inbound adapter has already opened the client's request state; the sealed value is not for the server.
    if (state || params.has('requestState')) {
      const given = state?.kind === 'relay' && state.state !== undefined ? JSON.stringify(state.state) : undefined;
      params = params.edit({
        requestState: given,
        // Answers to the gateway's own questions are not for the server.
        ...(state?.kind !== 'relay' && { inputResponses: undefined }),
      });
    }
    return {
      method: call.method,
      params,
      wantsProgress: call.wantsProgress,
      logLevel: this.options.bridge.logging ? call.logLevel : undefined,
      cancellation: call.cancellation,
      mirrored: route.item?.mirrored ?? [],
      tasks: mode.tasks,
      timeouts: mode.timeouts,
      after: state?.kind === 'again' && state.after.length > 0 ? state.after : undefined,
      notify: (notification) => call.notify(notification),
      polling: call.polling && ((retry) => call.polling?.(retry)),
      trace: call.trace ?? headerTrace(call),
    };
  }

  private async resume(
    caller: Caller,
    call: Call,
    server: string,
    state: CallState & { kind: 'parked' },
  ): Promise<Outcome> {
    const answers = readAnswers(call);
    const { outcome, next } = await this.options.parking.resume(state.ticket, caller.principal.key, call, answers);
    if (outcome.kind !== 'input_required' || !next)
      return this.bridged(caller, caller.capabilities, call, server, outcome);
    return asking(outcome.inputRequests, { kind: 'parked', server, ticket: next });
  }

  /** Translates a server's outcome into one that the caller's revision can express. */
  private async bridged(
    caller: Caller,
    capabilities: ClientCapabilities,
    call: Call,
    server: string,
    outcome: Outcome,
  ): Promise<Outcome> {
    if (outcome.kind === 'input_required') return this.question(caller, capabilities, call, server, outcome);
    if (outcome.kind === 'task') return { kind: 'task', result: this.sealTask(caller, call, server, outcome.result) };
    if (outcome.kind === 'error' && outcome.error instanceof UpstreamRpcError) {
      return this.bridgedError(caller, capabilities, server, outcome.error);
    }
    return outcome;
  }

  private async question(
    caller: Caller,
    capabilities: ClientCapabilities,
    call: Call,
    server: string,
    outcome: Outcome & { kind: 'input_required' },
  ): Promise<Outcome> {
    const asked = outcome.inputRequests ?? {};
    refuseUndeclared(capabilities, server, outcome);
    if (!outcome.parked) {
      const state: CallState = {
        kind: 'relay',
        server,
        ...(outcome.requestState !== undefined && { state: outcome.requestState }),
      };
      return asking(outcome.inputRequests, state);
    }
    // A client that supports tasks gets a task, because a task can be polled and cancelled (mcp.md 4.4).
    if (call.method === 'tools/call' && declares(caller.capabilities, TASKS_CAPABILITY)) {
      this.options.parking.count(caller.principal.key, server, outcome.parked, call.params.size);
      const parked = finishing(outcome.parked, call);
      const view = await this.options.tasks
        .adopt(
          caller.principal.key,
          server,
          { notify: (notification) => call.notify(notification), trace: call.trace },
          { ...outcome, parked },
        )
        .catch((error: unknown) => {
          parked.abandon('The task could not be stored');
          throw error;
        });
      return { kind: 'task', result: RawObject.from(createTaskResult(view)) };
    }
    const ticket = this.options.parking.park(caller.principal.key, server, outcome.parked, call.params.size);
    // A client of an older revision answers on the same connection, which reaches this process. The answer of any other
    // client may reach another process, so the call is stored.
    if (caller.revision.expresses.inputRequired) await this.options.parking.keep(ticket);
    return asking(asked, { kind: 'parked', server, ticket });
  }

  /**
   * Errors that concern the hop to the server do not reach the caller. The gateway replaces each with the error that
   * fits the caller's request (GW-07).
   */
  private bridgedError(
    caller: Caller,
    capabilities: ClientCapabilities,
    server: string,
    error: UpstreamRpcError,
  ): Outcome {
    const refusal = refusalIn(error);
    if (refusal?.reason === 'missing_capability' && !declares(capabilities, refusal.required))
      throw lacksCapability(server, refusal.required);
    if (refusal?.reason === 'url_elicitation_required' && caller.revision.expresses.inputRequired) {
      if (!declares(capabilities, URL_ELICITATION)) throw lacksCapability(server, URL_ELICITATION);
      return asking(refusal.requests, { kind: 'again', server, after: refusal.ids });
    }
    return failed(error);
  }

  /** Runs a call as a task hosted by the gateway. */
  private async host(
    caller: Caller,
    call: Call,
    route: Route,
    upstream: Upstream,
    state: CallState | undefined,
    taskParameter: boolean,
  ): Promise<Outcome> {
    const ttl = call.task?.ttl;
    const mode = this.asTask(ttl);
    const asked: RequestMode = taskParameter ? mode : { ...mode, edits: {} };
    const view = await this.options.tasks.start(
      caller.principal.key,
      route.target.server,
      { ttl, bytes: call.params.size, notify: (notification) => call.notify(notification), trace: call.trace },
      (sinks) => {
        const detached: Call = { ...call, ...sinks };
        const again: SendAgain = async (params, given, from) => {
          const { server } = route.target;
          const outcome = await upstream.request(
            caller,
            this.toUpstream({ ...detached, ...from, params }, route, given, asked),
          );
          const refusal = outcome.kind === 'error' ? refusalIn(outcome.error) : undefined;
          const visits = refusal?.reason === 'url_elicitation_required' ? refusal : undefined;
          const question: Outcome = visits ? { kind: 'input_required', inputRequests: visits.requests } : outcome;
          if (question.kind !== 'input_required') return call.finished?.(question) ?? question;
          refuseUndeclared(caller.capabilities, server, question);
          if (question.parked) {
            // The task counts the bytes of the request.
            this.options.parking.count(caller.principal.key, server, question.parked, 0);
            return { ...question, parked: finishing(question.parked, call) };
          }
          const parked = visits
            ? parkedUntilVisited(visits.ids, call.params, server, again)
            : parkedUntilAnswered(question.requestState, call.params, server, again, upstream, caller);
          return { ...question, parked };
        };
        return again(call.params, state, sinks);
      },
    );
    return { kind: 'task', result: RawObject.from(createTaskResult(view)) };
  }

  /**
   * Gives a server's task a handle of the gateway: the sealed handle contains the owner, the server and the server's
   * task id.
   */
  private sealTask(caller: Caller, call: Call, server: string, result: RawObject): RawObject {
    const handle = [server, result.get('taskId'), ...(call.trace ? [call.trace.traceparent] : [])];
    const taskId = this.options.seal.close('task', caller.principal.key, handle, this.options.taskTtl);
    return result.edit({ taskId: JSON.stringify(taskId) });
  }

  /**
   * The route of `tasks/get`, `tasks/update` and `tasks/cancel`, for tasks of servers and for tasks that the gateway
   * hosts.
   */
  async task(caller: Caller, call: Call): Promise<McpRoute> {
    if (!declares(caller.capabilities, TASKS_CAPABILITY)) throw lacksCapability('parley', TASKS_CAPABILITY);
    const taskId = call.params.get('taskId');
    if (typeof taskId !== 'string') throw new ProtocolError('invalid_params', '"taskId" must be a string');
    const relayed = this.openTask(caller, taskId);
    if (relayed) {
      const [server, own, trace] = relayed;
      this.checkView(call.view, server, taskId);
      const target: ItemTarget = { server, kind: 'task', name: own };
      return { target, trace, forward: (context) => this.relayTask(context, taskId, target) };
    }
    const { record, target } = await this.hosted(caller, taskId, call.view);
    return { target, trace: record.trace, forward: (context) => this.hostedTask(context, record) };
  }

  /** A task that the gateway hosts, with its target for interceptors. */
  async hosted(
    caller: Caller,
    taskId: string,
    view: View,
  ): Promise<{ readonly record: HostedTaskRecord; readonly target: ItemTarget }> {
    const record = await this.options.tasks.find(caller.principal.key, taskId);
    this.checkView(view, record.server, taskId);
    return { record, target: { server: record.server, kind: 'task', name: taskId } };
  }

  /**
   * A task of a server outside the endpoint does not exist at this endpoint, because the caller's access token may be
   * valid for this endpoint only.
   */
  private checkView(view: View, server: string, taskId: string): void {
    if (!this.options.catalog.showsTasksOf(view, server)) throw unknownTask(taskId);
  }

  private async hostedTask({ caller, call }: McpContext, record: HostedTaskRecord): Promise<Outcome> {
    const { tasks } = this.options;
    const principal = caller.principal.key;
    switch (call.method) {
      case 'tasks/update':
        await tasks.update(principal, record.taskId, readAnswers(call));
        return complete(RawObject.from({}));
      case 'tasks/cancel':
        await tasks.cancel(principal, record.taskId);
        return complete(RawObject.from({}));
      default:
        return complete(RawObject.from(detailedTask(record)));
    }
  }

  private openTask(caller: Caller, taskId: string): [server: string, own: string, trace?: string] | undefined {
    try {
      return this.options.seal.open('task', caller.principal.key, taskId) as [string, string, string?];
    } catch (error) {
      if (error instanceof SealBroken) return undefined;
      throw error;
    }
  }

  private async relayTask({ caller, call }: McpContext, taskId: string, target: ItemTarget): Promise<Outcome> {
    const outcome = await this.upstream(target.server).request(
      this.onBehalf(caller, call),
      this.toUpstream(call, { target, edits: { taskId: JSON.stringify(target.name) } }, undefined, RELAYED),
    );
    if (outcome.kind !== 'complete' || !outcome.result.has('taskId')) return outcome;
    return complete(outcome.result.edit({ taskId: JSON.stringify(taskId) }));
  }

  /** The targets of the given tasks that the gateway hosts for this caller. */
  async ownedTasks(caller: Caller, taskIds: readonly string[], view: View): Promise<ItemTarget[]> {
    if (taskIds.length > 0 && !declares(caller.capabilities, TASKS_CAPABILITY))
      throw lacksCapability('parley', TASKS_CAPABILITY);
    const owned: ItemTarget[] = [];
    for (const taskId of taskIds) {
      const known = await this.hosted(caller, taskId, view).catch(() => undefined);
      if (known) owned.push(known.target);
    }
    return owned;
  }
}

const TRACEPARENT_KEY = Buffer.from('"traceparent"');

/** OTEL-02: the trace context of the HTTP headers, unless `_meta` has one, which passes unchanged. */
function headerTrace({ header, params }: Call): TraceContext | undefined {
  const traceparent = header?.('traceparent');
  if (traceparent === undefined || traceparent === '' || params.mentions('_meta', TRACEPARENT_KEY)) return undefined;
  const span = readTrace({ traceparent, tracestate: header?.('tracestate') ?? '' });
  return span && writeTrace(span);
}

const asking = (inputRequests: InputRequests | undefined, state: CallState): Outcome => ({
  kind: 'input_required',
  inputRequests,
  state,
});

const RELAYED: RequestMode = { tasks: 'relay' };
const URL_ELICITATION: ClientCapabilities = { elicitation: { url: {} } };

/** The tool's `x-mcp-header` annotations changed since the gateway read the list. */
const isHeaderMismatch = (outcome: Outcome): boolean =>
  outcome.kind === 'error' && refusalIn(outcome.error)?.reason === 'header_mismatch';
