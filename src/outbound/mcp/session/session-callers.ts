import type { Caller } from '../../../core/caller.js';
import type { Credential } from '../../../identity/credentials.js';
import { type CredentialContext, type CredentialHolder, credentialOf, withoutCredential } from '../context.js';
import type { ChannelEvents, Ticket } from './channel.js';
import { SessionExpired } from './session-errors.js';

/** So many callers of one session are remembered. */
const MOST = 8;

/** A message that a channel wants to send. */
export interface Outgoing {
  /** The request that the message is, where it is one. */
  readonly ticket: Ticket | undefined;
  /** Called where the message is not going to be sent. */
  readonly taken: (() => void) | undefined;
  /** The caller whose credential the message carries; without one, that of any caller of the session. */
  readonly caller: Caller | undefined;
  readonly events: Pick<ChannelEvents, 'lost' | 'expired'>;
  post(credential: Credential): void;
  closed(): boolean;
}

/**
 * The callers that share one session because their credentials have the same key. A request carries the credential of
 * its own caller. All other messages carry the credential of any of them that still has it.
 */
export class SessionCallers {
  readonly key: string;
  /** The latest first, one for each principal. */
  private callers: readonly Caller[];

  constructor(
    private readonly context: CredentialContext,
    { caller, key }: CredentialHolder,
  ) {
    this.key = key;
    this.callers = [caller];
  }

  /** A caller whose credential has the key uses the session from here on. */
  admit(caller: Caller): void {
    if (this.callers[0] === caller) return;
    const others = this.callers.filter(({ principal }) => principal.key !== caller.principal.key);
    this.callers = [caller, ...others.slice(0, MOST - 1)];
  }

  /** The credential of the next message; undefined where the caller, or every one of them, has another one by now. */
  credential(caller?: Caller): Credential | undefined | Promise<Credential | undefined> {
    const [latest] = this.callers;
    const asked = caller ?? latest;
    if (!asked) return undefined;
    const given = credentialOf(this.context, asked);
    if (!(given instanceof Promise)) {
      if (given.key === this.key) return given;
      return caller ? undefined : this.search(given);
    }
    return caller ? given.then((obtained) => (obtained.key === this.key ? obtained : undefined)) : this.search(given);
  }

  /** Posts a message with its credential: at once, where that is at hand. Tells the session where there is none. */
  send(message: Outgoing): void {
    const { caller, ticket, taken, events } = message;
    const given = this.credential(caller);
    if (!(given instanceof Promise)) {
      this.sendWith(given, message);
      return;
    }
    given.then(
      (credential) => {
        if (message.closed() || ticket?.done) taken?.();
        else this.sendWith(credential, message);
      },
      (error: unknown) => {
        taken?.();
        if (ticket) events.lost(ticket, withoutCredential(this.context, error));
      },
    );
  }

  private sendWith(credential: Credential | undefined, { ticket, taken, caller, events, post }: Outgoing): void {
    if (credential) {
      post(credential);
      return;
    }
    taken?.();
    // The caller of a request has another credential by now; the session goes on for the others.
    if (ticket && caller) events.lost(ticket, new SessionExpired(this.context.name));
    else events.expired(ticket);
  }

  /** Asks for one caller after the other; `first` is the credential of the latest. */
  private async search(first: Credential | Promise<Credential>): Promise<Credential | undefined> {
    const problems: unknown[] = [];
    for (const [index, caller] of this.callers.entries()) {
      try {
        const credential = await (index === 0 ? first : credentialOf(this.context, caller));
        if (credential.key === this.key) return credential;
        this.callers = this.callers.filter((other) => other !== caller);
      } catch (error) {
        problems.push(error);
      }
    }
    if (problems.length > 0) throw problems[0];
    return undefined;
  }
}
