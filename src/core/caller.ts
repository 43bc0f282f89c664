import type { JsonObject } from '../protocol/jsonrpc/raw.js';
import type { ClientCapabilities, Implementation, InputRequest, Notification } from '../protocol/mcp/model.js';
import { NEWEST, type Revision } from '../protocol/mcp/revisions/index.js';

/** The identity of a caller, as an authenticator established it for one request. */
export interface Principal {
  /** The owner of everything that is kept for the caller: sessions, tasks, sealed values, rows. Log lines show it. */
  readonly key: string;
  /** The authority that vouches for the subject; `OWN_ISSUER` for callers that the configuration names. */
  readonly issuer: string;
  readonly subject: string;
  readonly scopes: readonly string[];
  readonly roles: readonly string[];
  readonly tenant: string | undefined;
}

/** The issuer of callers that the gateway itself knows: by its configuration, or because they started it. */
const OWN_ISSUER = 'parley';
export const ADMIN_ROLE = 'admin';

type Identity = Pick<Principal, 'subject'> & Partial<Pick<Principal, 'issuer' | 'scopes' | 'roles' | 'tenant'>>;

const NONE: readonly string[] = [];

/**
 * Makes a principal. Its key is the subject where the gateway itself is the issuer, and otherwise both: two issuers may
 * use the same subject for different callers. Names in the configuration have no `#`, so that no key means two callers.
 */
export function principalOf(identity: Identity): Principal {
  const { issuer = OWN_ISSUER, subject, scopes = NONE, roles = NONE, tenant } = identity;
  const key = issuer === OWN_ISSUER ? subject : `${issuer.replaceAll('#', '%23')}#${subject}`;
  return { key, issuer, subject, scopes, roles, tenant };
}

export const isAdmin = ({ roles }: Principal): boolean => roles.includes(ADMIN_ROLE);

/** The owner of something that was kept, where the gateway goes on with it by itself: no role is assumed. */
export const ownerOf = (key: string): Principal => principalOf({ subject: key });

/** A caller that public routes serve without knowing it. */
export const ANONYMOUS: Principal = principalOf({ subject: '' });

/** Without authentication every caller on this machine is its operator. */
export const LOCAL: Principal = principalOf({ subject: 'local', roles: [ADMIN_ROLE] });

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
  principal: principalOf({ subject: 'parley' }),
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

/** A caller that asks about the gateway itself, outside of any protocol: by a page, or as an operator. */
export const callerOf = (principal: Principal): Caller => ({
  principal,
  revision: NEWEST,
  capabilities: {},
  clientInfo: undefined,
  session: undefined,
});
