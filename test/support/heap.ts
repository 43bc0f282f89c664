import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
export const collect = runInNewContext('gc') as () => void;

/** Bytes that are still held by something, buffers and the objects for them included. */
export function bytesHeld(): number {
  // The memory of buffers is let go of by the collection after the one that finds them dead.
  collect();
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
