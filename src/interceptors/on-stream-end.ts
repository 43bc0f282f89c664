/** Called with the outcome or the error of a call, and with the number of events of a stream. */
export type Ended = (ended: unknown, events?: number) => void;

/**
 * Calls `ended` once, when the stream ends, fails or is left by its reader. This is not a generator, because a
 * generator delays the end of a reader that leaves until the next event arrives.
 */
export function onStreamEnd<T>(events: AsyncIterable<T>, ended: Ended): AsyncIterable<T> {
  return {
    [Symbol.asyncIterator]: () => {
      const iterator = events[Symbol.asyncIterator]();
      let count = 0;
      let over = false;
      const end = (outcome: unknown): void => {
        if (!over) ended(outcome, count);
        over = true;
      };
      return {
        next: async () => {
          try {
            const step = await iterator.next();
            if (step.done) end('ok');
            else count++;
            return step;
          } catch (error) {
            end(error);
            throw error;
          }
        },
        return: async (value?: unknown) => {
          end('left');
          return (await iterator.return?.(value)) ?? { done: true, value: undefined };
        },
      };
    },
  };
}
