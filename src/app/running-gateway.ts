import type { Config } from '../config/schema.js';
import type { AuditActor } from '../core/audit-trail.js';
import type { Route } from '../inbound/http/route.js';

/** A running gateway whose configuration can be reloaded. */
export interface Reloadable {
  /** Applies the keys that can change while the gateway runs; returns the changed keys that need a restart. */
  reload(config: Config, by?: AuditActor): Promise<readonly string[]>;
}

/** The tools that a gateway offers, by server. */
export interface Offer {
  readonly servers: readonly { readonly name: string; readonly tools: readonly string[] }[];
  readonly missing: readonly { readonly server: string; readonly reason: string }[];
}

/** One row of the table of servers and agents. */
export interface UpstreamRow {
  readonly kind: 'server' | 'agent';
  readonly name: string;
  readonly state: 'starting' | 'up' | 'down';
  /** Number of tools of a server or skills of an agent. */
  readonly count?: number;
  /** Time from its start to its first answer, in milliseconds. */
  readonly took?: number;
  readonly problem?: string;
}

export interface Endpoint {
  readonly label: string;
  readonly address: string;
}

/** A one-line snippet to paste into a client. */
export interface Paste {
  readonly title: string;
  readonly text: string;
}

export interface Summary {
  readonly upstreams: readonly UpstreamRow[];
  readonly endpoints: readonly Endpoint[];
  readonly paste: readonly Paste[];
  /** The URL of the page with more snippets; undefined if the page needs a token. */
  readonly page: string | undefined;
}

/** A gateway that serves over HTTP. */
export interface RunningGateway extends Reloadable {
  readonly url: string;
  /** All HTTP routes. */
  readonly routes: readonly Pick<
    Route,
    'method' | 'path' | 'access' | 'errors' | 'description' | 'authenticator' | 'api'
  >[];
  /** Resolves when every server and agent has answered, at the latest after `milliseconds`. */
  settled(milliseconds: number): Promise<void>;
  summary(): Summary;
  /** The tools of every server that has answered, under the names callers see. */
  offer(): Promise<Offer>;
  /** Logs every change of a server or an agent from now on. */
  reportChanges(): void;
  close(): Promise<void>;
}
