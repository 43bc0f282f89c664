import type { Cancellation } from '../../core/caller.js';
import { ProtocolError } from '../../protocol/errors.js';

/** Waits for shared work. Rejects as soon as the call is cancelled; the work continues for other calls. */
export function rejectOnCancel<T>(work: Promise<T>, cancellation: Cancellation): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = cancellation.onCancel(() =>
      reject(new ProtocolError('cancelled', 'The request was cancelled', { outcome: 'not_executed' })),
    );
    work.then(resolve, reject).finally(stop);
  });
}
