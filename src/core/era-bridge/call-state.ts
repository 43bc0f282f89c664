/** The claim on a parked call that travels in a request state. */
export interface Ticket {
  readonly id: string;
  /** Each round of questions has its own ticket, good for one answer. */
  readonly round: number;
  /** The replica that holds the call. */
  readonly owner: string;
}

/**
 * Where a call goes on after its questions are answered. Clients get it as a sealed `requestState`. `approval` is the id of
 * a single use: a call that needed approval goes on once from each of its states.
 */
export type CallState =
  /** A modern server's own state, to be given back to it byte for byte; absent stays absent (BR-25). */
  | { readonly kind: 'relay'; readonly server: string; readonly state?: string; readonly approval?: string }
  /** A call that waits at a server of the handshake era. */
  | { readonly kind: 'parked'; readonly server: string; readonly ticket: Ticket }
  /** Nothing was executed yet: the call is made again from the start. */
  | { readonly kind: 'again'; readonly server: string; readonly after: readonly string[]; readonly approval?: string }
  /** The gateway itself asked for approval of this tool. */
  | { readonly kind: 'approval'; readonly nonce: string; readonly server: string; readonly tool: string };
