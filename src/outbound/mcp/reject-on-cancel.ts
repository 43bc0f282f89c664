import type { Cancellation } from '../../core/caller.js';
import { ProtocolError } from '../../protocol/errors.js';

/** The outcome of work that others may wait for too; rejects as soon as the call is cancelled, and the work goes on. */
export function rejectOnCancel<T>(work: Promise<T>, cancellation: Cancellation): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = cancellation.onCancel(() =>
      reject(new ProtocolError('cancelled', 'The request was cancelled', { outcome: 'not_executed' })),
    );
    work.then(resolve, reject).finally(stop);
  });
}
