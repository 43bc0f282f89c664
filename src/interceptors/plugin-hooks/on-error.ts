/** Passes the errors of calls through `onError` of plugins. */
import { serverTarget } from '../../core/admission.js';
import type { CallContext, McpResult } from '../../core/call.js';
import { MISSING } from '../../core/catalog/pages.js';
import { complete, type Missing } from '../../core/gateway.js';
import type { ActivePlugin } from '../../plugins/active-plugin.js';
import type { JsonValue, PluginError } from '../../plugins/api.js';
import type { CallView } from '../../plugins/call-view.js';
import { errorDecision } from '../../plugins/hook-answers.js';
import { isErrorOfCall, ProtocolError, UpstreamRpcError } from '../../protocol/errors.js';
import { isObject, type JsonObject } from '../../protocol/jsonrpc/raw.js';
import { refusalIn } from '../../protocol/mcp/recognised-upstream-errors.js';

type ErrorOfCall = ProtocolError | UpstreamRpcError;

/** Whether the plugin gets the errors of the call. `server` is given if the error comes from one of several servers. */
function hears(plugin: ActivePlugin, { method, target }: CallContext, server?: string): boolean {
  if (!hearsErrors(plugin)) return false;
  const { scope } = plugin;
  if (server === undefined && scope.covers(method, target)) return true;
  // If the call reads the list of one server only, its error is an error of that server.
  const only = server ?? (target?.kind === 'catalog' ? target.server : undefined);
  return only !== undefined && scope.covers(method, serverTarget(only));
}

export const hearsErrors = ({ hooks }: ActivePlugin): boolean => hooks.has('onError');

/** The error after all plugins; the same error if none changed it. Throws `plugin_failed`. */
export async function passedError(
  plugins: readonly ActivePlugin[],
  view: CallView,
  error: ErrorOfCall,
  server?: string,
): Promise<ErrorOfCall> {
  if (isForUser(error)) return error;
  let current = error;
  for (const each of plugins) {
    if (!hears(each, view.context, server)) continue;
    const given = current;
    const decided = await each.run(
      'onError',
      view,
      (call) => each.plugin.onError?.(call, shownError(given)),
      (answer) => errorDecision(answer, shownError(given)),
      // A closed plugin that fails withholds the error. The outcome of the call stays that of the error.
      error instanceof ProtocolError ? (error.detail.outcome ?? 'unknown') : 'unknown',
    );
    if (decided) current = changed(current, decided.error);
  }
  return current;
}

/** Like `passedError`, for anything that was thrown. A fault of the gateway itself passes unchanged. */
export const passedFailure = async (
  plugins: readonly ActivePlugin[],
  view: CallView,
  error: unknown,
): Promise<unknown> => (isErrorOfCall(error) ? passedError(plugins, view, error) : error);

/** The `error` of a failed task that a server hosts. */
export async function passedTaskError(
  plugins: readonly ActivePlugin[],
  view: CallView,
  given: JsonObject,
): Promise<JsonObject> {
  const { code, message, data } = given;
  const error = new UpstreamRpcError(
    typeof code === 'number' ? code : 0,
    typeof message === 'string' ? message : '',
    data,
  );
  const shown = (await passedError(plugins, view, error)) as UpstreamRpcError;
  if (shown === error) return given;
  const { data: _, ...rest } = given;
  return { ...rest, message: shown.message, ...(shown.data !== undefined && { data: shown.data as JsonValue }) };
}

/** The result of a call to several servers. The reasons why servers are missing passed as errors of those servers. */
export async function passedReasons(
  plugins: readonly ActivePlugin[],
  view: CallView,
  result: McpResult,
): Promise<McpResult> {
  if (view.context.target?.kind !== 'catalog' || !plugins.some(hearsErrors)) return result;
  const passed = (missing: readonly Missing[]): Promise<Missing[]> =>
    Promise.all(
      missing.map(async ({ server, reason }) => {
        const error = new ProtocolError('upstream_unavailable', reason, { outcome: 'not_executed' });
        // The result still has the items of the other servers, so a plugin that fails withholds the reason only.
        const shown = await passedError(plugins, view, error, server).catch((failure: unknown) => {
          if (failure instanceof ProtocolError) return failure;
          throw failure;
        });
        return { server, reason: shown.message };
      }),
    );
  if (result.kind === 'value') {
    const { value } = result;
    if (!isObject(value) || !Array.isArray(value['missing']) || value['missing'].length === 0) return result;
    return { kind: 'value', value: { ...value, missing: await passed(value['missing'] as unknown as Missing[]) } };
  }
  const meta = result.kind === 'complete' ? result.result.get('_meta') : undefined;
  const missing = isObject(meta) ? meta[MISSING] : undefined;
  if (result.kind !== 'complete' || !isObject(meta) || !Array.isArray(missing)) return result;
  const shown = { ...meta, [MISSING]: await passed(missing as unknown as Missing[]) };
  return complete(result.result.edit({ _meta: JSON.stringify(shown) }));
}

/** These errors contain addresses that the user has to open. They count as questions to the user and pass unchanged. */
const isForUser = (error: ErrorOfCall): boolean =>
  error instanceof ProtocolError
    ? error.reason === 'login_required'
    : refusalIn(error)?.reason === 'url_elicitation_required';

/** A copy of the error, so that a plugin cannot change the error by writing to it. */
function shownError(error: ErrorOfCall): PluginError {
  const known = error instanceof ProtocolError ? { reason: error.reason } : { code: error.code };
  const data = error instanceof ProtocolError ? error.detail.foreign : error.data;
  return {
    ...known,
    message: error.message,
    ...(data !== undefined && { data: JSON.parse(JSON.stringify(data)) as JsonValue }),
  };
}

function changed(error: ErrorOfCall, { message, data }: PluginError): ErrorOfCall {
  if (error instanceof UpstreamRpcError) return new UpstreamRpcError(error.code, message, data, error.status);
  const { foreign: _, ...detail } = error.detail;
  return new ProtocolError(error.reason, message, { ...detail, ...(data !== undefined && { foreign: data }) });
}
