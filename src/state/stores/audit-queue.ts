/** Settles the promise of a caller that waits for its record. */
export interface Waiter {
  settle(error?: Error): void;
  /** Whether the first failed attempt settles the promise. The record itself stays in the queue. */
  readonly impatient: boolean;
}

/** Records that follow each other and fit into one block. */
export interface Group {
  /** One line per record: the milliseconds since the first record, and the record. JSON has no line breaks. */
  readonly text: string;
  readonly records: number;
  /** The times of the first and the last record. */
  readonly first: number;
  readonly last: number;
  /** The time of the newest record that is not a checkpoint; 0 without one. */
  readonly recordedAt: number;
  /** The callers that wait. */
  readonly waiters: Waiter[];
}

type OpenGroup = { -readonly [key in keyof Group]: Group[key] };

/** Limit on the time between the first and the last record of a group: readers sort the records of that much time. */
export const GROUP_MS = 250;
const GROUP_RECORDS = 1_024;
const GROUP_BYTES = 262_144;
/** Bytes of a line besides its record. */
const BESIDES = 16;
/** Most bytes of a UTF-16 unit in UTF-8. */
const UNIT_BYTES = 3;

/**
 * Records that wait for the database, in the order of their numbers. The newest ones are bytes outside of the heap:
 * many objects that live for a tenth of a second make garbage collections slow.
 */
export class AuditQueue {
  readonly #groups: Group[] = [];
  /** The last group while it takes records. Its text is in the buffer. */
  #open: OpenGroup | undefined;
  #buffer: Buffer | undefined;
  #used = 0;
  /** The UTF-16 units of the text in the buffer: if there are as many bytes, all are ASCII. */
  #units = 0;
  #size = 0;

  /** The number of records. */
  get size(): number {
    return this.#size;
  }

  add(at: number, json: string, checkpoint: boolean, waiter?: Waiter): void {
    const most = json.length * UNIT_BYTES + BESIDES;
    const group = this.#groupFor(at, most);
    const line = `${group.records > 0 ? '\n' : ''}${at - group.first} ${json}`;
    this.#units += line.length;
    if (most > GROUP_BYTES) {
      group.text = line;
    } else {
      this.#buffer ??= Buffer.allocUnsafeSlow(GROUP_BYTES);
      this.#used += this.#buffer.write(line, this.#used);
    }
    group.records += 1;
    group.last = at;
    if (!checkpoint && at > group.recordedAt) group.recordedAt = at;
    if (waiter) group.waiters.push(waiter);
    this.#size += 1;
  }

  /** The oldest groups with at most `most` records together, but at least one. They take no further records. */
  oldest(most: number): readonly Group[] {
    this.#seal();
    const found: Group[] = [];
    let sum = 0;
    for (const group of this.#groups) {
      sum += group.records;
      if (found.length > 0 && sum > most) break;
      found.push(group);
    }
    return found;
  }

  /** Removes these groups, which are the oldest. */
  remove(groups: readonly Group[]): void {
    for (const { records } of this.#groups.splice(0, groups.length)) this.#size -= records;
  }

  /** Removes all groups, and returns them. */
  clear(): readonly Group[] {
    this.#seal();
    this.#size = 0;
    return this.#groups.splice(0);
  }

  /** Whether a caller waits for one of the records. */
  get awaited(): boolean {
    return this.#groups.some(({ waiters }) => waiters.length > 0) || (this.#open?.waiters.length ?? 0) > 0;
  }

  /** Fails the promises of impatient callers. */
  failImpatient(error: Error): void {
    for (const { waiters } of this.#open ? [...this.#groups, this.#open] : this.#groups) {
      const patient = waiters.filter(({ impatient }) => !impatient);
      for (const { settle, impatient } of waiters.splice(0, waiters.length, ...patient)) if (impatient) settle(error);
    }
  }

  #groupFor(at: number, bytes: number): OpenGroup {
    const open = this.#open;
    if (
      open &&
      open.records < GROUP_RECORDS &&
      at >= open.last &&
      at - open.first <= GROUP_MS &&
      this.#used + bytes <= GROUP_BYTES &&
      open.text === ''
    )
      return open;
    this.#seal();
    this.#open = { text: '', records: 0, first: at, last: at, recordedAt: 0, waiters: [] };
    return this.#open;
  }

  #seal(): void {
    const open = this.#open;
    if (!open) return;
    if (open.text === '') {
      const ascii = this.#units === this.#used;
      open.text = this.#buffer!.toString(ascii ? 'latin1' : 'utf8', 0, this.#used);
    }
    this.#groups.push(open);
    this.#open = undefined;
    this.#used = 0;
    this.#units = 0;
  }
}
