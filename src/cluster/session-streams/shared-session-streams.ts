import { randomBytes } from 'node:crypto';
import type { Cluster } from '../../core/cluster.js';
import { sleep } from '../../core/timing.js';
import type { Resumable, SharedStreams, StreamCopy } from '../../inbound/mcp/session/shared-streams.js';
import type { Id } from '../../protocol/jsonrpc/message.js';
import { type Bus, type EventId, parseId, START } from '../../state/bus.js';
import { isStateError } from '../../state/errors.js';
import type { Log } from '../../telemetry/log.js';
import { unreachable } from '../bus-unreachable.js';
import { type Membership, streamOfReplica } from '../membership.js';
import { KeptCopies } from './kept-copies.js';
import { type FindStream, relayedStream, serveStreams } from './relayed-streams.js';
import { KEPT, newestEntry } from './stream-entry.js';
import { StreamReader } from './stream-reader.js';
import { QueueBudget, StreamWriter } from './stream-writer.js';

/**
 * Streams of sessions on the Bus. The maker of a stream appends under its fence. If the maker is dead, a reader ends
 * the stream instead, once, with an error that says that the outcome is unknown (P2).
 */
export class BusStreams implements SharedStreams {
  private readonly budget = new QueueBudget();
  /** Lookups that wait for their maker, by caller. */
  private readonly waiting = new Map<string, number>();

  constructor(
    private readonly bus: Bus,
    private readonly membership: Membership,
    private readonly log: Log,
    /** Used to ask makers for streams that have no copy on the Bus. */
    private readonly cluster?: Cluster,
    private readonly copies = new KeptCopies(bus),
  ) {}

  serve(find: FindStream): void {
    if (this.cluster) serveStreams(this.cluster, find);
  }

  /**
   * Starts with the maker's name, so that a reader knows the maker even after the start of the stream is trimmed. The
   * rest is random: a counter would tell clients how many sessions this replica has.
   */
  prefix(): string {
    return `${this.membership.self}-${randomBytes(6).toString('hex')}-`;
  }

  open(session: string, stream: string, request: Id | undefined, endedElsewhere?: () => void): StreamCopy {
    const { bus, membership, budget, copies, log } = this;
    const name = streamOf(session, stream);
    return new StreamWriter({ bus, membership, name, request, budget, copies, log, endedElsewhere });
  }

  /** Bytes of events that wait for the bus. */
  get waitingBytes(): number {
    return this.budget.used;
  }

  async find(session: string, stream: string, after: number, caller?: string): Promise<Resumable | undefined> {
    const maker = makerOf(stream);
    const copied = await this.copied(session, stream, after, caller);
    if (copied || !this.cluster) return copied;
    // Most replies end before they are copied to the bus, and the maker drops a copy that falls too far behind.
    return relayedStream({ cluster: this.cluster, maker, session, stream }, after);
  }

  /** The copy on the Bus, or undefined if the copy does not hold all requested events. */
  private async copied(
    session: string,
    stream: string,
    after: number,
    caller: string | undefined,
  ): Promise<Resumable | undefined> {
    // Streams are numbered from 1.
    if (after < 1) return undefined;
    const { bus, membership } = this;
    const [name, maker] = [streamOf(session, stream), makerOf(stream)];
    try {
      const last = await this.caughtUp(name, maker, after, caller);
      if (!last || last.seq < after) return undefined;
      const newest = await newestEntry(bus, name);
      // This read throws `gap` if requested events were trimmed.
      const [next] = await bus.read(name, `${last.epoch}-${after}`, 1);
      // No event follows an end entry. Clients know the id of an end entry only if the entry has a text.
      if (!next && newest?.kind === 'x') return newest.text !== '' && after === last.seq ? OVER : undefined;
      return new StreamReader({ bus, membership, name, stream, epoch: last.epoch, maker, request: newest?.request });
    } catch (error) {
      if (isStateError(error, 'gap')) return undefined;
      throw isStateError(error) ? unreachable('not_executed') : error;
    }
  }

  /**
   * The newest entry. Waits for the maker if the client already has an event that is not on the Bus yet. Each wait
   * reads the Bus many times, and clients can invent event ids, so few lookups of a caller wait at the same time. The
   * other lookups ask the maker at once.
   */
  private async caughtUp(
    name: string,
    maker: string,
    after: number,
    caller: string | undefined,
  ): Promise<EventId | undefined> {
    const newest = await this.newestOf(name);
    if (!lacks(newest, after) || !SHARED.test(name)) return newest;
    const own = caller === undefined ? 0 : (this.waiting.get(caller) ?? 0);
    if (own >= WAITING_PER_CALLER) return newest;
    if (caller !== undefined) this.waiting.set(caller, own + 1);
    try {
      let last = newest;
      for (let wait = 0; lacks(last, after) && wait < BEHIND; wait += PAUSE) {
        if (!(await this.membership.alive(maker))) return last;
        await sleep(PAUSE, { ref: false });
        last = await this.newestOf(name);
      }
      return last;
    } finally {
      if (caller !== undefined) this.waited(caller);
    }
  }

  private waited(caller: string): void {
    const left = (this.waiting.get(caller) ?? 1) - 1;
    if (left > 0) this.waiting.set(caller, left);
    else this.waiting.delete(caller);
  }

  private async newestOf(name: string): Promise<EventId | undefined> {
    const tail = await this.bus.tail(name);
    return tail === START ? undefined : parseId(tail);
  }
}

/** Whether the entry for event `after` is missing, but may still come. */
function lacks(last: EventId | undefined, after: number): boolean {
  const behind = after - (last?.seq ?? 0);
  return behind > 0 && behind <= KEPT.maxLen;
}

/** A stream whose events were all delivered already. */
const OVER: Resumable = { connect: (sink) => sink.end(), disconnect: () => {} };

const BEHIND = 2_000;
const PAUSE = 100;
const WAITING_PER_CALLER = 4;
/** Matches the names that sessions give to streams with a copy on the bus. */
const SHARED = /-r\d+$/;

/** The name of the stream on the Bus. It is in the shard of the maker, because the maker's fence guards its events. */
const streamOf = (session: string, stream: string): string =>
  streamOfReplica(makerOf(stream), `ev:${session}:${stream}`);

const makerOf = (stream: string): string => stream.slice(0, Math.max(0, stream.indexOf('-')));
