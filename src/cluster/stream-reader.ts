import type { EventSink, Resumable } from '../inbound/mcp/session/shared-streams.js';
import { ProtocolError } from '../protocol/errors.js';
import { type Id, writeError } from '../protocol/jsonrpc/message.js';
import type { JsonObject } from '../protocol/jsonrpc/raw.js';
import { type Bus, parseId, START } from '../state/bus.js';
import { isStateError } from '../state/errors.js';
import type { Fence, Membership } from './membership.js';
import { KEPT, readEntry, writeEntry } from './stream-entry.js';

const BATCH = 100;
const LOOK = 500;
/** Two readers may end the same stream: the same mark twice counts once. */
const MARK = 'ended for its maker';

export interface StreamReaderOptions {
  readonly bus: Bus;
  readonly membership: Membership;
  /** The stream on the Bus, and as clients know it. */
  readonly name: string;
  readonly stream: string;
  readonly epoch: number;
  /** The replica that makes it. */
  readonly maker: string;
  readonly request: Id | undefined;
}

/** Sends a stream that is made elsewhere, as it grows. */
export class StreamReader implements Resumable {
  private sink: EventSink | undefined;
  private stop: (() => void) | undefined;
  private cursor = START;
  private pumping: Promise<void> | undefined;
  /** There may be more than was read. */
  private again = false;
  private ending = false;

  constructor(private readonly options: StreamReaderOptions) {}

  connect(sink: EventSink, after = 0): void {
    const { bus, membership, name, epoch, maker } = this.options;
    this.sink = sink;
    this.cursor = `${epoch}-${after}`;
    const off = bus.wake(name, () => void this.pump());
    const alone = membership.whenGone(maker, (fence) => void this.end(fence));
    // What could not be read when it was there.
    const timer = setInterval(() => this.again && void this.pump(), LOOK).unref();
    this.stop = () => {
      off();
      alone();
      clearInterval(timer);
    };
    void this.pump();
  }

  disconnect(sink: EventSink): void {
    if (this.sink === sink) this.leave();
  }

  private leave(): EventSink | undefined {
    const { sink } = this;
    this.sink = undefined;
    this.stop?.();
    return sink;
  }

  /** Resolves when everything was read that was there at the time of the call, or `again` says that it was not. */
  private pump(): Promise<void> {
    this.again = true;
    this.pumping ??= this.readAll().finally(() => {
      this.pumping = undefined;
    });
    return this.pumping;
  }

  private async readAll(): Promise<void> {
    try {
      while (this.again && this.sink) {
        this.again = false;
        await this.readOn();
      }
    } catch (error) {
      // A reader too slow for the bounds of the stream has lost events: its connection ends, and asking again says so.
      if (isStateError(error, 'gap')) this.leave()?.end();
      // Otherwise the bus is away; the next look reads on.
      else this.again = true;
    }
  }

  private async readOn(): Promise<void> {
    const { bus, name } = this.options;
    while (this.sink) {
      const events = await bus.read(name, this.cursor, BATCH);
      if (events.length === 0) return;
      for (const [id, text] of events) this.deliver(id, text);
    }
  }

  private deliver(id: string, written: string): void {
    const { sink } = this;
    if (!sink) return;
    this.cursor = id;
    const { kind, text } = readEntry(written);
    if (text !== '') sink.event(`${this.options.stream}.${parseId(id)?.seq ?? 0}`, [Buffer.from(text)]);
    if (kind === 'x') this.leave()?.end();
  }

  /** Ends the stream for a maker that is gone: the outcome of the call is unknown, and it is not run again. */
  private async end(fence: Fence): Promise<void> {
    if (this.ending) return;
    this.ending = true;
    try {
      // Nothing of its maker can follow what is read now; its own end may be among it.
      await this.pump();
      if (this.again || !this.sink) return;
      const { bus, name, request } = this.options;
      const text = request === undefined ? '' : goneAnswer(request);
      await bus.append(name, writeEntry({ kind: 'x', request, text }), { ...KEPT, fence, mark: MARK });
      await this.pump();
    } catch {
      // Tried again at the next look.
    } finally {
      this.ending = false;
    }
  }
}

function goneAnswer(request: Id): string {
  const gone = new ProtocolError('upstream_error', 'The replica that ran this call is gone', { outcome: 'unknown' });
  const error = { code: gone.row.legacy, message: gone.message, data: gone.data as JsonObject };
  return writeError(request, error).toString();
}
