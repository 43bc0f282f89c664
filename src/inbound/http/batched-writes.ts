/** Something to be written. */
export interface Pending {
  flush(): void;
}

let waiting: Pending[] = [];
let asked = 0;
let askedBefore = 0;

/**
 * Small responses wait for the end of the event loop's turn, where a turn has more than one of them. A write wakes its
 * reader, which is the dear part of a small write; written one by one, with other work in between, each write finds its
 * reader asleep again. A single response is not held up.
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
      // The others still have to write.
      process.nextTick(() => {
        throw error;
      });
    }
  }
}
