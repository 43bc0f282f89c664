import type { Principal } from '../../core/caller.js';
import {
  type Authenticated,
  type AuthenticationRequest,
  type Authenticator,
  Challenge,
} from '../../identity/authenticator.js';

/** Milliseconds between two examinations. */
const EVERY = 500;

/** A request whose answer is not complete, over HTTP or gRPC. */
export interface WatchedExchange {
  readonly request: AuthenticationRequest;
  readonly principal: Principal;
  /** Whether the request only waits for messages, so that nothing is lost if it is sent again. */
  readonly listens: boolean;
  /** Ends the exchange. */
  end(): void;
}

/**
 * The place of an exchange in the list of open exchanges. The list is linked through its members: a `Map` with a new
 * object for each request, removed a millisecond later, cost a tenth of the CPU of a small call.
 */
export class OpenExchange {
  previous: OpenExchange | undefined;
  next: OpenExchange | undefined;
  /** The number of examinations before the exchange began. */
  round = 0;
  open = false;

  constructor(readonly watched: WatchedExchange) {}
}

/**
 * Ends exchanges whose credential is no longer valid. A stream can stay open for hours after its request was
 * authenticated: without these examinations, a revoked key would still receive messages (S17).
 */
export class OpenExchanges {
  private oldest: OpenExchange | undefined;
  private newest: OpenExchange | undefined;
  private rounds = 0;
  private readonly timer: NodeJS.Timeout;

  /** `authenticator` examines a request again; its failures are not attempts to guess a credential. */
  constructor(private readonly authenticator: Authenticator) {
    this.timer = setInterval(() => this.examine(), EVERY).unref();
  }

  /** Call `remove` when the exchange has ended. */
  add(watched: WatchedExchange): OpenExchange {
    const exchange = new OpenExchange(watched);
    exchange.open = true;
    exchange.round = this.rounds;
    exchange.previous = this.newest;
    if (this.newest) this.newest.next = exchange;
    else this.oldest = exchange;
    this.newest = exchange;
    return exchange;
  }

  /** Returns whether the exchange was open. */
  remove(exchange: OpenExchange): boolean {
    if (!exchange.open) return false;
    const { previous, next } = exchange;
    if (previous) previous.next = next;
    else this.oldest = next;
    if (next) next.previous = previous;
    else this.newest = previous;
    // A removed exchange must not keep its neighbours in memory.
    exchange.previous = undefined;
    exchange.next = undefined;
    exchange.open = false;
    return true;
  }

  close(): void {
    clearInterval(this.timer);
  }

  private examine(): void {
    const round = this.rounds++;
    // The oldest exchanges come first. Exchanges that began since the last round are younger than the interval, and are
    // not examined yet.
    for (let next = this.oldest; next !== undefined && next.round < round; ) {
      const exchange = next;
      // Read the next exchange before the decision, because the decision may remove this exchange from the list.
      next = exchange.next;
      let given: Authenticated | Promise<Authenticated>;
      try {
        given = this.authenticator.authenticate(exchange.watched.request);
      } catch {
        continue;
      }
      if (given instanceof Promise)
        // If the credential cannot be examined now, the next round examines it again.
        given.then((known) => this.decide(exchange, known)).catch(() => {});
      else this.decide(exchange, given);
    }
  }

  private decide(exchange: OpenExchange, given: Authenticated): void {
    if (endsWith(exchange.watched, given) && this.remove(exchange)) exchange.watched.end();
  }
}

/** A call that an access token began may finish after the token has expired; streams that only listen may not. */
function endsWith({ principal, listens }: WatchedExchange, given: Authenticated): boolean {
  if (!(given instanceof Challenge)) return given.key !== principal.key;
  return listens || principal.credential?.kind === 'key' || given.bearer.revoked === true;
}
