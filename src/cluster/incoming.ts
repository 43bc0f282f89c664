import { type Bus, START, type StreamEvent } from '../state/bus.js';
import { isStateError } from '../state/errors.js';

const BATCH = 100;
const PAUSE = 500;

export interface IncomingOptions {
  readonly bus: Bus;
  readonly stream: string;
  /** Where to begin: with everything, or with what comes from now on. */
  readonly from: 'start' | 'end';
  receive(text: string): void;
  /** Something was cut off before it was read. */
  missed(): void;
  failed(error: Error): void;
}

/** Reads a stream to its end whenever there may be something new, one read at a time, and never gives up. */
export class Incoming {
  /** Resolves once it is settled where reading begins, or could not be settled at the first attempt. */
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

  /** The stream was begun anew, and all of it is news; or its oldest part is gone, and only the newest can be trusted. */
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
