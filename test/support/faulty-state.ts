/**
 * Wrappers that fail at random, in a sequence that a seed determines: before the work, after the work (the answer is
 * lost), or with a late answer.
 */
import { sleep } from '../../src/core/timing.js';
import { type Bus, type Db, type Row, StateError, type Statement, type Value } from '../../src/state/index.js';

export interface FaultRates {
  seed: number;
  /** Probability of a failure before the work. */
  before?: number;
  /** Probability of a failure after the work, with an unknown outcome for the caller. */
  after?: number;
  /** Probability of an answer that is late by up to `delayMs`. */
  slow?: number;
  delayMs?: number;
}

/** A random generator with a seed, so that a failing run can be repeated. */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

function faults({ seed, before = 0.1, after = 0.1, slow = 0.1, delayMs = 20 }: FaultRates) {
  const random = seeded(seed);
  return async <T>(work: () => Promise<T>): Promise<T> => {
    const [kind, much] = [random(), random()];
    if (kind < before) throw new StateError('unavailable', 'injected: nothing was done');
    if (kind > 1 - slow) await sleep(much * delayMs);
    const result = await work();
    if (kind < before + after) throw new StateError('unavailable', 'injected: no answer', { outcome: 'unknown' });
    return result;
  };
}

export class FaultyDb implements Db {
  readonly dialect: Db['dialect'];
  readonly #inner: Db;
  readonly #maybe: ReturnType<typeof faults>;

  constructor(inner: Db, rates: FaultRates) {
    this.#inner = inner;
    this.dialect = inner.dialect;
    this.#maybe = faults(rates);
  }

  q<R extends Row = Row>(sql: string, params?: readonly Value[]): Promise<R[]> {
    return this.#maybe(() => this.#inner.q<R>(sql, params));
  }

  tx(statements: readonly Statement[]): Promise<Row[][]> {
    return this.#maybe(() => this.#inner.tx(statements));
  }

  close(): Promise<void> {
    return this.#inner.close();
  }
}

/** A Bus over another one. `during` runs each operation that needs the database or Redis. */
abstract class WrappedBus implements Bus {
  constructor(protected readonly inner: Bus) {}

  protected abstract during<T>(work: () => Promise<T>): Promise<T>;

  append(...args: Parameters<Bus['append']>): Promise<string> {
    return this.during(() => this.inner.append(...args));
  }
  read(...args: Parameters<Bus['read']>): ReturnType<Bus['read']> {
    return this.during(() => this.inner.read(...args));
  }
  tail(stream: string): Promise<string> {
    return this.during(() => this.inner.tail(stream));
  }
  drop(stream: string): Promise<void> {
    return this.during(() => this.inner.drop(stream));
  }
  wake(stream: string, fn: () => void): () => void {
    return this.inner.wake(stream, fn);
  }
  hint(topic: string): void {
    this.inner.hint(topic);
  }
  onHint(topic: string, fn: () => void): () => void {
    return this.inner.onHint(topic, fn);
  }
  lease(...args: Parameters<Bus['lease']>): ReturnType<Bus['lease']> {
    return this.during(() => this.inner.lease(...args));
  }
  renew(...args: Parameters<Bus['renew']>): Promise<boolean> {
    return this.during(() => this.inner.renew(...args));
  }
  release(...args: Parameters<Bus['release']>): Promise<boolean> {
    return this.during(() => this.inner.release(...args));
  }
  holder(key: string): ReturnType<Bus['holder']> {
    return this.during(() => this.inner.holder(key));
  }
  members(...args: Parameters<Bus['members']>): ReturnType<Bus['members']> {
    return this.during(() => this.inner.members(...args));
  }
  incr(...args: Parameters<Bus['incr']>): Promise<number> {
    return this.during(() => this.inner.incr(...args));
  }
  ping(): Promise<void> {
    return this.during(() => this.inner.ping());
  }
  close(): Promise<void> {
    return this.inner.close();
  }
}

export class FaultyBus extends WrappedBus {
  protected readonly during: ReturnType<typeof faults>;

  constructor(inner: Bus, rates: FaultRates) {
    super(inner);
    this.during = faults(rates);
  }
}

/** A Bus that can be disconnected: operations are refused at once, or wait until the Bus is connected again. */
export class CutBus extends WrappedBus {
  cut: boolean | 'silent' = false;
  /** Number of refused operations. */
  refused = 0;

  protected async during<T>(work: () => Promise<T>): Promise<T> {
    if (!this.cut) return work();
    this.refused++;
    while (this.cut === 'silent') await sleep(10);
    throw new StateError('unavailable', 'injected: cut off', { outcome: 'not_executed' });
  }
}
