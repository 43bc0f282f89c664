/** Identifies one round of a parked call inside a request state. */
export interface Ticket {
  readonly id: string;
  /** The number of the round. Each round of questions has its own ticket, which is valid for one answer. */
  readonly round: number;
  /** The replica that holds the call. */
  readonly owner: string;
}

/**
 * How a call continues after its questions are answered. Clients get the state as a sealed `requestState`. `approval`
 * is an id for single use, so that a call that needed approval continues only once from each state. `trace` is the
 * `traceparent` of the first round, so that all rounds belong to one trace.
 */
export type CallState = { readonly trace?: string } & CallStep;

type CallStep =
  /**
   * A modern server's own `requestState`, returned to the server byte for byte. If the server sent none, none is
   * returned (BR-25).
   */
  | { readonly kind: 'relay'; readonly server: string; readonly state?: string; readonly approval?: string }
  /** A call that waits at a legacy server. */
  | { readonly kind: 'parked'; readonly server: string; readonly ticket: Ticket }
  /** The server has executed nothing yet, so the call starts again. */
  | { readonly kind: 'again'; readonly server: string; readonly after: readonly string[]; readonly approval?: string }
  /** The gateway itself asked for approval of this tool. */
  | { readonly kind: 'approval'; readonly nonce: string; readonly server: string; readonly tool: string };
