import { createHash, randomUUID } from 'node:crypto';
import { ProtocolError } from '../../protocol/errors.js';
import type { JsonObject, JsonValue } from '../../protocol/jsonrpc/raw.js';
import type { InputResponses, Notification } from '../../protocol/mcp/model.js';
import { Cancellation } from '../caller.js';
import { ALONE, type Cluster, ReplicaGone } from '../cluster.js';
import { type Call, failed, type Outcome, type ParkedCall } from '../gateway.js';
import { NotificationLimiter } from '../notification-limiter.js';
import type { Ticket } from './call-state.js';
import { readOutcome, writeOutcome } from './outcome-json.js';
import { RepeatedAnswers } from './repeated-answers.js';
import type { RequestBytes } from './request-byte-limits.js';

export interface ParkingLimits {
  /** How long a call waits for an answer, in milliseconds. */
  readonly ttl: number;
  readonly inAll: number;
  readonly perCaller: number;
  readonly perServer: number;
  /** The most bytes of the requests of parked calls, which stay in memory until their calls are over. */
  readonly bytes: RequestBytes;
}

/** Stores parked calls that another process can continue. */
export interface ParkedRecords {
  keep(id: string, principal: string, server: string, call: JsonValue, ttl: number): Promise<void>;
  /** Removes and returns a record. Only the process that gets the record continues the call. */
  take(id: string, principal: string): Promise<{ readonly server: string; readonly call: JsonValue } | undefined>;
}

export interface Portable {
  readonly records: ParkedRecords;
  adopt(server: string, call: JsonValue, principal: string): ParkedCall | undefined;
}

interface Entry {
  readonly principal: string;
  readonly server: string;
  readonly parked: ParkedCall;
  /** The size of the request. 0 for a call taken over from another process, because its stored record is small. */
  readonly bytes: number;
  round: number;
  /** Whether the caller may answer at another process. */
  moves: boolean;
  /** Whether the call is stored. The process that continues a stored call removes the record first. */
  kept: boolean;
  timer: NodeJS.Timeout;
  /** The answer that is being processed. A request with the same answer joins it and gets the same outcome. */
  resuming:
    | { readonly round: number; readonly answers: string; readonly outcome: Promise<Outcome>; readonly joined: Joined }
    | undefined;
}

/**
 * Several requests that wait for one resumed call. The call is cancelled when the last of these requests is cancelled.
 */
class Joined {
  readonly cancellation = new Cancellation();
  private waiting = 0;
  private readonly sinks = new Set<Pick<Call, 'notify' | 'cancellation'>>();

  add(call: Pick<Call, 'notify' | 'cancellation'>): void {
    this.waiting++;
    this.sinks.add(call);
    call.cancellation.onCancel((reason) => {
      this.sinks.delete(call);
      if (--this.waiting === 0) this.cancellation.cancel(reason);
    });
  }

  /**
   * Forgets a request that has received its outcome. Otherwise a call with several rounds would keep the requests of
   * all rounds in memory.
   */
  leave(call: Pick<Call, 'notify' | 'cancellation'>): void {
    this.sinks.delete(call);
  }

  notify: Call['notify'] = (notification) => {
    for (const sink of this.sinks) sink.notify(notification);
  };
}

/**
 * Holds calls that wait for answers from their callers. Each round resumes a call at most once, and a call is never
 * repeated.
 */
export class ParkedCalls {
  private readonly entries = new Map<string, Entry>();
  private readonly answered = new RepeatedAnswers();
  /** Calls that are being taken over. One request gets the record, and other requests for the same call wait for it. */
  private readonly adopting = new Map<string, Promise<Entry | undefined>>();

  constructor(
    private readonly limits: ParkingLimits,
    private readonly cluster: Cluster = ALONE,
    private readonly portable?: Portable,
  ) {
    cluster.handle(RESUME, async (payload, asked) => {
      const { ticket, principal, answers } = payload as unknown as {
        ticket: Ticket;
        principal: string;
        answers: InputResponses;
      };
      const limiter = new NotificationLimiter(asked.cancellation, (notification) =>
        asked.emit(notification as unknown as JsonValue),
      );
      try {
        const { outcome, next } = await this.resume(ticket, principal, limiter, answers);
        return { outcome: writeOutcome(limiter.settle(outcome)), ...(next && { next: next as unknown as JsonValue }) };
      } catch (error) {
        if (!(error instanceof ProtocolError)) throw error;
        return { outcome: writeOutcome(failed(error)) };
      }
    });
  }

  get size(): number {
    return this.entries.size;
  }

