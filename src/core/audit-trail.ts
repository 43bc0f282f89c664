/**
 * The audit trail (S24): the kinds of its records, and the interface through which every part of the gateway writes
 * them. A record never contains bodies, arguments, results, tokens or keys: it names things and counts them.
 */
import type { Principal } from './caller.js';
import type { SpanReference } from './trace-context.js';

/** The caller or operator that acted. */
export interface AuditActor {
  /** The key of the principal; for an operator at the command line `operator`, for the gateway itself `parley`. */
  readonly caller: string;
  readonly issuer?: string;
  readonly tenant?: string;
  readonly roles?: readonly string[];
  /** The network address of the client. */
  readonly address?: string;
  /** The account of the operating system that ran a command. */
  readonly account?: string;
}

/** A person at the machine of the gateway, who can read its configuration and its database. */
export const OPERATOR: AuditActor = { caller: 'operator' };
/** The gateway itself, without a caller. */
export const GATEWAY_ACTOR: AuditActor = { caller: 'parley' };

export function actorOf({ key, issuer, tenant, roles }: Principal, address?: string): AuditActor {
  return {
    caller: key,
    issuer,
    ...(tenant !== undefined && { tenant }),
    ...(roles.length > 0 && { roles }),
    ...(address !== undefined && { address }),
  };
}

/**
 * The decision about a call. `denied`: the call reached no server or agent. `asked`: a person has to approve the call
 * first. `approved`: a person approved the call.
 */
export type AuditDecision = 'allowed' | 'denied' | 'asked' | 'approved';

/** A decision with its reason. A step of the pipeline writes it to `CallContext.notes`. */
export interface Decision {
  readonly decision: AuditDecision;
  /** The rule or check that decided, such as the name of a policy rule. */
  readonly rule?: string;
  /** The person that approved or refused the call. */
  readonly by?: string;
}

/** Facts about one call that steps of the pipeline add. All copies of a call context share one object. */
export interface CallNotes {
  decision?: Decision;
  /** Set when the call leaves the last step of the pipeline. */
  forwarded?: true;
  /** The span of the gateway toward the client, if the gateway traces the call. */
  span?: SpanReference;
  /** How the routing agent chose the agent of the call, for the trace. */
  route?: {
    readonly why: string;
    readonly skill?: string | undefined;
    readonly unsure?: string | undefined;
    /** The next best agent, and its score relative to the best. */
    readonly next?: { readonly agent: string; readonly score: number } | undefined;
  };
  /** Spans toward upstreams that are exported only if the call fails. */
  unsampled?: object[];
}

/** One call of either protocol. */
export interface CallRecord extends AuditActor {
  readonly kind: 'call';
  /** `intent`: written before the call with `onFailure: closed`. Otherwise the record of a finished call. */
  readonly phase?: 'intent';
  readonly protocol: 'mcp' | 'a2a';
  readonly method: string;
  readonly server?: string;
  /** The kind of target, such as `tool`. */
  readonly target?: string;
  readonly name?: string;
  /** Keyed hash of the arguments: `<key id>:<hex>`. */
  readonly arguments?: string;
  readonly decision?: AuditDecision;
  readonly rule?: string;
  readonly by?: string;
  /**
   * `ok`, `error`, `cancelled`, `input_required` or `task`. A stream may also have `left`: its client stopped reading.
   */
  readonly outcome?: string;
  /** The reason of an error: a reason of the gateway, or the code of the server. */
  readonly reason?: string | number;
  readonly ms?: number;
  /** The W3C trace id. */
  readonly trace?: string;
  readonly requestId: string;
}

/** An attempt to authenticate. It is refused if the caller is unknown or may not use the route of the request. */
export interface AuthenticationRecord {
  readonly kind: 'authentication';
  readonly outcome: 'refused' | 'succeeded';
  /** The reason of a refusal, such as `unauthorized`, `forbidden` or `rate_limited`. */
  readonly reason?: string;
  /** The method of authentication, such as `bearer`, `password`, `certificate`; absent without credentials. */
  readonly method?: string;
  /** The caller, if known. Absent for an unknown token, for example. */
  readonly caller?: string;
  readonly address?: string;
  /** The path of the request, without its query. */
  readonly path?: string;
  readonly requestId?: string;
  /** Refusals of the same address that were not recorded one by one. */
  readonly suppressed?: number;
}

