/**
 * The step of plugins: `onRequest` on the way in, `onEvent` while the call runs, `onResponse`, `onError` and `onList` on
 * the way back.
 */
import type { AgentAnswer } from '../core/a2a/gateway.js';
import type { A2aContext, CallContext, CallResult, McpContext, McpResult } from '../core/call.js';
import { GATEWAY } from '../core/caller.js';
import { complete, failed, type Outcome } from '../core/gateway.js';
import type { Interceptor, Next } from '../core/pipeline.js';
import type { ActivePlugin } from '../plugins/active-plugin.js';
import type { RequestDecision } from '../plugins/api.js';
import { type AccountOf, CallView, LazyResponse, type Sees } from '../plugins/call-view.js';
import { InvalidAnswer, requestDecision, responseDecision } from '../plugins/hook-answers.js';
import { isErrorOfCall, ProtocolError } from '../protocol/errors.js';
import { isObject, type JsonObject, RawObject } from '../protocol/jsonrpc/raw.js';
import { isListMethod } from '../protocol/mcp/model.js';
import { hearsErrors, passedError, passedFailure, passedReasons, passedTaskError } from './plugin-hooks/on-error.js';
import { isSameThing, NotificationChain, passedEvents, passedStatusMessage } from './plugin-hooks/on-event.js';
import { type OwnerOf, passedItems, passedList } from './plugin-hooks/on-list.js';

export interface PluginStepOptions {
  /** In the order of the configuration. */
  readonly plugins: readonly ActivePlugin[];
  readonly ownerOf: OwnerOf;
  readonly accountOf?: AccountOf | undefined;
  readonly sees?: Sees | undefined;
  /** Checks parameters that a plugin changed. */
  readonly validate: Interceptor;
}

/** Undefined without plugins, so that they cost nothing and results pass unparsed. */
export function pluginStep({
  plugins,
  ownerOf,
  accountOf,
  sees,
  validate,
}: PluginStepOptions): Interceptor | undefined {
  const used = plugins.filter(({ hooks }) => [...hooks].some((hook) => hook !== 'onAudit'));
  if (used.length === 0) return undefined;

  const run = async (context: CallContext, next: Next, chosen: readonly ActivePlugin[]): Promise<CallResult> => {
    const asked = await requested(chosen, new CallView(context, accountOf, sees));
    // Plugins after the one that replied did not see the call.
    const inner = asked.reply ? chosen.slice(0, chosen.indexOf(asked.reply.by)) : chosen;
    const answering = inner.toReversed();
    const { view } = asked;
    if (asked.context.protocol === 'a2a') {
      const answer = asked.reply?.result ?? (await reached(next, asked.context, answering, view));
      return answered(answering, view, asked.context, answer as AgentAnswer);
    }
    if (asked.reply) return responded(answering, view, asked.context, asked.reply.result as McpResult, ownerOf);
    const watched = watching(asked.context, inner, answering, view);
    const forward: Next = asked.changed ? (changed) => validate(changed, next) : next;
    const result = await reached(forward, watched.context, answering, view);
    await watched.chain?.passed();
    const shown = await passedReasons(answering, view, result as McpResult);
    return responded(answering, view, watched.context, shown, ownerOf);
  };

  return (context, next) => {
    // The gateway's own requests, and work that it continues for a caller that is not connected.
    if (context.caller.principal === GATEWAY.principal) return next(context);
    if (context.protocol === 'a2a' && context.call.resumed) return next(context);
    const chosen = used.filter((plugin) => concerns(plugin, context));
    return chosen.length === 0 ? next(context) : run(context, next, chosen);
  };
}

/** The result of a call. A failure that was thrown passes the plugins. */
async function reached(
  next: Next,
  context: CallContext,
  plugins: readonly ActivePlugin[],
  view: CallView,
): Promise<CallResult> {
  try {
    return await next(context);
  } catch (error) {
    throw await passedFailure(plugins, view, error);
  }
}

/** Whether any hook of the plugin concerns the call. */
function concerns(plugin: ActivePlugin, context: CallContext): boolean {
  if (involved(plugin, context)) return true;
  // An answer about several servers may contain the reasons why servers are missing.
  if (context.protocol !== 'mcp' || context.target?.kind !== 'catalog') return false;
  return hearsErrors(plugin) && plugin.scope.coversMethod(context.method);
}

