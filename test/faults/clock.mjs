/**
 * Loaded into a gateway with `--import`, before other modules, in its main thread and in its workers. The file named by
 * FAULT_CLOCK contains the offset of its time of day, as if the clock of the machine were changed: `Date` jumps, the
 * monotonic clocks do not. SIGUSR2 blocks the event loop for FAULT_BLOCK_MS, as a bad plugin would.
 */
import { readFileSync, watchFile } from 'node:fs';
import { isMainThread } from 'node:worker_threads';

const file = process.env.FAULT_CLOCK;
const RealDate = globalThis.Date;
let offset = 0;

function read() {
  try {
    offset = Number(readFileSync(file, 'utf8')) || 0;
  } catch {
    offset = 0;
  }
}

class JumpingDate extends RealDate {
  constructor(...args) {
    if (args.length === 0) super(RealDate.now() + offset);
    else super(...args);
  }

  static now() {
    return RealDate.now() + offset;
  }
}

if (file) {
  read();
  watchFile(file, { interval: 50, persistent: false }, read);
  globalThis.Date = JumpingDate;
}

if (isMainThread && process.env.FAULT_BLOCK_MS) {
  process.on('SIGUSR2', () => {
    const end = performance.now() + Number(process.env.FAULT_BLOCK_MS);
    while (performance.now() < end);
  });
}
