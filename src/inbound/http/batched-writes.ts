/** A pending write. */
export interface Pending {
  flush(): void;
}

let waiting: Pending[] = [];
let asked = 0;
let askedBefore = 0;

/**
 * Delays small responses to the end of the event loop's turn if there are several in this turn. A write wakes its
 * reader, which is the expensive part of a small write. If other work happens between the writes, the reader sleeps
 * again before each write. A single response is not delayed.
 */
export function atEndOfTurn(write: Pending): void {
  if (asked++ === 0) {
    setImmediate(end);
    if (askedBefore <= 1) {
      write.flush();
      return;
    }
  }
  waiting.push(write);
}

function end(): void {
  askedBefore = asked;
  asked = 0;
  const writes = waiting;
  waiting = [];
  for (const write of writes) {
    try {
      write.flush();
    } catch (error) {
      // A failed write must not prevent the other writes.
      process.nextTick(() => {
        throw error;
      });
    }
  }
}
