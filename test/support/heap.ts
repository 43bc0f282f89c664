import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
export const collect = runInNewContext('gc') as () => void;

/** Bytes in use after garbage collection, including buffers. */
export function bytesHeld(): number {
  // The memory of dead buffers is freed by the next collection only.
  collect();
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
