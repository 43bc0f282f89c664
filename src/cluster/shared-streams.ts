import type { EventSink, Resumable, SharedStreams, StreamCopy } from '../inbound/mcp/session/shared-streams.js';
import { ProtocolError } from '../protocol/errors.js';
import { type Id, writeError } from '../protocol/jsonrpc/message.js';
import { type Bus, parseId, START } from '../state/bus.js';
import { isStateError } from '../state/errors.js';
import type { Presence } from './presence.js';

/** The same bounds as in memory, and events of a stream that nobody finishes end with its age. */
const KEPT = { maxLen: 1_001, maxBytes: 1024 * 1024, ttlMs: 10 * 60 * 1000 };
const BATCH = 100;
const LOOK = 1_000;

/** What stands in front of an entry: who makes the stream and for which request, an event, or the end. */
const HEAD = 'h';
const EVENT = 'e';
const END = 'x';

const streamOf = (session: string, stream: string): string => `ev:${session}:${stream}`;

/**
 * Streams of sessions on the Bus. Their maker appends under its fence; a reader that finds the maker gone ends the
 * stream in its place, once, with an error that says the outcome is unknown (P2).
 */
export class BusStreams implements SharedStreams {
  constructor(
    private readonly bus: Bus,
    private readonly presence: Presence,
    private readonly log: { warn(fields: object, message: string): void },
  ) {}

  get prefix(): string {
    return `${this.presence.self}-`;
  }

  open(session: string, stream: string, request: Id | undefined): StreamCopy {
    const { bus, presence, log } = this;
    const name = streamOf(session, stream);
    const head = JSON.stringify({ maker: presence.self, ...(request !== undefined && { request }) });
    let ready: Promise<unknown> = bus.append(name, HEAD + head, KEPT);
    const add = async (text: string): Promise<boolean> => {
      try {
        await ready;
        await bus.append(name, text, { ...KEPT, fence: presence.fence });
        return true;
      } catch (error) {
        if (isStateError(error, 'fenced')) return false;
        // Whoever is connected here is served all the same; who comes back elsewhere is told that events are missing.
        log.warn({ why: (error as Error).message }, 'an event could not be shared with the other replicas');
        return true;
      }
    };
    ready = ready.catch((error: unknown) => {
      log.warn({ why: (error as Error).message }, 'a stream could not be shared with the other replicas');
    });
    return {
      append: (text) => add(EVENT + text),
      finish: async () => {
        await add(END);
      },
    };
  }

  async find(session: string, stream: string, after: number): Promise<Resumable | undefined> {
    const name = streamOf(session, stream);
    const tail = await this.bus.tail(name);
    const last = tail === START ? undefined : parseId(tail);
    if (!last) return undefined;
    const [head] = await this.bus.read(name, START, 1).catch(() => []);
    const { maker, request } = readHead(head?.[1]);
    // Reading once now finds out whether everything asked for is still there.
    try {
      await this.bus.read(name, `${last.epoch}-${after}`, 1);
    } catch (error) {
      if (!isStateError(error, 'gap')) throw error;
      throw new ProtocolError(
        'event_not_found',
        'The events behind this Last-Event-ID are no longer kept; start again',
      );
    }
    return new Reader(this.bus, this.presence, name, stream, last.epoch, maker, request);
  }
}

function readHead(text: string | undefined): { maker: string | undefined; request: Id | undefined } {
  if (!text?.startsWith(HEAD)) return { maker: undefined, request: undefined };
  const { maker, request } = JSON.parse(text.slice(1)) as { maker?: string; request?: Id };
  return { maker, request };
}

/** Sends a stream that is made elsewhere, as it grows. */
class Reader implements Resumable {
  private sink: EventSink | undefined;
  private stop: (() => void) | undefined;
  private cursor = START;
  private reading = false;
  private again = false;

  constructor(
    private readonly bus: Bus,
    private readonly presence: Presence,
    private readonly name: string,
    private readonly stream: string,
    private readonly epoch: number,
    private readonly maker: string | undefined,
    private readonly request: Id | undefined,
  ) {}

  connect(sink: EventSink, after = 0): void {
    this.sink = sink;
    this.cursor = `${this.epoch}-${after}`;
    const off = this.bus.wake(this.name, () => void this.pump());
    const timer = setInterval(() => void this.look(), LOOK);
    timer.unref();
    this.stop = () => {
      off();
      clearInterval(timer);
    };
    void this.pump();
  }

  disconnect(sink: EventSink): void {
    if (this.sink !== sink) return;
    this.sink = undefined;
    this.stop?.();
  }

  private async pump(): Promise<void> {
    this.again = this.reading;
    if (this.reading) return;
    this.reading = true;
    try {
      do {
        this.again = false;
        for (
          let events = await this.bus.read(this.name, this.cursor, BATCH);
          events.length > 0 && this.sink;
          events = await this.bus.read(this.name, this.cursor, BATCH)
        ) {
          for (const [id, text] of events) this.deliver(id, text);
        }
      } while (this.again && this.sink);
    } catch (error) {
      // A reader too slow for the bounds of the stream has lost events: its connection ends, and asking again says so.
      if (isStateError(error, 'gap')) this.finish();
    } finally {
      this.reading = false;
    }
  }

  private deliver(id: string, text: string): void {
    const { sink } = this;
    if (!sink) return;
    this.cursor = id;
    if (text.startsWith(EVENT)) sink.event(`${this.stream}.${parseId(id)?.seq ?? 0}`, [Buffer.from(text.slice(1))]);
    else if (text === END) this.finish();
  }

  private finish(): void {
    const { sink } = this;
    this.sink = undefined;
    this.stop?.();
    sink?.end();
  }

  /** Ends the stream for a maker that is gone: the same words twice count once. */
  private async look(): Promise<void> {
    if (!this.maker || (await this.presence.alive(this.maker).catch(() => true))) return;
    try {
      await this.presence.bury(this.maker);
      if (this.request !== undefined) {
        const gone = new ProtocolError('upstream_error', 'The replica that ran this call is gone', {
          outcome: 'unknown',
        });
        const error = writeError(this.request, {
          code: gone.row.legacy,
          message: gone.message,
          data: { reason: gone.reason, outcome: 'unknown' },
        });
        const [last] = (await this.bus.read(this.name, this.cursor, BATCH)).slice(-1);
        if (last?.[1] !== END)
          await this.bus.append(this.name, EVENT + error.toString('utf8'), { ...KEPT, mark: 'terminal' });
      }
      await this.bus.append(this.name, END, { ...KEPT, mark: 'end' });
    } catch {
      // Tried again at the next look.
    }
    await this.pump();
  }
}
