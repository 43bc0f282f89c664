/** The form in which replicas send each other calls to a shared process. */
import type { Caller } from '../../core/caller.js';
import type { Asked } from '../../core/cluster.js';
import { NotificationLimiter } from '../../core/notification-limiter.js';
import type { UpstreamCall } from '../../core/upstream.js';
import { ProtocolError } from '../../protocol/errors.js';
import { type JsonObject, type JsonValue, RawObject } from '../../protocol/jsonrpc/raw.js';
import { revisionOf } from '../../protocol/mcp/revisions/index.js';

export type Sinks = Pick<UpstreamCall, 'notify' | 'cancellation'>;

/** Limits the notifications of a process, because they share the replica's inbox with all other answers. */
export const limiterTo = (asked: Asked): NotificationLimiter =>
  new NotificationLimiter(asked.cancellation, (notification) => asked.emit(notification as unknown as JsonValue));

export const sinksOf = (limiter: NotificationLimiter): Sinks => ({
  cancellation: limiter.cancellation,
  notify: (notification) => limiter.notify(notification),
});

/** Omits the fields that a process does not receive, such as mirrored headers. */
export function writeCall({ ask: _, revision, ...caller }: Caller, call: UpstreamCall): JsonValue {
  const written = {
    caller: { ...caller, revision: revision.date },
    call: {
      method: call.method,
      params: call.params.bytes().toString('utf8'),
      wantsProgress: call.wantsProgress,
      logLevel: call.logLevel ?? null,
      tasks: call.tasks,
      ...(call.timeouts && { timeouts: call.timeouts }),
      ...(call.after && { after: call.after }),
      ...(call.trace && { trace: call.trace }),
    },
  };
  return written as unknown as JsonValue;
}

export function readCall(
  written: JsonObject,
  limiter: NotificationLimiter,
): { readonly caller: Caller; readonly call: UpstreamCall } {
  const { revision: date, ...who } = written['caller'] as unknown as Omit<Caller, 'revision'> & { revision: string };
  const { params, logLevel, ...what } = written['call'] as unknown as Omit<UpstreamCall, 'params' | 'logLevel'> & {
    params: string;
    logLevel: UpstreamCall['logLevel'] | null;
  };
  const revision = revisionOf(date);
  if (!revision)
    throw new ProtocolError('internal', 'The other replica uses an MCP revision that this replica does not know');
  return {
    caller: { ...who, revision },
    call: {
      ...what,
      params: RawObject.at(Buffer.from(params)),
      logLevel: logLevel ?? undefined,
      mirrored: [],
      ...sinksOf(limiter),
    },
  };
}
