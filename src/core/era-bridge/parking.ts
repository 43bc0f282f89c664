import { createHash, randomUUID } from 'node:crypto';
import { ProtocolError } from '../../protocol/errors.js';
import type { JsonObject, JsonValue } from '../../protocol/jsonrpc/raw.js';
import type { InputResponses, Notification } from '../../protocol/mcp/model.js';
import { Cancellation } from '../caller.js';
import { ALONE, type Cluster, ReplicaGone } from '../cluster.js';
import { type Call, failed, type Outcome, type ParkedCall } from '../gateway.js';
import { NotificationLimiter } from '../notification-limiter.js';
import { AnsweredCalls } from './answered-calls.js';
import type { Ticket } from './call-state.js';
import { readOutcome, writeOutcome } from './outcome-json.js';
import type { RequestBytes } from './request-bytes.js';

export interface ParkingLimits {
  /** How long a call waits for an answer. */
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

interface Space {
  readonly principal: string;
  readonly server: string;
  readonly parked: ParkedCall;
  /** The size of the request. A call of another process has only the stored record, which is small. */
  readonly bytes: number;
  round: number;
  /** Whether the caller may answer at another process. */
  moves: boolean;
  /** Whether the call is stored: the process that continues the call removes the record first. */
  kept: boolean;
  timer: NodeJS.Timeout;
  /** The answer that is being processed: the same answer again joins it. */
  resuming:
    | { readonly round: number; readonly answers: string; readonly outcome: Promise<Outcome>; readonly joined: Joined }
    | undefined;
}

/** Several requests that wait for one resumed call. The call is cancelled when the last of them is. */
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
   * Forgets a request that has its outcome. Otherwise a call with several rounds would hold the requests of all rounds.
   */
  leave(call: Pick<Call, 'notify' | 'cancellation'>): void {
    this.sinks.delete(call);
  }

  notify: Call['notify'] = (notification) => {
    for (const sink of this.sinks) sink.notify(notification);
  };
}

/**
 * Calls that wait for answers of their callers. Each round resumes a call at most once, and a call is never repeated.
 */
