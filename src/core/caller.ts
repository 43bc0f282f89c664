import type { JsonObject } from '../protocol/jsonrpc/raw.js';
import type { ClientCapabilities, Implementation, InputRequest, Notification } from '../protocol/mcp/model.js';
import { NEWEST, type Revision } from '../protocol/mcp/revisions/index.js';

/** The identity that an authenticator established for the caller of one request. */
export interface Principal {
  /** The owner of all state kept for the caller: sessions, tasks, sealed values, rows. Log lines contain it. */
  readonly key: string;
  /** The authority that issued the subject; `OWN_ISSUER` for callers that the configuration names. */
  readonly issuer: string;
  readonly subject: string;
  readonly scopes: readonly string[];
  readonly roles: readonly string[];
  /** The groups that the issuer names; mappings and policies read them. */
  readonly groups: readonly string[];
  /** Callers of different tenants never share state, even with the same subject. */
  readonly tenant: string | undefined;
  /** Limits the servers, agents and tools that the caller sees and uses; undefined for no limit. */
  readonly restriction?: Restriction | undefined;
  /** The credential of the request. Revoking it ends the open streams of its caller. */
  readonly credential?: CredentialRef | undefined;
  /** The verified claims of the caller's token, for policies. */
  readonly claims?: Readonly<Record<string, unknown>> | undefined;
}

/** The part of the gateway that a credential gives access to. An empty list limits nothing. */
export interface Restriction {
  /** Patterns of the names of servers and agents; `*` matches any characters. */
  readonly servers: readonly string[];
  /** Patterns `server__tool` with the server's own name of the tool, such as `weather__*`. */
  readonly tools: readonly string[];
}

/** Names a credential without revealing it; `id` is empty for an access token without an id. */
export interface CredentialRef {
  readonly kind: 'token' | 'key' | 'jwt' | 'certificate';
  readonly id: string;
}

/** The issuer of callers that the gateway itself knows: from its configuration, or because they started its process. */
export const OWN_ISSUER = 'parley';
export const ADMIN_ROLE = 'admin';

type Identity = Pick<Principal, 'subject'> & Partial<Omit<Principal, 'key' | 'subject'>>;

const NONE: readonly string[] = [];

/**
 * Makes a principal. The key is the subject if the gateway is the issuer, otherwise issuer and subject, because two
 * issuers may use the same subject for different callers. A tenant comes first and begins with `~`. Names in the
 * configuration contain neither `#` nor `~`, so each key belongs to one caller of one tenant.
 */
export function principalOf(identity: Identity): Principal {
  const { issuer = OWN_ISSUER, subject, scopes = NONE, roles = NONE, groups = NONE, tenant } = identity;
  const { restriction, credential, claims } = identity;
  const name = issuer === OWN_ISSUER ? subject : `${escaped(issuer)}#${subject}`;
  const key = tenant === undefined ? name : `~${escaped(tenant)}#${name}`;
  return { key, issuer, subject, scopes, roles, groups, tenant, restriction, credential, claims };
}

/** Escapes `#`, and `%` so that the escape is unambiguous. */
const escaped = (part: string): string => part.replaceAll('%', '%25').replaceAll('#', '%23');

export const isAdmin = ({ roles }: Principal): boolean => roles.includes(ADMIN_ROLE);

/** The owner of stored state, for work that the gateway resumes by itself. It has no roles. */
export const ownerOf = (key: string): Principal => principalOf({ subject: key });

/** The caller of a public route, which needs no identity. */
export const ANONYMOUS: Principal = principalOf({ subject: '' });

/** Without authentication every caller on this machine is an operator. */
export const LOCAL: Principal = principalOf({ subject: 'local', roles: [ADMIN_ROLE] });

export interface Caller {
  readonly principal: Principal;
  /** The caller's protocol revision; answers use it. */
  readonly revision: Revision;
  /** The capabilities that the client declared for this request, in the newest revision's vocabulary. */
  readonly capabilities: ClientCapabilities;
  readonly clientInfo: Implementation | undefined;
  /** The caller's session, if it has one: a stateful upstream may dedicate a connection to it. */
  readonly session: string | undefined;
  /** The URL at which the caller reached the gateway, if a trusted proxy reports it. */
  readonly gatewayUrl?: string | undefined;
  /** Asks the client a question outside of any call; present if the session has a stream for it. */
  readonly ask?: (question: InputRequest) => Promise<JsonObject>;
  /** Sends the client a notification outside of any call; present if the session has a stream for it. */
  readonly tell?: (notification: Notification) => void;
}

/** The gateway itself, for requests that it makes for no caller. */
export const GATEWAY: Caller = {
  principal: principalOf({ subject: 'parley' }),
  revision: NEWEST,
  capabilities: {},
  clientInfo: undefined,
  session: undefined,
};

/** Reports that no client waits for a request any more. Lighter than an AbortSignal, because every call has one. */
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

  /**
   * Calls `listener` on cancellation, at once if the cancellation has happened. Returns the function that removes the
   * listener.
   */
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

/** A caller that reads about the gateway itself outside of MCP and A2A: from a page, or as an operator. */
export const callerOf = (principal: Principal): Caller => ({
  principal,
  revision: NEWEST,
  capabilities: {},
  clientInfo: undefined,
  session: undefined,
});
