import type { Principal } from '../../core/caller.js';
import {
  type Authenticated,
  type AuthenticationRequest,
  type Authenticator,
  Challenge,
} from '../../identity/authenticator.js';

/** Milliseconds between two examinations, and the age from which an exchange is examined. */
const EVERY = 500;

/** A request whose answer is not complete, over HTTP or gRPC. */
export interface OpenExchange {
  readonly request: AuthenticationRequest;
  readonly principal: Principal;
  /** Whether the request only waits for messages, so that nothing is lost if it is sent again. */
  readonly listens: boolean;
  /** Ends the exchange. */
  end(): void;
}

/**
 * Ends exchanges whose credential is no longer valid. A stream can stay open for hours after its request was
 * authenticated: without this, a revoked key would still receive messages (S17).
 */
export class OpenExchanges {
  private readonly open = new Map<OpenExchange, number>();
  private readonly timer: NodeJS.Timeout;

  /** `authenticator` examines a request again; its failures are no attempts to guess a credential. */
  constructor(private readonly authenticator: Authenticator) {
    this.timer = setInterval(() => this.examine(), EVERY).unref();
  }

  /** Call `remove` when the exchange has ended. */
  add(exchange: OpenExchange): void {
    this.open.set(exchange, performance.now());
  }

  remove(exchange: OpenExchange): void {
    this.open.delete(exchange);
  }

  close(): void {
    clearInterval(this.timer);
  }

  private examine(): void {
    const due = performance.now() - EVERY;
    // The oldest exchanges come first.
    for (const [exchange, since] of this.open) {
      if (since > due) break;
      let given: Authenticated | Promise<Authenticated>;
      try {
        given = this.authenticator.authenticate(exchange.request);
      } catch {
        continue;
      }
      if (given instanceof Promise)
        given.then((known) => this.decide(exchange, known)).catch(() => {}); // Not known now: asked again.
      else this.decide(exchange, given);
    }
  }

  private decide(exchange: OpenExchange, given: Authenticated): void {
    if (!endsWith(exchange, given) || !this.open.delete(exchange)) return;
    exchange.end();
  }
}

/** A call that an access token began may finish after the token has expired; streams that only listen may not. */
function endsWith({ principal, listens }: OpenExchange, given: Authenticated): boolean {
  if (!(given instanceof Challenge)) return given.key !== principal.key;
  return listens || principal.credential?.kind === 'key' || given.bearer.revoked === true;
}
