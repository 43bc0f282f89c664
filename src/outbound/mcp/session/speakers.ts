import type { Caller } from '../../../core/caller.js';
import type { Credential } from '../../../identity/credentials.js';
import { type CredentialContext, type CredentialHolder, credentialOf } from '../context.js';

/** So many callers of one session are remembered. */
const MOST = 8;

/**
 * The callers that share one session because their credentials have the same key. A request carries the credential of
 * its own caller. All other messages carry the credential of any of them that still has it.
 */
export class Speakers {
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