/** Whether any hook except `onError` concerns the call. */
function involved({ hooks, scope, plugin }: ActivePlugin, context: CallContext): boolean {
  const { method, target } = context;
  if (context.protocol === 'mcp' && isListMethod(method)) {
    // Each item of the list decides for itself.
    if (hooks.has('onList') && scope.coversMethod(method)) return true;
    return hooks.has('onRequest') && scope.covers(method, target);
  }
  if (ownsResource(plugin.resourceScheme, context)) return true;
  return (hooks.size > 1 || !hooks.has('onList') || method === 'ListTasks') && scope.covers(method, target);
}

/** Whether the request itself is in the scope of the plugin. A list may be outside of it while some of its items are not. */
const covers = ({ plugin, scope }: ActivePlugin, context: CallContext): boolean =>
  ownsResource(plugin.resourceScheme, context) || scope.covers(context.method, context.target);

function ownsResource(scheme: string | undefined, context: CallContext): boolean {
  if (scheme === undefined || context.protocol !== 'mcp' || context.method !== 'resources/read') return false;
  const uri = context.call.params.get('uri');
  return typeof uri === 'string' && uri.startsWith(`${scheme}:`);
}

interface Requested {
  readonly context: CallContext;
  readonly view: CallView;
  readonly changed: boolean;
  readonly reply?: { readonly by: ActivePlugin; readonly result: CallResult };
}

/** Asks `onRequest` of each plugin. Throws the refusal of a plugin. */
async function requested(plugins: readonly ActivePlugin[], given: CallView): Promise<Requested> {
  let view = given;
  let { context } = given;
  for (const each of plugins) {
    if (!each.hooks.has('onRequest') || !covers(each, given.context)) continue;
    const decided = await each.run(
      'onRequest',
      view,
      (call) => each.plugin.onRequest?.(call),
      (answer) => applied(context, requestDecision(answer)),
    );
    if (!decided) continue;
    if ('deny' in decided) throw denied(context, each, decided.deny, 'not_executed');
    if ('reply' in decided) {
      context.notes.decision ??= { decision: 'allowed', rule: ruleOf(each) };
      return { context, view, changed: view !== given, reply: { by: each, result: decided.reply } };
    }
    context = decided.context;
    view = new CallView(context, given.accountOf, given.visible);
  }
  return { context, view, changed: view !== given };
}

type Applied = { readonly deny: string } | { readonly reply: CallResult } | { readonly context: CallContext };

/** A decision as a result or a changed call. Throws `InvalidAnswer` if the call cannot have it. */
function applied(context: CallContext, decision: RequestDecision | undefined): Applied | undefined {
  if (!decision || 'deny' in decision) return decision;
  if ('reply' in decision) return { reply: replyOf(context, decision.reply) };
  return {
    context: context.protocol === 'mcp' ? changedMcp(context, decision.params) : changedA2a(context, decision.params),
  };
}

/** The member that the result of a method must have, as a list of objects. */
const CONTENT: Readonly<Record<string, string>> = {
  'tools/call': 'content',
  'prompts/get': 'messages',
  'resources/read': 'contents',
};

function checkResult(method: string, result: JsonObject): void {
  const member = CONTENT[method];
  if (member === undefined) return;
  const content = result[member];
  if (!Array.isArray(content) || !content.every(isObject))
    throw new InvalidAnswer(`the result of ${method} must have ${member}, a list of objects`);
}

function replyOf(context: CallContext, reply: JsonObject): CallResult {
  const { method } = context;
  if (context.protocol === 'mcp') {
    if (CONTENT[method] === undefined) throw new InvalidAnswer(`${method} cannot be answered by a plugin`);
    checkResult(method, reply);
    return complete(RawObject.from(reply));
  }
  const { message } = reply;
  // A task of a plugin would be unknown to the gateway.
  if (!isObject(message) || Object.keys(reply).length > 1) throw new InvalidAnswer('the reply must be { message }');
  if (method === 'SendMessage') return { kind: 'result', result: { value: reply } };
  if (method !== 'SendStreamingMessage') throw new InvalidAnswer(`${method} cannot be answered by a plugin`);
  return { kind: 'stream', events: once({ value: { message } as never }) };
}

