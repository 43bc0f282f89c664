import { type CallOutcome, ProtocolError } from '../../protocol/errors.js';
import { Quota, type Release } from '../count-and-byte-limit.js';
import { EndedTasks } from './ended-task-count.js';
import type { RequestBytes } from './request-byte-limits.js';

/** The most stored ended tasks of a caller, per task that the caller may run at the same time. */
const ENDED_PER_RUNNING = 10;

export interface TaskSlotLimits {
  readonly perCaller: number;
  readonly inAll: number;
  /** The most bytes of the requests of running tasks. */
  readonly requests: RequestBytes;
}

/** Limits the running tasks of this replica, the bytes of their requests, and the ended tasks that are still stored. */
export class TaskSlots {
  private readonly all: Quota;
  private readonly callers = new Map<string, Quota>();
  private readonly ended: EndedTasks;

  constructor(private readonly limits: TaskSlotLimits) {
    this.all = new Quota({ count: limits.inAll, bytes: limits.requests.inAll });
    this.ended = new EndedTasks(limits.perCaller * ENDED_PER_RUNNING);
  }

  /**
   * Takes a slot for a further task of this caller, and counts the bytes of its request. `outcome` tells, for the
   * error, whether the call of the task has run.
   */
  take(principal: string, bytes: number, outcome: CallOutcome): Release {
    const { perCaller, requests } = this.limits;
    if (perCaller > 0 && this.ended.full(principal)) {
      const message = 'Too many of your ended tasks are still stored; try again later, or ask for a shorter ttl';
      throw new ProtocolError('overloaded', message, { outcome });
    }
    const own = this.callers.get(principal) ?? new Quota({ count: perCaller, bytes: requests.perCaller }, this.all);
    const release = own.take(bytes);
    if (!release) {
      const message = `${this.reason(own, bytes)}; wait for some to end, or cancel them`;
      throw new ProtocolError('overloaded', message, { outcome });
    }
    this.callers.set(principal, own);
    return () => {
      release();
      if (own.used === 0 && this.callers.get(principal) === own) this.callers.delete(principal);
    };
  }

  private reason(own: Quota, bytes: number): string {
    if (own.used >= this.limits.perCaller) return 'Too many of your tasks are running';
    if (!own.fits(bytes)) return 'The requests of your running tasks hold too much data';
    return this.all.used >= this.limits.inAll
      ? 'Too many tasks are running'
      : 'The requests of running tasks hold too much data';
  }

  /** Counts an ended task whose record is stored until the given time, by `performance.now()`. */
  keep(principal: string, until: number): void {
    this.ended.add(principal, until);
  }
}
