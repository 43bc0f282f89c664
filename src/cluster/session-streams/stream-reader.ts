import type { EventSink, Resumable } from '../../inbound/mcp/session/shared-streams.js';
import { ProtocolError } from '../../protocol/errors.js';
import { type Id, writeError } from '../../protocol/jsonrpc/message.js';
import type { JsonObject } from '../../protocol/jsonrpc/raw.js';
import { type Bus, parseId, START } from '../../state/bus.js';
import { isStateError } from '../../state/errors.js';
import type { Fence, Membership } from '../membership.js';
import { KEPT, readEntry, writeEntry } from './stream-entry.js';

const BATCH = 100;
const LOOK = 500;
/** Two readers may end the same stream. Both use the same mark, so the bus accepts only one of the two ends. */
const MARK = 'ended for its maker';

export interface StreamReaderOptions {
  readonly bus: Bus;
  readonly membership: Membership;
  /** The name of the stream on the Bus. */
  readonly name: string;
  /** The name of the stream in event ids of clients. */
  readonly stream: string;
  readonly epoch: number;
  /** The replica that makes the stream. */
  readonly maker: string;
  readonly request: Id | undefined;
}

/** Sends the events of a stream that another replica makes, as they arrive on the Bus. */
export class StreamReader implements Resumable {
  private sink: EventSink | undefined;
  private stop: (() => void) | undefined;
  private cursor = START;
  private pumping: Promise<void> | undefined;
  /** Whether the stream may have unread events. */
  private again = false;
  private ending = false;

  constructor(private readonly options: StreamReaderOptions) {}

  connect(sink: EventSink, after = 0): void {
    const { bus, membership, name, epoch, maker } = this.options;
    this.sink = sink;
    this.cursor = `${epoch}-${after}`;
    const off = bus.wake(name, () => void this.pump());
    const alone = membership.whenGone(maker, (fence) => void this.end(fence));
    // Repeats a read that failed.
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

  /** Resolves when all events present at the time of the call are read. If a read failed, `again` is true. */
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
      // The stream was trimmed before this slow reader read it: the connection ends, and the client reconnects.
      if (isStateError(error, 'gap')) this.leave()?.end();
      // In all other cases the bus is away, and the timer repeats the read.
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

  /** Ends the stream of a dead maker. The outcome of the call is unknown, and the call is not repeated. */
  private async end(fence: Fence): Promise<void> {
    if (this.ending) return;
    this.ending = true;
    try {
      // The maker can append nothing after this read, because it lost its lease. It may have appended the end already.
      await this.pump();
      if (this.again || !this.sink) return;
      const { bus, name, request } = this.options;
      const text = request === undefined ? '' : goneAnswer(request);
      await bus.append(name, writeEntry({ kind: 'x', request, text }), { ...KEPT, fence, mark: MARK });
      await this.pump();
    } catch {
      // The next call of the `whenGone` listener tries again.
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
