import type { Caller } from '../../../core/caller.js';
import type { Credential } from '../../../identity/upstream-credentials.js';
import { type CredentialContext, type CredentialHolder, credentialOf } from '../server-credential.js';
import { withoutCredential } from '../server-errors.js';
import type { ChannelEvents, Ticket } from './channel.js';
import { SessionExpired } from './session-errors.js';

/** Maximum number of remembered callers per session. */
const MAX_CALLERS = 8;

/** A message that a channel wants to send. */
export interface Outgoing {
  /** The request, if the message is a request. */
  readonly ticket: Ticket | undefined;
  /** Called if the message cannot be sent. */
  readonly taken: (() => void) | undefined;
  /**
   * The caller whose credential the message carries. If absent, the credential of any caller of the session is used.
   */
  readonly caller: Caller | undefined;
  readonly events: Pick<ChannelEvents, 'lost' | 'expired'>;
  post(credential: Credential): void;
  closed(): boolean;
}

/**
 * The callers that share one session because their credentials have the same key. A request carries the credential of
 * its own caller. Every other message carries the credential of any caller that still has a credential with that key.
 */
export class SessionCallers {
  readonly key: string;
  /** Latest caller first, one per principal. */
  private callers: readonly Caller[];

  constructor(
    private readonly context: CredentialContext,
    { caller, key }: CredentialHolder,
  ) {
    this.key = key;
    this.callers = [caller];
  }

  /** Adds a caller whose credential has the key of the session. */
  admit(caller: Caller): void {
    if (this.callers[0] === caller) return;
    const others = this.callers.filter(({ principal }) => principal.key !== caller.principal.key);
    this.callers = [caller, ...others.slice(0, MAX_CALLERS - 1)];
  }

  /**
   * The credential of the next message. Undefined if the caller of the message has changed its credential; for a
   * message without a caller, if every caller has.
   */
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

  /** Sends a message with its credential. Sends it at once if the credential is known. Reports a missing credential. */
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
    // The caller of this request has changed its credential. The session stays open for the other callers.
    if (ticket && caller) events.lost(ticket, new SessionExpired(this.context.name));
    else events.expired(ticket);
  }

  /** Asks for the credential of one caller after the other. `first` is the credential of the latest caller. */
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
