/** Lets a test set the time of day of one process; see `clock.mjs`. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const PRELOAD = fileURLToPath(new URL('./clock.mjs', import.meta.url));
export const HOUR = 3_600_000;

export class Clock {
  private readonly folder = mkdtempSync(join(tmpdir(), 'parley-clock-'));
  private readonly file = join(this.folder, 'offset');

  constructor(private readonly blockMs = 0) {
    this.jump(0);
  }

  get env(): Record<string, string> {
    return {
      NODE_OPTIONS: `${process.env['NODE_OPTIONS'] ?? ''} --import ${PRELOAD}`,
      FAULT_CLOCK: this.file,
      FAULT_BLOCK_MS: String(this.blockMs),
    };
  }

  /** Takes effect within 50 ms. */
  jump(offset: number): void {
    writeFileSync(this.file, String(offset));
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}
