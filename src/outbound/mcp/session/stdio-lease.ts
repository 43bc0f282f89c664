import type { UpstreamCall } from '../../../core/upstream.js';
import { ProtocolError } from '../../../protocol/errors.js';
import type { Lease as ChildLease } from '../../stdio/lease.js';
import type { Supervisor } from '../../stdio/supervisor.js';
import type { UpstreamContext } from '../context.js';
import type { ModernStdio } from '../modern-stdio.js';
import type { LegacySession } from './session.js';
import { asProtocolError } from './stdio-problem.js';

/** The processes of one server, each with what is spoken on its pipes. */
export type SessionSupervisor = Supervisor<LegacySession | ModernStdio>;
export type Lease = ChildLease<LegacySession | ModernStdio>;

/** A lease for one call: waited for only so long, and only while somebody wants the answer. */
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
  const tooLong = `Server "${name}" had no process to spare within ${patience / 1000} s`;
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