  /** Parks a call with a request of this size. If a limit is reached, abandons the call and throws `overloaded`. */
  park(principal: string, server: string, parked: ParkedCall, bytes: number): Ticket {
    const full = this.fullFor(principal, server, bytes);
    if (full) {
      parked.abandon(full);
      throw new ProtocolError('overloaded', full, { outcome: 'unknown', data: { server } });
    }
    const id = randomUUID();
    this.admit(id, 1, { principal, server, parked, bytes });
    // A parked call may end because its server gave up or is gone. The request with the next answer then gets that
    // outcome.
    return { id, round: 1, owner: this.cluster.self };
  }

  private admit(id: string, round: number, call: Pick<Entry, 'principal' | 'server' | 'parked' | 'bytes'>): Entry {
    const timer = this.expiry(id);
    const entry: Entry = { ...call, round, moves: false, kept: false, timer, resuming: undefined };
    this.entries.set(id, entry);
    return entry;
  }

  /** Stores a call that another process can continue. If the call cannot be stored, it waits in this process only. */
  async keep({ id, round }: Ticket): Promise<void> {
    const entry = this.entries.get(id);
    const call = this.portable && entry?.parked.portable?.();
    if (!this.portable || !entry || call === undefined) return;
    const { principal, server } = entry;
    entry.moves = true;
    try {
      await this.portable.records.keep(recordOf(id, round), principal, server, call, this.limits.ttl);
      entry.kept = true;
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
    }
  }

  /** Takes over a call whose process is gone. */
  private adopt(ticket: Ticket, principal: string): Promise<Entry | undefined> {
    const key = `${recordOf(ticket.id, ticket.round)}|${principal}`;
    const known = this.adopting.get(key);
    if (known) return known;
    const adopted = this.takeOver(ticket, principal).finally(() => this.adopting.delete(key));
    this.adopting.set(key, adopted);
    return adopted;
  }

  private async takeOver({ id, round }: Ticket, principal: string): Promise<Entry | undefined> {
    const record = await this.portable?.records.take(recordOf(id, round), principal);
    const parked = record && this.portable?.adopt(record.server, record.call, principal);
    if (!parked) return undefined;
    const entry = this.admit(id, round, { principal, server: record.server, parked, bytes: 0 });
    entry.moves = true;
    return entry;
  }

  /** Counts a call against the same limits until the call is over. The caller of such a call answers through a task. */
  count(principal: string, server: string, parked: ParkedCall, bytes: number): void {
    const { id } = this.park(principal, server, parked, bytes);
    clearTimeout(this.entries.get(id)?.timer);
    void parked.over.then(() => this.drop(id));
  }

  private fullFor(principal: string, server: string, bytes: number): string | undefined {
    const { inAll, perCaller, perServer, bytes: most } = this.limits;
    let ofCaller = 0;
    let ofServer = 0;
    let held = bytes;
    let heldForCaller = bytes;
    for (const entry of this.entries.values()) {
      held += entry.bytes;
      if (entry.server === server) ofServer++;
      if (entry.principal !== principal) continue;
      ofCaller++;
      heldForCaller += entry.bytes;
    }
    if (this.entries.size >= inAll) return 'Too many calls wait for answers; try again later';
    if (ofCaller >= perCaller) return 'Too many of your calls wait for answers; answer or cancel some first';
    if (ofServer >= perServer) return `Too many calls to server "${server}" wait for answers; try again later`;
    // A single call may have a request of any size that the gateway accepts.
    if (ofCaller > 0 && heldForCaller > most.perCaller)
      return 'Your calls that wait for answers hold too much data; answer or cancel some first';
    return this.entries.size > 0 && held > most.inAll
      ? 'The calls that wait for answers hold too much data; try again later'
      : undefined;
  }

  private expiry(id: string): NodeJS.Timeout {
    const timer = setTimeout(
      () => this.drop(id)?.parked.abandon('The question was not answered in time'),
      this.limits.ttl,
    );
    timer.unref();
    return timer;
  }

  private drop(id: string): Entry | undefined {
    const entry = this.entries.get(id);
    if (!entry) return undefined;
    this.entries.delete(id);
    clearTimeout(entry.timer);
    if (entry.kept) this.portable?.records.take(recordOf(id, entry.round), entry.principal).catch(() => {});
    return entry;
  }