async function* once<T>(value: T): AsyncGenerator<T> {
  yield value;
}

/** The parameters that a plugin may replace. All others name the target, or belong to the protocol. */
const REPLACEABLE: Readonly<Record<string, readonly string[]>> = {
  'tools/call': ['arguments'],
  'prompts/get': ['arguments'],
  'completion/complete': ['argument', 'context'],
};
/** Members of the parameters of methods that only a server knows which belong to the protocol. */
const RESERVED: readonly string[] = ['_meta', 'requestState', 'inputResponses', 'task', 'taskId', 'cursor'];

function changedMcp(context: McpContext, params: JsonObject): McpContext {
  const { method, target } = context;
  const allowed = (key: string): boolean =>
    target?.kind === 'method' ? !RESERVED.includes(key) : (REPLACEABLE[method] ?? []).includes(key);
  const keys = Object.keys(params);
  if (!keys.every(allowed)) throw new InvalidAnswer('params must have only members that a plugin may replace');
  if ('arguments' in params && !isObject(params['arguments'])) throw new InvalidAnswer('arguments must be an object');
  const edits = Object.fromEntries(keys.map((key) => [key, JSON.stringify(params[key])]));
  return context.withParams(context.call.params.edit(edits));
}

function changedA2a(context: A2aContext, params: JsonObject): A2aContext {
  const before = context.call.request.value;
  const { message } = params;
  const sends = context.method === 'SendMessage' || context.method === 'SendStreamingMessage';
  if (!sends || Object.keys(params).length !== 1 || !isObject(message) || !isSameThing(before['message'], message))
    throw new InvalidAnswer('params must be { message } with the ids of the message');
  if (!Array.isArray(message['parts'])) throw new InvalidAnswer('the message must have parts');
  return context.withRequest({ ...before, message });
}

/** The call whose events and whose result as a task pass the plugins. */
function watching(
  context: McpContext,
  plugins: readonly ActivePlugin[],
  answering: readonly ActivePlugin[],
  view: CallView,
): { readonly context: McpContext; readonly chain?: NotificationChain } {
  const hears = plugins.filter(({ hooks }) => hooks.has('onEvent'));
  const tells = context.call.wantsProgress || context.call.logLevel !== undefined;
  const chain =
    hears.length > 0 && tells
      ? new NotificationChain(hears, view, (notification) => context.call.notify(notification))
      : undefined;
  const finishes =
    context.method === 'tools/call' && answering.some((each) => each.hooks.has('onResponse') || hearsErrors(each));
  if (!chain && !finishes) return { context };
  const watched = context.withSinks({
    ...(chain && { notify: (notification) => chain.push(notification) }),
    ...(finishes && {
      finished: async (outcome: Outcome): Promise<Outcome> => {
        try {
          return (await responded(answering, view, context, outcome, () => undefined)) as Outcome;
        } catch (error) {
          if (isErrorOfCall(error)) return failed(error);
          throw error;
        }
      },
    }),
  });
  return { context: watched, ...(chain && { chain }) };
}

/** An MCP result after `onResponse`, `onError` or `onList` of the plugins. */
async function responded(
  plugins: readonly ActivePlugin[],
  view: CallView,
  context: McpContext,
  result: McpResult,
  ownerOf: OwnerOf,
): Promise<McpResult> {
  if (result.kind === 'error') return failed(await passedError(plugins, view, result.error));
  if (isListMethod(context.method)) {
    const listing = plugins.filter(({ hooks, scope }) => hooks.has('onList') && scope.coversMethod(context.method));
    return listing.length === 0 ? result : passedList(listing, view, context, result, ownerOf);
  }
  const { method, target } = context;
  if (result.kind === 'task') return { kind: 'task', result: await passedStatusMessage(plugins, view, result.result) };
  if (result.kind !== 'complete' || target?.kind === 'catalog') return result;
  const raw = result.result;
  if (target?.kind !== 'task') {
    const changed = await passedResult(plugins, view, ofRaw(raw), (value) => checkResult(method, value));
    return changed ? complete(RawObject.from(changed)) : result;
  }
  // The result of a task that a server hosts. Results of the gateway's own tasks passed when they ended.
  if (target.name === context.call.params.get('taskId')) return result;
  return complete(await passedTask(plugins, view, await passedStatusMessage(plugins, view, raw)));
}

