/**
 * Processes long lists in slices, so that other calls run between two slices. A short list is finished within the first
 * slice, without a promise.
 */

/** The length of one slice, in milliseconds. */
const SLICE = 2;

/** The value of every item, in order. */
export function mapInSlices<T, R>(items: Iterable<T>, value: (item: T) => R): R[] | Promise<R[]> {
  const values: R[] = [];
  const over = inSlices(items, (item) => {
    values.push(value(item));
    return false;
  });
  return over instanceof Promise ? over.then(() => values) : values;
}

/** Whether any item passes the test. Later items are not tested. */
export const someInSlices = <T>(items: Iterable<T>, test: (item: T) => boolean): boolean | Promise<boolean> =>
  inSlices(items, test);

function inSlices<T>(items: Iterable<T>, until: (item: T) => boolean): boolean | Promise<boolean> {
  const left = items[Symbol.iterator]();
  const found = slice(left, until);
  return found ?? later(left, until);
}

/** Tests items until one passes. Returns undefined if the slice ends before all items are tested. */
function slice<T>(left: Iterator<T>, until: (item: T) => boolean): boolean | undefined {
  const end = performance.now() + SLICE;
  for (let next = left.next(); !next.done; next = left.next()) {
    if (until(next.value)) return true;
    if (performance.now() > end) return undefined;
  }
  return false;
}

async function later<T>(left: Iterator<T>, until: (item: T) => boolean): Promise<boolean> {
  for (;;) {
    await turn();
    const found = slice(left, until);
    if (found !== undefined) return found;
  }
}

// All lists together get one slice per event-loop turn. The other lists wait here.
const waiting: (() => void)[] = [];

function turn(): Promise<void> {
  return new Promise((resolve) => {
    waiting.push(resolve);
    if (waiting.length === 1) setImmediate(next);
  });
}

function next(): void {
  waiting.shift()!();
  if (waiting.length > 0) setImmediate(next);
}