  /** Resolves with the next outcome of the call, and the ticket of the next round if the call has further questions. */
  async resume(
    ticket: Ticket,
    principal: string,
    call: Pick<Call, 'notify' | 'cancellation'>,
    answers: InputResponses,
  ): Promise<{ readonly outcome: Outcome; readonly next: Ticket | undefined }> {
    if (ticket.owner !== this.cluster.self) return this.resumeElsewhere(ticket, principal, call, answers);
    const text = digest(answers);
    const known = this.answered.find(ticket.id, principal, ticket.round, text);
    if (known === 'different') throw answeredDifferently();
    if (known) return { outcome: known, next: undefined };
    const entry = this.entries.get(ticket.id) ?? (await this.adopt(ticket, principal));
    if (entry?.principal !== principal) throw gone();
    const { resuming } = entry;
    if (resuming?.round === ticket.round) {
      if (resuming.answers !== text) throw answeredDifferently();
      resuming.joined.add(call);
      return await this.settled(ticket.id, entry, await resuming.outcome.finally(() => resuming.joined.leave(call)));
    }
    if (entry.round !== ticket.round) throw gone();
    clearTimeout(entry.timer);
    const joined = new Joined();
    joined.add(call);
    const outcome = this.goOn(ticket, entry, joined, answers);
    entry.resuming = { round: ticket.round, answers: text, outcome, joined };
    entry.round++;
    return this.settled(ticket.id, entry, await outcome.finally(() => joined.leave(call)));
  }

  private async goOn(ticket: Ticket, entry: Entry, joined: Joined, answers: InputResponses): Promise<Outcome> {
    if (entry.kept) await this.claim(ticket, entry);
    return entry.parked.resume({ notify: joined.notify, cancellation: joined.cancellation }, answers);
  }

  /**
   * Removes the stored record before the call continues. If another replica considered this replica dead and took the
   * record, the call is dropped at this replica.
   */
  private async claim({ id, round }: Ticket, entry: Entry): Promise<void> {
    let taken: unknown;
    try {
      taken = await this.portable?.records.take(recordOf(id, round), entry.principal);
    } catch (error) {
      entry.resuming = undefined;
      entry.round = round;
      entry.timer = this.expiry(id);
      throw error;
    }
    entry.kept = false;
    if (taken) return;
    this.drop(id);
    throw gone();
  }

  /** Asks the process that holds the call to continue it. If that process is gone, takes the call over. */
  private async resumeElsewhere(
    ticket: Ticket,
    principal: string,
    call: Pick<Call, 'notify' | 'cancellation'>,
    answers: InputResponses,
  ): Promise<{ readonly outcome: Outcome; readonly next: Ticket | undefined }> {
    try {
      const payload = { ticket, principal, answers } as unknown as JsonValue;
      const answer = (await this.cluster.ask(ticket.owner, RESUME, payload, {
        cancellation: call.cancellation,
        onEvent: (event) => call.notify(event as unknown as Notification),
      })) as JsonObject;
      const { outcome } = readOutcome(answer['outcome'] as JsonObject);
      return { outcome, next: answer['next'] as unknown as Ticket | undefined };
    } catch (error) {
      if (!(error instanceof ReplicaGone)) throw error;
      if (await this.adopt(ticket, principal))
        return this.resume({ ...ticket, owner: this.cluster.self }, principal, call, answers);
      // BR-16: the call may have run, so it is not repeated.
      throw new ProtocolError('upstream_error', 'The call is lost because the replica that held the call is gone', {
        outcome: 'unknown',
      });
    }
  }

  private async settled(
    id: string,
    entry: Entry,
    outcome: Outcome,
  ): Promise<{ readonly outcome: Outcome; readonly next: Ticket | undefined }> {
    if (outcome.kind !== 'input_required') {
      this.drop(id);
      const { resuming, principal } = entry;
      if (resuming) this.answered.keep(id, principal, resuming.round, resuming.answers, outcome);
      return { outcome, next: undefined };
    }
    if (this.entries.get(id) === entry) {
      clearTimeout(entry.timer);
      entry.timer = this.expiry(id);
    }
    const next: Ticket = { id, round: entry.round, owner: this.cluster.self };
    if (entry.moves) await this.keep(next);
    return { outcome, next };
  }

  /** Abandons a call whose caller will not answer. A call that waits in another process expires there. */
  abandon(ticket: Ticket, reason: string | undefined): void {
    if (this.entries.get(ticket.id)?.round !== ticket.round) return;
    this.drop(ticket.id)?.parked.abandon(reason ?? 'The call was cancelled');
  }

  /** Abandons every parked call at the end of the process. Stored calls remain for another process. */
  close(): void {
    for (const [id, entry] of [...this.entries]) {
      clearTimeout(entry.timer);
      if (entry.kept) this.entries.delete(id);
      else this.drop(id)?.parked.abandon('The gateway is stopping');
    }
  }
}

const RESUME = 'parked:resume';

const recordOf = (id: string, round: number): string => `${id}.${round}`;

const digest = (answers: InputResponses): string =>
  createHash('sha256').update(JSON.stringify(answers)).digest('base64url');

const answeredDifferently = (): ProtocolError =>
  new ProtocolError('invalid_state', 'This question already has a different answer');

const gone = (): ProtocolError =>
  new ProtocolError(
    'invalid_state',
    'This request state is no longer valid: it expired, was used already, or the call ended. Start the call again without it',
  );
