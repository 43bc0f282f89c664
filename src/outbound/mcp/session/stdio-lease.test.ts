import { afterEach, expect, test } from 'vitest';
import { Cancellation } from '../../../core/caller.js';
import { Supervisor } from '../../stdio/supervisor.js';
import { leaseFor } from './stdio-lease.js';

let supervisor: Supervisor<string> | undefined;
afterEach(() => supervisor?.close());

const CONTEXT = { name: 'local', explains: false };

/** A supervisor with one process, for one call at a time. */
function single(): Supervisor<string> {
  supervisor = new Supervisor<string>({
    name: 'local',
    command: { command: process.execPath, args: ['-e', 'process.stdin.resume()'] },
    child: { maxLine: 1_000 },
    max: 1,
    idleMs: 0,
    open: async (start) => {
      start({ message: () => {}, exit: () => {} });
      return 'open';
    },
  });
  return supervisor;
}

test('a call that gets no process within the time limit is not executed', async () => {
  const processes = single();
  const wanted = { key: 'k', exclusive: true };
  const first = await leaseFor(CONTEXT, processes, wanted, { cancellation: new Cancellation() }, 10_000);
  await expect(leaseFor(CONTEXT, processes, wanted, { cancellation: new Cancellation() }, 50)).rejects.toMatchObject({
    reason: 'upstream_timeout',
    detail: { outcome: 'not_executed' },
  });
  expect(processes.health().waiting).toBe(0);
  first.release();
  (await leaseFor(CONTEXT, processes, wanted, { cancellation: new Cancellation() }, 10_000)).release();
});

test('a cancelled call stops waiting', async () => {
  const processes = single();
  const wanted = { key: 'k', exclusive: true };
  const first = await leaseFor(CONTEXT, processes, wanted, { cancellation: new Cancellation() }, 10_000);
  const cancellation = new Cancellation();
  const waiting = leaseFor(CONTEXT, processes, wanted, { cancellation }, 10_000);
  cancellation.cancel();
  await expect(waiting).rejects.toMatchObject({ reason: 'cancelled', detail: { outcome: 'not_executed' } });
  expect(processes.health().waiting).toBe(0);
  first.release();
});
