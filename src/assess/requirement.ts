/** A requirement as data, and the verdict of its probe. */

export type Level = 'MUST' | 'SHOULD' | 'MAY';

/** The transport of MCP or the binding of A2A that a probe needs. `http` is Streamable HTTP, `ws` is WebSocket. */
export type Transport = 'http' | 'sse' | 'stdio' | 'ws' | 'JSONRPC' | 'HTTP+JSON' | 'GRPC' | 'card';

export interface Requirement {
  readonly id: string;
  readonly protocol: 'MCP' | 'A2A';
  readonly level: Level;
  /** The letters of the revisions, as in `A-D` or `C,E`. `LETTERS` names them. */
  readonly versions: string;
  readonly over: readonly Transport[];
  readonly category: string;
  /** The requirement in our own words. */
  readonly text: string;
  /** The page of the specification. */
  readonly spec: string;
  /** The recommendation for a server that fails. */
  readonly fix: string;
  /** The name of the probe; undefined if the requirement cannot be observed from outside. */
  readonly probe?: string;
  readonly unobservable?: string;
}

/** A request and its response as text, with secrets and volatile values masked. */
export interface Evidence {
  readonly request: string;
  readonly response: string;
}

export type Verdict =
  | { readonly outcome: 'pass' }
  | { readonly outcome: 'fail'; readonly reason: string; readonly evidence: readonly Evidence[] }
  /** The requirement does not apply to this server, or the probe would not be safe. */
  | { readonly outcome: 'skip'; readonly reason: string };

export const PASS: Verdict = { outcome: 'pass' };

/** A reason quotes the server. Reports show less of it, without secrets. */
const MOST_REASON = 8_192;

export const skip = (reason: string): Verdict => ({ outcome: 'skip', reason: reason.slice(0, MOST_REASON) });

/** Anything that holds evidence: replies do. */
interface WithEvidence {
  readonly evidence: Evidence;
}

export const fail = (reason: string, ...replies: readonly (WithEvidence | undefined)[]): Verdict => ({
  outcome: 'fail',
  reason: reason.slice(0, MOST_REASON),
  evidence: replies.flatMap((reply) => (reply ? [reply.evidence] : [])).slice(0, 3),
});

/** `pass` if the condition holds, otherwise a failure with the reason and the evidence. */
export const expect = (holds: boolean, reason: string, ...replies: readonly (WithEvidence | undefined)[]): Verdict =>
  holds ? PASS : fail(reason, ...replies);

/** The first failure, otherwise the first pass, otherwise the first skip. */
export function worst(verdicts: readonly Verdict[]): Verdict {
  const of = (outcome: Verdict['outcome']): Verdict | undefined => verdicts.find((each) => each.outcome === outcome);
  return of('fail') ?? of('pass') ?? of('skip') ?? skip('no part of the requirement applies');
}

/** The indexes of the letters in a list such as `A-D` or `B,E`, where A is 0. */
export function versionIndexes(list: string): number[] {
  const index = (letter: string): number => letter.charCodeAt(0) - 'A'.charCodeAt(0);
  return list.split(',').flatMap((part) => {
    const [first = '', last = first] = part.trim().split('-');
    return Array.from({ length: index(last) - index(first) + 1 }, (_, i) => index(first) + i);
  });
}