/** Changes that an operator or an administrator makes, and changes that follow from them. */
export type ChangeAction =
  | 'server.put'
  | 'server.remove'
  | 'agent.put'
  | 'agent.remove'
  /** A registration was dropped, and the entry of the configuration file is in effect again. */
  | 'server.restore'
  | 'agent.restore'
  | 'key.create'
  | 'key.revoke'
  | 'user.add'
  | 'user.password'
  | 'user.remove'
  /** The key that signs the tokens of the built-in authorization server. */
  | 'signing-key.rotate'
  /** A client registered itself at the built-in authorization server. */
  | 'client.register'
  | 'token.issue'
  | 'token.refresh'
  | 'token.revoke'
  | 'consent.grant'
  | 'consent.refuse'
  /** A user's sign-in at a server or agent. */
  | 'credential.connect'
  | 'credential.remove'
  | 'vault.rotate'
  | 'pin.approve'
  | 'pin.forget'
  | 'routing.forget'
  | 'policy.reload'
  /** An administrator began to record calls, with or without their contents. */
  | 'recording.start'
  | 'configuration.reload';

/** Facts of a record: names, counts and hashes. Long texts are cut. */
export type AuditDetails = Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>;

export interface ChangeRecord extends AuditActor {
  readonly kind: 'change';
  readonly phase?: 'intent';
  readonly action: ChangeAction;
  /** The changed thing: the name of a server, the id of a key, a user. Never a secret. */
  readonly subject?: string;
  readonly outcome?: 'ok' | 'error';
  readonly reason?: string;
  readonly requestId?: string;
  readonly details?: AuditDetails;
}

/** Observations of the gateway that no caller asked for. */
export type EventName =
  /** S21: the definition of an item differs from its pin, or a new item has a suspicious name. */
  | 'pin.changed'
  /** S21: the definition of a new item contains suspicious text. */
  | 'pin.flagged'
  /** S14: a refresh token or an authorization code was used twice. */
  | 'token.reused'
  /** A user's sign-in at a server or agent failed. */
  | 'credential.failed';

export interface EventRecord extends Partial<AuditActor> {
  readonly kind: 'event';
  readonly event: EventName;
  readonly subject?: string;
  readonly server?: string;
  readonly reason?: string;
  readonly details?: AuditDetails;
}

/** The facts of a change that are known before it happens. */
export type GivenChange = Omit<ChangeRecord, 'kind' | 'outcome' | 'phase' | 'reason'>;

/** The facts of a change that only its result shows. */
export type FoundChange = Partial<Pick<ChangeRecord, 'caller'>> &
  Pick<ChangeRecord, 'subject' | 'outcome' | 'reason' | 'details'>;

/** The numbers of records that are not in the database. */
export interface AuditStatus {
  /** Records that could not be stored since the process started. */
  readonly lost: number;
  /** Records that wait for the database. */
  readonly waiting: number;
}

export type AuditRecord = CallRecord | AuthenticationRecord | ChangeRecord | EventRecord;

/**
 * Takes records. With `audit.onFailure: open` no method waits for the database: records wait in memory within a bound,
 * and a lost record is logged and counted. With `closed`, a call or change is refused before it happens if the trail
 * cannot store its record.
 */
export interface AuditTrail {
  /** Whether a record must be stored before its call or change happens. */
  readonly closed: boolean;
  /** Adds a record. Never throws and never waits. */
  record(record: AuditRecord): void;
  /**
   * Stores a record that must exist before its action. Returns undefined if the action need not wait. Otherwise returns
   * a promise, which rejects with `audit_unavailable` if the record cannot be stored.
   */
  before(record: AuditRecord): Promise<void> | undefined;
  /**
   * Runs a change and records the change with its outcome. With `closed`, also records the intent before the change.
   * `found` returns the facts that only the result shows, or undefined if nothing changed; then nothing is recorded.
   */
  change<T>(
    record: GivenChange,
    work: () => T | Promise<T>,
    found?: (result: T) => FoundChange | undefined,
  ): Promise<T>;
  status(): AuditStatus;
}

/** Records an event. With `audit.onFailure: closed`, resolves once the record is stored; otherwise resolves at once. */
export async function stored(trail: AuditTrail, record: AuditRecord): Promise<void> {
  if (trail.closed) await trail.before(record);
  else trail.record(record);
}

/** Records nothing. */
export const NO_AUDIT: AuditTrail = {
  closed: false,
  record: () => {},
  before: () => undefined,
  change: async (_record, work) => work(),
  status: () => ({ lost: 0, waiting: 0 }),
};
