import { randomUUID } from 'node:crypto';
import { ProtocolError } from '../../protocol/errors.js';
import type { JsonObject, JsonValue } from '../../protocol/jsonrpc/raw.js';
import type { InputResponses, Notification } from '../../protocol/mcp/model.js';
import { Cancellation } from '../caller.js';
import { ALONE, type Cluster, ReplicaGone } from '../cluster.js';
import { type Call, failed, type Outcome, type ParkedCall } from '../gateway.js';
import { readOutcome, writeOutcome } from './outcome-text.js';

export interface ParkingLimits {
  /** How long a call waits for an answer. */
  readonly ttl: number;
  readonly inAll: number;
  readonly perCaller: number;
  readonly perServer: number;
}

/** The claim on a parked call that travels in a sealed request state. */
export interface Ticket {
  readonly id: string;
  /** Each round of questions has its own ticket, good for one answer. */
  readonly round: number;
  /** The replica that holds the call. */
  readonly owner: string;
}

interface Space {
  readonly principal: string;
  readonly server: string;
  readonly parked: ParkedCall;
  round: number;
  timer: NodeJS.Timeout;
  /** The answer that is being worked on: the same answer again joins it. */
  resuming:
    | { readonly round: number; readonly answers: string; readonly outcome: Promise<Outcome>; readonly joined: Joined }
    | undefined;
}

/** Several requests that wait for one resumed call: it is cancelled when none of them is left. */
class Joined {
  readonly cancellation = new Cancellation();
  private waiting = 0;
  private readonly sinks = new Set<Pick<Call, 'notify'>>();

  add(call: Pick<Call, 'notify' | 'cancellation'>): void {
    this.waiting++;
    this.sinks.add(call);
    call.cancellation.onCancel((reason) => {
      this.sinks.delete(call);
      if (--this.waiting === 0) this.cancellation.cancel(reason);
    });
  }

  notify: Call['notify'] = (notification) => {
    for (const sink of this.sinks) sink.notify(notification);
  };
}

/** Calls that wait for their caller's answer, each resumed at most once a round and never run again. */
export class Parking {
  private readonly spaces = new Map<string, Space>();

  constructor(
    private readonly limits: ParkingLimits,
    private readonly cluster: Cluster = ALONE,
  ) {
    cluster.handle(RESUME, async (payload, asked) => {
      const { ticket, principal, answers } = payload as unknown as {
        ticket: Ticket;
        principal: string;
        answers: InputResponses;
      };
      const call = {
        cancellation: asked.cancellation,
        notify: (notification: Notification) => asked.emit(notification as unknown as JsonValue),
      };
      try {
        const { outcome, next } = await this.resume(ticket, principal, call, answers);
        return { outcome: writeOutcome(outcome), ...(next && { next: next as unknown as JsonValue }) };
      } catch (error) {
        if (!(error instanceof ProtocolError)) throw error;
        return { outcome: writeOutcome(failed(error)) };
      }
    });
  }

  get size(): number {
    return this.spaces.size;
  }

  /** Takes a call in. Throws `overloaded` where there is no room, and gives the call up. */
  park(principal: string, server: string, parked: ParkedCall): Ticket {
    const full = this.fullFor(principal, server);
    if (full) {
      parked.abandon(full);
      throw new ProtocolError('overloaded', full, { outcome: 'unknown', data: { server } });
    }
    const id = randomUUID();
    const space: Space = { principal, server, parked, round: 1, timer: this.expiry(id), resuming: undefined };
    this.spaces.set(id, space);
    // A call may end while it is parked: its server gave up, or is gone. The outcome waits for the next answer.
    return { id, round: 1, owner: this.cluster.self };
  }

  private fullFor(principal: string, server: string): string | undefined {
    const { inAll, perCaller, perServer } = this.limits;
    let ofCaller = 0;
    let ofServer = 0;
    for (const space of this.spaces.values()) {
      if (space.principal === principal) ofCaller++;
      if (space.server === server) ofServer++;
    }
    if (this.spaces.size >= inAll) return 'Too many calls wait for answers; try again later';
    if (ofCaller >= perCaller) return 'Too many of your calls wait for answers; answer or cancel some first';
    return ofServer >= perServer ? `Too many calls to server "${server}" wait for answers; try again later` : undefined;
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
    return space;
  }

  /** Resolves with what the call says next, and the ticket for its next round where it asks again. */
  async resume(
    ticket: Ticket,
    principal: string,
    call: Pick<Call, 'notify' | 'cancellation'>,
    answers: InputResponses,
  ): Promise<{ readonly outcome: Outcome; readonly next: Ticket | undefined }> {
    if (ticket.owner !== this.cluster.self) return this.resumeElsewhere(ticket, principal, call, answers);
    const space = this.spaces.get(ticket.id);
    if (space?.principal !== principal) throw gone();
    const text = JSON.stringify(answers);
    const { resuming } = space;
    if (resuming?.round === ticket.round) {
      if (resuming.answers !== text)
        throw new ProtocolError('invalid_state', 'This question was answered already, and differently');
      resuming.joined.add(call);
      return this.settled(ticket.id, space, await resuming.outcome);
    }
    if (space.round !== ticket.round) throw gone();
    clearTimeout(space.timer);
    const joined = new Joined();
    joined.add(call);
    const outcome = space.parked.resume({ notify: joined.notify, cancellation: joined.cancellation }, answers);
    space.resuming = { round: ticket.round, answers: text, outcome, joined };
    space.round++;
    return this.settled(ticket.id, space, await outcome);
  }

  /** The call waits in another process, which alone can go on with it. */
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
      // BR-16: it may have run; it is not run again.
      throw new ProtocolError('upstream_error', 'The replica that held this call is gone, and the call with it', {
        outcome: 'unknown',
      });
    }
  }

  private settled(
    id: string,
    space: Space,
    outcome: Outcome,
  ): { readonly outcome: Outcome; readonly next: Ticket | undefined } {
    if (outcome.kind !== 'input_required') {
      this.drop(id);
      return { outcome, next: undefined };
    }
    if (this.spaces.get(id) === space) {
      clearTimeout(space.timer);
      space.timer = this.expiry(id);
    }
    return { outcome, next: { id, round: space.round, owner: this.cluster.self } };
  }

  /** Gives every parked call up, at the end of the process. */
  close(): void {
    for (const id of [...this.spaces.keys()]) this.drop(id)?.parked.abandon('The gateway is stopping');
  }
}

const RESUME = 'parked:resume';

const gone = (): ProtocolError =>
  new ProtocolError(
    'invalid_state',
    'This request state is over: it expired, was used already, or the call ended. Start the call again without it',
  );
