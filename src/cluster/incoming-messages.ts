import { type Bus, START, type StreamEvent } from '../state/bus.js';
import { isStateError } from '../state/errors.js';

const BATCH = 100;
const PAUSE = 500;

export interface IncomingOptions {
  readonly bus: Bus;
  readonly stream: string;
  /** `start` reads all events of the stream, `end` only the events appended from now on. */
  readonly from: 'start' | 'end';
  receive(text: string): void;
  /** The stream was trimmed before this reader read all events. */
  missed(): void;
  failed(error: Error): void;
}

/** Reads a stream to its end whenever it may have new events. Runs one read at a time, and retries failed reads. */
export class Incoming {
  /** Resolves when the first attempt to read has ended. After a success the start position is known. */
  readonly ready: Promise<void>;
  private cursor: string | undefined;
  private reading = false;
  private again = false;
  private closed = false;
  private readonly off: () => void;
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly options: IncomingOptions) {
    if (options.from === 'start') this.cursor = START;
    this.off = options.bus.wake(options.stream, () => void this.pump());
    this.ready = this.pump();
  }

  private async pump(): Promise<void> {
    this.again = true;
    if (this.reading) return;
    this.reading = true;
    try {
      while (this.again && !this.closed) {
        this.again = false;
        await this.readOn();
      }
    } catch (error) {
      if (!this.closed) {
        this.options.failed(error as Error);
        clearTimeout(this.timer);
        this.timer = setTimeout(() => void this.pump(), PAUSE).unref();
      }
    } finally {
      this.reading = false;
    }
  }

  private async readOn(): Promise<void> {
    const { bus, stream } = this.options;
    this.cursor ??= await bus.tail(stream);
    for (;;) {
      const cursor: string = this.cursor ?? START;
      const events: StreamEvent[] = await bus
        .read(stream, cursor, BATCH)
        .catch((error: unknown) => this.afterGap(error));
      for (const [id, text] of events) {
        this.cursor = id;
        this.options.receive(text);
      }
      if (events.length === 0 || this.closed) return;
    }
  }

  /**
   * After a gap, reads the stream from its start, because a stream that was created again has only new events. If the
   * start is trimmed as well, continues at the end and reports the missed events.
   */
  private async afterGap(error: unknown): Promise<StreamEvent[]> {
    if (!isStateError(error, 'gap')) throw error;
    const { bus, stream, missed } = this.options;
    this.cursor = START;
    try {
      return await bus.read(stream, START, BATCH);
    } catch (second) {
      if (!isStateError(second, 'gap')) throw second;
      this.cursor = await bus.tail(stream);
      missed();
      return [];
    }
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.timer);
    this.off();
  }
}
