import { sleep } from '../core/timing.js';
import type { Resumable, SharedStreams, StreamCopy } from '../inbound/mcp/session/shared-streams.js';
import { ProtocolError } from '../protocol/errors.js';
import type { Id } from '../protocol/jsonrpc/message.js';
import { type Bus, type EventId, parseId, START } from '../state/bus.js';
import { isStateError } from '../state/errors.js';
import type { Log } from '../telemetry/log.js';
import type { Presence } from './presence.js';
import { KEPT, newestEntry } from './stream-entry.js';
import { StreamReader } from './stream-reader.js';
import { QueueBudget, StreamWriter } from './stream-writer.js';
import { unreachable } from './unreachable.js';

/**
 * Streams of sessions on the Bus. Their maker appends under its fence; a reader that finds the maker gone ends the
 * stream in its place, once, with an error that says the outcome is unknown (P2).
 */
export class BusStreams implements SharedStreams {
  private logs = 0;
  private readonly budget = new QueueBudget();

  constructor(
    private readonly bus: Bus,
    private readonly presence: Presence,
    private readonly log: Log,
  ) {}

  /** Begins with the maker, which a reader has to know even where the beginning of a stream is no longer kept. */
  prefix(): string {
    return `${this.presence.self}-${(this.logs++).toString(36)}-`;
  }

  open(session: string, stream: string, request: Id | undefined, endedElsewhere?: () => void): StreamCopy {
    const { bus, presence, budget, log } = this;
    return new StreamWriter({ bus, presence, name: streamOf(session, stream), request, budget, log, endedElsewhere });
  }

  /** Bytes of events that wait for the bus. */
  get waitingBytes(): number {
    return this.budget.used;
  }

  async find(session: string, stream: string, after: number): Promise<Resumable | undefined> {
    // Streams are numbered from 1.
    if (after < 1) return undefined;
    const { bus, presence } = this;
    const name = streamOf(session, stream);
    const maker = stream.slice(0, stream.indexOf('-'));
    try {
      const last = await this.caughtUp(name, maker, after);
      if (!last) return undefined;
      const newest = await newestEntry(bus, name);
      // Reading once now finds out whether everything asked for is still there.
      const [next] = await bus.read(name, `${last.epoch}-${after}`, 1);
      // Behind an end nothing will come. It has an id that clients know only if it told them something.
      if (!next && newest?.kind === 'x') return newest.text !== '' && after === last.seq ? OVER : undefined;
      return new StreamReader({ bus, presence, name, stream, epoch: last.epoch, maker, request: newest?.request });
    } catch (error) {
      if (isStateError(error, 'gap')) {
        throw new ProtocolError(
          'event_not_found',
          'The events behind this Last-Event-ID are no longer kept; start again',
        );
      }
      throw isStateError(error) ? unreachable('not_executed') : error;
    }
  }

  /** The newest entry. A client may be here with an event that its maker has not yet brought to the Bus. */
  private async caughtUp(name: string, maker: string, after: number): Promise<EventId | undefined> {
    for (let wait = 0; ; wait += PAUSE) {
      const tail = await this.bus.tail(name);
      const last = tail === START ? undefined : parseId(tail);
      const behind = after - (last?.seq ?? 0);
      if (behind <= 0 || behind > KEPT.maxLen || wait >= BEHIND || !SHARED.test(name)) return last;
      if (!(await this.presence.alive(maker))) return last;
      await sleep(PAUSE, { ref: false });
    }
  }
}

/** A stream of which everything was told. */
const OVER: Resumable = { connect: (sink) => sink.end(), disconnect: () => {} };

const BEHIND = 2_000;
const PAUSE = 100;
/** As the session names its streams. */
const SHARED = /-r\d+$/;

const streamOf = (session: string, stream: string): string => `ev:${session}:${stream}`;
