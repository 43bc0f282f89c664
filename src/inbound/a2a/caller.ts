import type { Exchange } from '../../core/a2a/agent.js';
import type { Caller, Cancellation, Principal } from '../../core/caller.js';
import { NEWEST } from '../../protocol/mcp/revisions/index.js';

/**
 * A caller that uses A2A. The gateway cannot ask this caller a question during a call, because an A2A agent asks
 * through the state of its task.
 */
export const agentCaller = (principal: Principal, gatewayUrl?: string): Caller => ({
  principal,
  gatewayUrl,
  revision: NEWEST,
  capabilities: {},
  clientInfo: undefined,
  session: undefined,
});

/** The only forwarded headers: none of them identifies or authenticates the caller (a2a.md 3.11). */
const FORWARDED = ['traceparent', 'tracestate', 'baggage', 'accept-language'] as const;
/** Both names are read, independent of the version. */
const EXTENSIONS = ['a2a-extensions', 'x-a2a-extensions'] as const;

/** The headers or gRPC metadata of a request; `read` finds a value by its name in lower case. */
export function exchangeOf(read: (name: string) => string | undefined, cancellation: Cancellation): Exchange {
  const forward: Record<string, string> = {};
  for (const name of FORWARDED) {
    const value = read(name);
    if (value !== undefined && value !== '') forward[name] = value;
  }
  let extensions = NONE;
  for (const name of EXTENSIONS) {
    const value = read(name);
    if (value === undefined) continue;
    const named = value.split(',').map((uri) => uri.trim());
    extensions = [...new Set([...extensions, ...named.filter((uri) => uri !== '')])];
  }
  return { cancellation, extensions, forward };
}

const NONE: readonly string[] = [];
