import type { JsonObject } from '../protocol/jsonrpc/raw.js';
import type { ClientCapabilities, Implementation, InputRequest, Notification } from '../protocol/mcp/model.js';
import { NEWEST, type Revision } from '../protocol/mcp/revisions/index.js';

/** Who asks. Everything sealed, parked or remembered for a caller belongs to its principal. */
export interface Principal {
  readonly name: string;
  readonly admin: boolean;
}

export interface Caller {
  readonly principal: Principal;
  /** The revision the caller speaks; answers are written in it. */
  readonly revision: Revision;
  /** What the caller can do for this request, in the modern vocabulary. */
  readonly capabilities: ClientCapabilities;
  readonly clientInfo: Implementation | undefined;
  /** The caller's own session, if it keeps one: a stateful upstream may be dedicated to it. */
  readonly session: string | undefined;
  /** The URL under which the caller reached the gateway, where a trusted proxy tells it. */
  readonly gatewayUrl?: string | undefined;
  /** Puts a question to the client outside of any call, where its session has a stream for that. */
  readonly ask?: (question: InputRequest) => Promise<JsonObject>;
  /** Tells the client something outside of any call, likewise. */
  readonly tell?: (notification: Notification) => void;
}

/** The gateway itself, where it asks on nobody's behalf. */
export const GATEWAY: Caller = {
  principal: { name: 'parley', admin: false },
  revision: NEWEST,
  capabilities: {},
  clientInfo: undefined,
  session: undefined,
};

/** Tells the work for one request that nobody waits for it any more. Lighter than an AbortSignal: one is made per call. */
export class Cancellation {
  private listeners: ((reason: string | undefined) => void)[] | undefined;
  private why: string | undefined;
  private done = false;

  get cancelled(): boolean {
    return this.done;
  }

  get reason(): string | undefined {
    return this.why;
  }

  cancel(reason?: string): void {
    if (this.done) return;
    this.done = true;
    this.why = reason;
    const { listeners } = this;
    this.listeners = undefined;
    if (listeners) for (const listener of listeners) listener(reason);
  }

  /** Calls `listener` on cancellation, at once if that has happened; returns how to stop listening. */
  onCancel(listener: (reason: string | undefined) => void): () => void {
    if (this.done) {
      listener(this.why);
      return () => {};
    }
    this.listeners ??= [];
    this.listeners.push(listener);
    return () => {
      const index = this.listeners?.indexOf(listener) ?? -1;
      if (index >= 0) this.listeners?.splice(index, 1);
    };
  }
}