export class Parking {
  private readonly spaces = new Map<string, Space>();
  private readonly answered = new AnsweredCalls();
  /** Calls that are being taken over: one request gets the record, and the others wait for the call. */
  private readonly adopting = new Map<string, Promise<Space | undefined>>();

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
    return this.spaces.size;
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
    // A parked call may end because its server gave up or is gone. The next answer gets that outcome.
    return { id, round: 1, owner: this.cluster.self };
  }

  private admit(id: string, round: number, call: Pick<Space, 'principal' | 'server' | 'parked' | 'bytes'>): Space {
    const timer = this.expiry(id);
    const space: Space = { ...call, round, moves: false, kept: false, timer, resuming: undefined };
    this.spaces.set(id, space);
    return space;
  }

  /** Stores a call that another process can continue. If that fails, the call waits in this process only. */
  async keep({ id, round }: Ticket): Promise<void> {
    const space = this.spaces.get(id);
    const call = this.portable && space?.parked.portable?.();
    if (!this.portable || !space || call === undefined) return;
    const { principal, server } = space;
    space.moves = true;
    try {
      await this.portable.records.keep(recordOf(id, round), principal, server, call, this.limits.ttl);
      space.kept = true;
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
    }
  }

  /** Takes over a call whose process is gone. */
  private adopt(ticket: Ticket, principal: string): Promise<Space | undefined> {
    const key = `${recordOf(ticket.id, ticket.round)}|${principal}`;
    const known = this.adopting.get(key);
    if (known) return known;
    const adopted = this.takeOver(ticket, principal).finally(() => this.adopting.delete(key));
    this.adopting.set(key, adopted);
    return adopted;
  }

  private async takeOver({ id, round }: Ticket, principal: string): Promise<Space | undefined> {
    const record = await this.portable?.records.take(recordOf(id, round), principal);
    const parked = record && this.portable?.adopt(record.server, record.call, principal);
    if (!parked) return undefined;
    const space = this.admit(id, round, { principal, server: record.server, parked, bytes: 0 });
    space.moves = true;
    return space;
  }

  /** Counts a call whose caller answers through a task against the same limits, until the call is over. */
  count(principal: string, server: string, parked: ParkedCall, bytes: number): void {
    const { id } = this.park(principal, server, parked, bytes);
    clearTimeout(this.spaces.get(id)?.timer);
    void parked.over.then(() => this.drop(id));
  }

  private fullFor(principal: string, server: string, bytes: number): string | undefined {
    const { inAll, perCaller, perServer, bytes: most } = this.limits;
    let ofCaller = 0;
    let ofServer = 0;
    let held = bytes;
    let heldForCaller = bytes;
    for (const space of this.spaces.values()) {
      held += space.bytes;
      if (space.server === server) ofServer++;
      if (space.principal !== principal) continue;
      ofCaller++;
      heldForCaller += space.bytes;
    }
    if (this.spaces.size >= inAll) return 'Too many calls wait for answers; try again later';
    if (ofCaller >= perCaller) return 'Too many of your calls wait for answers; answer or cancel some first';
    if (ofServer >= perServer) return `Too many calls to server "${server}" wait for answers; try again later`;
    // A single call may have a request of any size that the gateway accepts.
    if (ofCaller > 0 && heldForCaller > most.perCaller)
      return 'Your calls that wait for answers hold too much data; answer or cancel some first';
    return this.spaces.size > 0 && held > most.inAll
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

  private drop(id: string): Space | undefined {
    const space = this.spaces.get(id);
    if (!space) return undefined;
    this.spaces.delete(id);
    clearTimeout(space.timer);
    if (space.kept) this.portable?.records.take(recordOf(id, space.round), space.principal).catch(() => {});
    return space;
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
    const space = this.spaces.get(ticket.id) ?? (await this.adopt(ticket, principal));
    if (space?.principal !== principal) throw gone();
    const { resuming } = space;
    if (resuming?.round === ticket.round) {
      if (resuming.answers !== text) throw answeredDifferently();
      resuming.joined.add(call);
      return await this.settled(ticket.id, space, await resuming.outcome.finally(() => resuming.joined.leave(call)));
    }
    if (space.round !== ticket.round) throw gone();
    clearTimeout(space.timer);
    const joined = new Joined();
    joined.add(call);
    const outcome = this.goOn(ticket, space, joined, answers);
    space.resuming = { round: ticket.round, answers: text, outcome, joined };
    space.round++;
    return this.settled(ticket.id, space, await outcome.finally(() => joined.leave(call)));
  }

  private async goOn(ticket: Ticket, space: Space, joined: Joined, answers: InputResponses): Promise<Outcome> {
    if (space.kept) await this.claim(ticket, space);
    return space.parked.resume({ notify: joined.notify, cancellation: joined.cancellation }, answers);
  }

  /**
   * Another replica may have considered this one dead and continued the call. In that case the call is dropped here.
   */
  private async claim({ id, round }: Ticket, space: Space): Promise<void> {
    let taken: unknown;
    try {
      taken = await this.portable?.records.take(recordOf(id, round), space.principal);
    } catch (error) {
      space.resuming = undefined;
      space.round = round;
      space.timer = this.expiry(id);
      throw error;
    }
    space.kept = false;
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
      throw new ProtocolError('upstream_error', 'The call is lost because the replica that held it is gone', {
        outcome: 'unknown',
      });
    }
  }

  private async settled(
    id: string,
    space: Space,
    outcome: Outcome,
  ): Promise<{ readonly outcome: Outcome; readonly next: Ticket | undefined }> {
    if (outcome.kind !== 'input_required') {
      this.drop(id);
      const { resuming, principal } = space;
      if (resuming) this.answered.keep(id, principal, resuming.round, resuming.answers, outcome);
      return { outcome, next: undefined };
    }
    if (this.spaces.get(id) === space) {
      clearTimeout(space.timer);
      space.timer = this.expiry(id);
    }
    const next: Ticket = { id, round: space.round, owner: this.cluster.self };
    if (space.moves) await this.keep(next);
    return { outcome, next };
  }

  /** Abandons a call whose caller will not answer. A call that waits in another process expires there. */
  abandon(ticket: Ticket, reason: string | undefined): void {
    if (this.spaces.get(ticket.id)?.round !== ticket.round) return;
    this.drop(ticket.id)?.parked.abandon(reason ?? 'The call was cancelled');
  }

  /** Abandons every parked call at the end of the process. Stored calls remain for another process. */
  close(): void {
    for (const [id, space] of [...this.spaces]) {
      clearTimeout(space.timer);
      if (space.kept) this.spaces.delete(id);
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
