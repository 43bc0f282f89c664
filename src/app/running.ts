import type { Config } from '../config/schema.js';
import type { Route } from '../inbound/http/route.js';

/** A running gateway, as far as a reload concerns it. */
export interface Reloadable {
  /** Applies what can change while the gateway runs; returns the changed keys that need a restart. */
  reload(config: Config): Promise<readonly string[]>;
}

/** What a gateway offers, server by server. */
export interface Offer {
  readonly servers: readonly { readonly name: string; readonly tools: readonly string[] }[];
  readonly missing: readonly { readonly server: string; readonly reason: string }[];
}

/** One server or agent behind the gateway, as the table shows it. */
export interface UpstreamRow {
  readonly kind: 'server' | 'agent';
  readonly name: string;
  readonly state: 'starting' | 'up' | 'down';
  /** Tools of a server, skills of an agent. */
  readonly count?: number;
  /** From the start to its first answer, in milliseconds. */
  readonly took?: number;
  readonly problem?: string;
}

export interface Endpoint {
  readonly label: string;
  readonly address: string;
}

/** Something to paste into a client, on one line. */
export interface Paste {
  readonly title: string;
  readonly text: string;
}

export interface Summary {
  readonly upstreams: readonly UpstreamRow[];
  readonly endpoints: readonly Endpoint[];
  readonly paste: readonly Paste[];
  /** The page with more to paste; undefined where a browser may not read it. */
  readonly page: string | undefined;
}

/** A gateway that serves. */
export interface RunningGateway extends Reloadable {
  readonly url: string;
  /** Everything that is served over HTTP. */
  readonly routes: readonly Pick<Route, 'method' | 'path' | 'access' | 'errors' | 'description' | 'authenticator'>[];
  /** Resolves when every server and agent has answered, or after so many milliseconds. */
  settled(milliseconds: number): Promise<void>;
  summary(): Summary;
  /** The tools of every server that has answered, under the names callers see. */
  offer(): Promise<Offer>;
  /** Logs every change of a server or an agent from now on. */
  reportChanges(): void;
  close(): Promise<void>;
}
