import type { UpstreamViolations } from '../core/upstream-monitor.js';
import { answerViolations } from '../protocol/a2a/answer-violations.js';
import { ProtocolError, type Reason } from '../protocol/errors.js';
import { isObject, type JsonObject } from '../protocol/jsonrpc/raw.js';
import { resultViolations } from '../protocol/mcp/result-violations.js';
import type { CallObserver, EndedCall } from './observed-calls.js';

export interface SampledViolationsOptions {
  /** The examined part of the calls, in percent. */
  readonly percent: number;
  /** Called with each violation, for the metrics. */
  readonly counted: (upstream: string, kind: string) => void;
}

/** Reasons of failed calls that mean that the answer of the server or agent broke the protocol. */
const INVALID_ANSWERS: ReadonlySet<Reason> = new Set<Reason>(['upstream_invalid', 'invalid_agent_response']);
/** Maximum number of servers and agents with their own counts. */
const MOST_UPSTREAMS = 1_000;
/** Larger results are not examined, in bytes. */
const MOST_BYTES = 1024 * 1024;

/** Examines a part of the live traffic, and counts the violations of each server and agent. Changes no call. */
export class SampledViolations implements CallObserver {
  private readonly upstreams = new Map<string, { sampled: number; readonly kinds: Map<string, number> }>();
  private due = 0;

  constructor(private readonly options: SampledViolationsOptions) {}

  active(): boolean {
    return true;
  }

  ended(call: EndedCall): void {
    const server = call.context.target?.server;
    if (server === undefined || call.context.notes.forwarded !== true) return;
    // Spreads the examined calls evenly: 20 percent is every fifth call.
    this.due += this.options.percent;
    if (this.due < 100) return;
    this.due -= 100;
    const found = violationsOf(call);
    if (found === undefined) return;
    const counts = this.of(server);
    if (counts === undefined) return;
    counts.sampled++;
    for (const kind of found) {
      counts.kinds.set(kind, (counts.kinds.get(kind) ?? 0) + 1);
      this.options.counted(server, kind);
    }
  }

  /** The counts of a server or agent; undefined if no call of it was examined. */
  counts(upstream: string): UpstreamViolations | undefined {
    const found = this.upstreams.get(upstream);
    return found && { sampled: found.sampled, kinds: Object.fromEntries([...found.kinds].sort()) };
  }

  private of(name: string): { sampled: number; readonly kinds: Map<string, number> } | undefined {
    const known = this.upstreams.get(name);
    if (known || this.upstreams.size >= MOST_UPSTREAMS) return known;
    const made = { sampled: 0, kinds: new Map<string, number>() };
    this.upstreams.set(name, made);
    return made;
  }
}

/** The kinds of violations in a call; undefined if the call shows nothing about its server. */
function violationsOf({ context, outcome, error, result, bytes = 0 }: EndedCall): readonly string[] | undefined {
  if (outcome === 'error')
    return error instanceof ProtocolError && INVALID_ANSWERS.has(error.reason) ? ['invalid_answer'] : undefined;
  if (bytes > MOST_BYTES) return undefined;
  if (context.protocol === 'mcp')
    return result?.kind === 'complete'
      ? resultViolations(context.method, result.result.value(), context.item?.value)
      : undefined;
  if (result?.kind !== 'result') return undefined;
  const value: unknown = result.result.value;
  return isObject(value as JsonObject) ? answerViolations(value as JsonObject) : undefined;
}
