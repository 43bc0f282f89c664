import { writeFileSync } from 'node:fs';
import type { Log } from '../telemetry/log.js';

const FILTER = '/proc/self/coredump_filter';

/**
 * Keeps the memory of the process, which holds tokens and keys, out of core dumps (S29). Works on Linux only; child
 * processes inherit the setting. On other systems, limit core dumps in the settings of the service, such as with
 * `ulimit -c 0`.
 */
export function keepMemoryOutOfDumps(log: Log): void {
  if (process.platform !== 'linux') return;
  try {
    writeFileSync(FILTER, '0');
  } catch (error) {
    log.debug({ why: (error as Error).message }, 'cannot keep the memory of the process out of core dumps');
  }
}
