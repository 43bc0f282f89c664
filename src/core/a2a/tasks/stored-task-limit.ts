import { ProtocolError } from '../../../protocol/errors.js';
import type { Log } from '../../../telemetry/log.js';
import { BoundedCache } from '../../bounded-cache.js';
import type { AgentRecords, TaskChange } from './task-records.js';

interface Count {
  /** The number of new tasks since the stored tasks were last counted. */
  added: number;
  /** The time of the last count, by `performance.now()`. */
  at: number;
  /** Whether the caller has more unfinished tasks than the limit. */
  full: boolean;
  counting: boolean;
}

const MOST_OWNERS = 10_000;
/**
 * A replica counts the stored tasks of a caller each time it has added this share of the limit. Most callers stay below
 * it and cost nothing.
 */
const SHARE = 0.1;
/** Milliseconds after which a caller with too many unfinished tasks is counted again. */
const AGAIN = 2_000;

/**
 * Limits the stored tasks of a caller. Beyond the limit, the oldest finished tasks are removed; if too many are
 * unfinished, further messages are refused. Each replica may exceed the limit by the share that it adds between two
 * counts.
 */
export class StoredTaskLimit {
  private readonly counts = new BoundedCache<string, Count>(MOST_OWNERS);

  constructor(
    private readonly records: AgentRecords,
    private readonly most: number,
    private readonly log: Log,
  ) {}

  /** The same records, but new tasks are counted. */
  counted(): AgentRecords {
    const { records } = this;
    const save = async (change: TaskChange): Promise<boolean> => {
      const saved = await records.save(change);
      if (saved && change.after === 0) this.added(change.record.owner);
      return saved;
    };
    return { ...records, save };
  }

  /** Refuses a message that may create a task if its caller has too many unfinished tasks. */
  check(owner: string): void {
    const count = this.counts.get(owner);
    if (!count?.full) return;
    if (performance.now() - count.at > AGAIN) void this.trim(owner, count);
    throw new ProtocolError('rate_limited', `Too many tasks of this caller are unfinished (at most ${this.most})`, {
      outcome: 'not_executed',
      headers: { 'Retry-After': '2' },
    });
  }

  private added(owner: string): void {
    const count = this.counts.get(owner) ?? { added: 0, at: 0, full: false, counting: false };
    count.added++;
    this.counts.set(owner, count);
    if (count.added >= Math.max(1, this.most * SHARE)) void this.trim(owner, count);
  }

  /** Never rejects: after a failure the next new task tries again. */
  private async trim(owner: string, count: Count): Promise<void> {
    if (count.counting) return;
    count.counting = true;
    const { added } = count;
    try {
      count.full = (await this.records.trim(owner, this.most)) > this.most;
      count.added -= added;
      count.at = performance.now();
    } catch (error) {
      this.log.warn({ err: error }, 'cannot count the stored tasks of a caller; trying again');
    } finally {
      count.counting = false;
    }
  }
}