/** A task of a server, after `onResponse` for its result, or `onError` for its error. */
async function passedTask(plugins: readonly ActivePlugin[], view: CallView, task: RawObject): Promise<RawObject> {
  const result = task.object('result');
  if (result) {
    const changed = await passedResult(plugins, view, ofRaw(result), (value) => checkResult('tools/call', value));
    return changed ? task.edit({ result: JSON.stringify(changed) }) : task;
  }
  const error = plugins.some(hearsErrors) ? task.get('error') : undefined;
  if (!isObject(error)) return task;
  const shown = await passedTaskError(plugins, view, error);
  return shown === error ? task : task.edit({ error: JSON.stringify(shown) });
}

const ofRaw = (raw: RawObject): LazyResponse =>
  new LazyResponse(
    () => raw.size,
    () => raw.bytes().toString('utf8'),
  );

/** An A2A answer after the plugins. */
async function answered(
  plugins: readonly ActivePlugin[],
  view: CallView,
  context: A2aContext,
  answer: AgentAnswer,
): Promise<AgentAnswer> {
  if (answer.kind === 'stream') {
    const hears = plugins.filter(({ hooks }) => hooks.has('onEvent')).toReversed();
    if (hears.length === 0 && !plugins.some(hearsErrors)) return answer;
    const failure = (error: unknown): Promise<unknown> => passedFailure(plugins, view, error);
    return { ...answer, events: passedEvents(hears, view, answer.events, failure) };
  }
  const { value, text } = answer.result;
  const listed = context.method === 'ListTasks' ? await passedTasks(plugins, view, value) : undefined;
  const current = listed ?? value;
  const response = LazyResponse.ofValue(current, listed ? undefined : text);
  if (!response) return answer;
  const changed = await passedResult(plugins, view, response, (after) => checkAnswer(current as JsonObject, after));
  const shown = changed ?? listed;
  return shown ? { ...answer, result: { value: shown } } : answer;
}

async function passedTasks(
  plugins: readonly ActivePlugin[],
  view: CallView,
  value: unknown,
): Promise<JsonObject | undefined> {
  const listing = plugins.filter(({ hooks }) => hooks.has('onList'));
  const tasks = isObject(value) ? value['tasks'] : undefined;
  if (listing.length === 0 || !isObject(value) || !Array.isArray(tasks)) return undefined;
  const server = view.context.target?.server;
  const given = tasks.filter(isObject).map((item) => ({ server, name: String(item['id']), item }));
  const shown = await passedItems(listing, view, given, 'id');
  return shown === given ? undefined : { ...value, tasks: shown.map(({ item }) => item) };
}

/** A changed A2A result is still about the same task or message. */
function checkAnswer(before: JsonObject, after: JsonObject): void {
  const same = isSameThing(before, after) && ['task', 'message'].every((key) => isSameThing(before[key], after[key]));
  if (!same) throw new InvalidAnswer('result must have the ids and the state of the given result');
}

/** The changed result; undefined if no plugin changed it. Throws the refusal of a plugin. */
async function passedResult(
  plugins: readonly ActivePlugin[],
  view: CallView,
  given: LazyResponse,
  check: (result: JsonObject) => void,
): Promise<JsonObject | undefined> {
  let response = given;
  let changed: JsonObject | undefined;
  for (const each of plugins) {
    if (!each.hooks.has('onResponse')) continue;
    const decided = await each.run(
      'onResponse',
      view,
      (call) => each.plugin.onResponse?.(call, response),
      (answer) => {
        const read = responseDecision(answer);
        if (read && 'result' in read) check(read.result);
        return read;
      },
      'unknown',
    );
    if (!decided) continue;
    if ('deny' in decided) throw denied(view.context, each, decided.deny, 'unknown');
    changed = decided.result;
    response = LazyResponse.of(changed);
  }
  return changed;
}

const ruleOf = ({ name }: ActivePlugin): string => `plugin ${name}`;

function denied(
  context: CallContext,
  plugin: ActivePlugin,
  message: string,
  outcome: 'not_executed' | 'unknown',
): ProtocolError {
  if (outcome === 'not_executed') context.notes.decision = { decision: 'denied', rule: ruleOf(plugin) };
  return new ProtocolError('plugin_denied', message, { outcome, data: { plugin: plugin.name } });
}
