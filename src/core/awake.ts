/**
 * To sleep and to be woken costs a process as much as half a small call, and more on a virtual machine. Where one thing to
 * do has followed the other at once, the event loop therefore looks for the next during a moment before it sleeps.
 * Moments spent in vain are rationed, so that whoever comes at leisure is slept through.
 */

/** Milliseconds. What a server on this machine takes to answer a small call, with room for a busy one. */
const MOMENT = 0.4;
/** The part of the time that may be spent in vain. */
const SHARE = 0.05;
/** So much of it may be saved up. */
const MOST_SAVED = 10;

/** Whether it is worth looking again: what was is taken for what comes. */
export class Wakefulness {
  private last = Number.NEGATIVE_INFINITY;
  private until = 0;
  private saved = MOST_SAVED;

  /** Something was done at `now`. Whether the next is likely to come within a moment. */
  did(now: number): boolean {
    const pause = now - this.last;
    this.last = now;
    this.saved = Math.min(MOST_SAVED, this.saved + pause * SHARE);
    if (pause > MOMENT || this.saved < MOMENT) return false;
    this.until = now + MOMENT;
    return true;
  }

  /** Whether the moment lasts; where it does not, it was in vain. */
  lasts(now: number): boolean {
    if (now < this.until) return true;
    this.saved -= MOMENT;
    return false;
  }
}

const wakefulness = new Wakefulness();
let awake = false;
let looking = false;

/** There is one event loop in a process, and so one answer to this. It sleeps unless told to stay awake. */
export function stayAwake(wanted: boolean): void {
  awake = wanted;
}

/** The turn had something to do. */
export function afterTurn(): void {
  if (!awake || !wakefulness.did(performance.now()) || looking) return;
  looking = true;
  setImmediate(look);
}

/** With something left for the next turn, the loop asks what has come in and does not wait for it. */
function look(): void {
  looking = wakefulness.lasts(performance.now());
  if (looking) setImmediate(look);
}
