import type { UpstreamCall } from '../../../core/upstream.js';
import { ProtocolError } from '../../../protocol/errors.js';
import type { Supervisor } from '../../stdio/supervisor.js';
import type { Lease as ChildLease } from '../../stdio/supervisor-types.js';
import type { ModernStdio } from '../modern-stdio.js';
import type { UpstreamContext } from '../upstream-context.js';
import type { LegacySession } from './legacy-session.js';
import { asProtocolError } from './stdio-error-messages.js';

/** The supervisor of one server's processes, with a legacy or a modern session on each. */
export type SessionSupervisor = Supervisor<LegacySession | ModernStdio>;
export type Lease = ChildLease<LegacySession | ModernStdio>;

/** Leases a process for one call. Waits until the time limit or until the call is cancelled. */
export async function leaseFor<S>(
  context: Pick<UpstreamContext, 'name' | 'explains' | 'showsOutput'>,
  supervisor: Supervisor<S>,
  wanted: { readonly key: string; readonly exclusive?: boolean },
  { cancellation, permit }: Pick<UpstreamCall, 'cancellation' | 'permit'>,
  patience: number,
): Promise<ChildLease<S>> {
  const { name } = context;
  const waiting = new AbortController();
  const refused = { outcome: 'not_executed', data: { server: name } } as const;
  const tooLong = `Server "${name}" had no free process within ${patience / 1000} s`;
  const timer = setTimeout(() => waiting.abort(new ProtocolError('upstream_timeout', tooLong, refused)), patience);
  const forget = cancellation.onCancel(() =>
    waiting.abort(new ProtocolError('cancelled', 'The request was cancelled', refused)),
  );
  let lease: ChildLease<S> | undefined;
  try {
    lease = await supervisor.acquire({ ...wanted, signal: waiting.signal });
    permit?.();
    return lease;
  } catch (error) {
    lease?.release();
    throw asProtocolError(context, error);
  } finally {
    clearTimeout(timer);
    forget();
  }
}
