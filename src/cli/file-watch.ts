import { readFileSync, type Stats, statSync } from 'node:fs';
import { stat } from 'node:fs/promises';

/** Milliseconds between two checks of the file. A file that did not change between two checks is read. */
const INTERVAL = 1_000;
const SETTLE = 250;

export interface FileWatchOptions {
  /** Called when the content of the file changed, and no program is writing to the file at the moment. */
  readonly changed: () => void;
  /** Called when the file was removed. */
  readonly removed: () => void;
  readonly interval?: number;
  readonly settle?: number;
}

/**
 * Watches one file by its metadata. Polling also works with editors that replace the file, with network file systems,
 * and with the symbolic links of Kubernetes. Half of a YAML file can be valid, so the file is read only when it has
 * stopped changing.
 */
export class FileWatch {
  private seen: string;
  private content: string | undefined;
  /** The state of the file when its content was last compared. */
  private compared: string | undefined;
  private timer: NodeJS.Timeout | undefined;
  private closed = false;

  constructor(
    private readonly file: string,
    private readonly options: FileWatchOptions,
  ) {
    this.seen = markOf(statSync(file, { throwIfNoEntry: false }));
    this.content = this.read();
    this.wait(options.interval ?? INTERVAL);
  }

  private wait(milliseconds: number): void {
    if (!this.closed) this.timer = setTimeout(() => void this.look(), milliseconds).unref();
  }

  private async look(): Promise<void> {
    const mark = markOf(await stat(this.file).catch(() => undefined));
    if (this.closed) return;
    if (mark === this.seen) this.settled(mark);
    const settling = mark !== this.seen;
    this.seen = mark;
    this.wait(settling ? (this.options.settle ?? SETTLE) : (this.options.interval ?? INTERVAL));
  }

  /** Two checks in a row found the same file. */
  private settled(mark: string): void {
    if (this.compared === mark) return;
    this.compared = mark;
    const before = this.content;
    this.content = mark === GONE ? undefined : this.read();
    if (this.content === before) return;
    if (mark === GONE) this.options.removed();
    else this.options.changed();
  }

  private read(): string | undefined {
    try {
      return readFileSync(this.file, 'utf8');
    } catch {
      // Loading the configuration reports why the file cannot be read.
      return undefined;
    }
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.timer);
  }
}

const GONE = '';

/** A text that differs whenever the file was written or replaced. */
function markOf(stats: Stats | undefined): string {
  return stats === undefined ? GONE : `${stats.dev}:${stats.ino}:${stats.size}:${stats.mtimeMs}:${stats.ctimeMs}`;
}
