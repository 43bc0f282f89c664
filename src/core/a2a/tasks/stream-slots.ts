import { ProtocolError } from '../../../protocol/errors.js';
import type { Caller } from '../../caller.js';

/** Counts open streams, so that no caller uses up the streams of the others. */
export class StreamSlots {
  private all = 0;
  private readonly perCaller = new Map<string, number>();

  constructor(
    private readonly most: number,
    private readonly mostPerCaller: number,
  ) {}

  get size(): number {
    return this.all;
  }

  /** Returns the function that releases the stream; a second call has no effect. */
  take(caller: Caller): () => void {
    const { key } = caller.principal;
    const open = this.perCaller.get(key) ?? 0;
    if (open >= this.mostPerCaller)
      refuse(
        'rate_limited',
        `Too many streams of this caller are open (at most ${this.mostPerCaller}); close some first`,
      );
    if (this.all >= this.most) refuse('overloaded', 'Too many streams are open; try again later');
    this.all += 1;
    this.perCaller.set(key, open + 1);
    let given = false;
    return () => {
      if (given) return;
      given = true;
      this.all -= 1;
      const left = (this.perCaller.get(key) ?? 1) - 1;
      if (left > 0) this.perCaller.set(key, left);
      else this.perCaller.delete(key);
    };
  }
}

function refuse(reason: 'rate_limited' | 'overloaded', message: string): never {
  throw new ProtocolError(reason, message, { outcome: 'not_executed', headers: { 'Retry-After': '1' } });
}
