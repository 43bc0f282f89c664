import type { Caller } from '../../../core/caller.js';
import { failed, type Outcome } from '../../../core/gateway.js';
import type { UpstreamCall, WatchEvent } from '../../../core/upstream.js';
import {
  type ClientCapabilities,
  INTERACTIVE_METHODS,
  isListMethod,
  type ServerDescription,
  type SubscriptionFilter,
} from '../../../protocol/mcp/model.js';
import { capabilityFingerprint, sharedCapabilities } from '../../../protocol/mcp/translate/capabilities.js';
import { isInteractive } from '../../../protocol/mcp/translate/questions.js';
import type { OpenWatch, Peer } from '../peer.js';
import type { UpstreamContext } from '../upstream-context.js';
import { LegacySession } from './legacy-session.js';
import type { SessionWatch } from './session-watch.js';
import { asProtocolError } from './stdio-error-messages.js';
import { type Lease, leaseFor, type SessionSupervisor } from './stdio-lease.js';

/** The sessions with one legacy server over stdio. */
export class StdioSessions implements Peer {
  constructor(
    private readonly context: UpstreamContext,
    private readonly supervisor: SessionSupervisor,
    private readonly watching: SessionWatch,
    /** How long a call may wait for a process. */
    private readonly patience: number,
  ) {}

  async request(caller: Caller, call: UpstreamCall): Promise<Outcome> {
    const interactive = isInteractive(caller.capabilities) && INTERACTIVE_METHODS.includes(call.method);
    // A list comes from the same session as the calls: servers choose their list items by the client's capabilities.
    const key = interactive || isListMethod(call.method) ? sessionKey(caller.capabilities) : CANONICAL;
    let lease: Lease;
    try {
      lease = await leaseFor(this.context, this.supervisor, { key, exclusive: interactive }, call, this.patience);
    } catch (error) {
      return failed(asProtocolError(this.context, error));
    }
    const session = legacy(lease);
    const outcome = await session.request(caller, call);
    const giveBack = async (): Promise<void> => {
      // Stops a process in which a cancelled call still runs: its messages look like those of the next call (BR-17).
      if (interactive && !session.ended && !(await session.quiet())) lease.discard();
      else lease.release();
    };
    if (outcome.kind === 'input_required' && outcome.parked) void outcome.parked.over.then(giveBack);
    else void giveBack();
    return outcome;
  }

  async describe(): Promise<ServerDescription> {
    const lease = await this.acquire();
    const { description } = legacy(lease);
    lease.release();
    return description;
  }

  private acquire(): Promise<Lease> {
    return this.supervisor.acquire({ key: CANONICAL }).catch((error: unknown) => {
      throw asProtocolError(this.context, error);
    });
  }

  /** Keeps the lease, and so the process, until the subscription ends. */
  async listen(
    filter: SubscriptionFilter,
    deliver: (event: WatchEvent) => void,
    lost: (why: string) => void,
  ): Promise<OpenWatch> {
    const lease = await this.acquire();
    const watch = await this.watching.listen(legacy(lease), filter, deliver, lost);
    return {
      honoured: watch.honoured,
      close: () => {
        watch.close();
        lease.release();
      },
    };
  }

  async close(): Promise<void> {}
}

export const CANONICAL = 'legacy|{}';

/** The supervisor key of the processes that know these client capabilities. */
export const sessionKey = (capabilities: ClientCapabilities): string =>
  `legacy|${capabilityFingerprint(sharedCapabilities(capabilities))}`;

function legacy(lease: Lease): LegacySession {
  if (lease.session instanceof LegacySession) return lease.session;
  throw new TypeError('expected a legacy session, got a modern one');
}
