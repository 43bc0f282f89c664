/** Headers of a caller's request that the configuration sends on to an upstream, under new names. */
import { createHash } from 'node:crypto';
import { BoundedCache } from '../../core/bounded-cache.js';
import { type Caller, GATEWAY } from '../../core/caller.js';
import { ProtocolError } from '../../protocol/errors.js';
import type { CallerRequests } from '../caller-request.js';
import type { Credential, CredentialSource } from '../upstream-credentials.js';

/** S4: a value with other characters would change the request, and is refused. */
const SENDABLE = /^[\t\x20-\x7e\x80-\xff]{0,4096}$/;

const MOST_KEPT = 5_000;
/**
 * Limits the sets of values that a caller may use in this time, because each set has its own sessions and connections
 * at the upstream.
 */
const MOST_SETS = 64;
const WINDOW_MS = 600_000;

export class ForwardedHeaders implements CredentialSource {
  private readonly pairs: readonly (readonly [from: string, to: string])[];
  private readonly kept = new BoundedCache<string, { readonly of: Credential; readonly credential: Credential }>(
    MOST_KEPT,
  );
  private readonly sets = new BoundedCache<string, { readonly since: number; readonly values: Set<string> }>(MOST_KEPT);

  constructor(
    private readonly inner: CredentialSource,
    names: Readonly<Record<string, string>>,
    private readonly requests: CallerRequests,
  ) {
    this.pairs = Object.entries(names).map(([from, to]) => [from.toLowerCase(), to]);
    requests.wantHeaders(this.pairs.map(([from]) => from));
  }

  get personal(): boolean {
    return this.inner.personal === true;
  }

  for(caller: Caller): Credential | Promise<Credential> {
    const given = this.inner.for(caller);
    const added = caller.principal === GATEWAY.principal ? [] : this.headersOf(caller);
    if (added.length === 0) return given;
    const digest = createHash('sha256').update(JSON.stringify(added)).digest('base64url').slice(0, 22);
    this.count(caller.principal.key, digest);
    const use = (credential: Credential): Credential => this.combined(credential, added, digest);
    return given instanceof Promise ? given.then(use) : use(given);
  }

  private headersOf({ principal }: Caller): string[] {
    const added: string[] = [];
    for (const [from, to] of this.pairs) {
      const value = this.requests.headerOf(principal, from);
      if (value === undefined) continue;
      if (!SENDABLE.test(value))
        throw new ProtocolError(
          'invalid_request',
          `The header ${from} has characters that cannot be sent on, or is too long`,
          {
            outcome: 'not_executed',
          },
        );
      added.push(to, value);
    }
    return added;
  }

  /** The values become part of the key: they may choose another account or tenant at the upstream. */
  private combined(of: Credential, added: readonly string[], digest: string): Credential {
    const key = `${of.key} forwarded ${digest}`;
    const known = this.kept.get(key);
    if (known?.of === of) return known.credential;
    const credential = { ...of, key, headers: [...without(of.headers, added), ...added] };
    this.kept.set(key, { of, credential });
    return credential;
  }

  private count(principal: string, digest: string): void {
    const now = performance.now();
    let known = this.sets.get(principal);
    if (!known || now - known.since > WINDOW_MS) {
      known = { since: now, values: new Set() };
      this.sets.set(principal, known);
    }
    if (known.values.has(digest)) return;
    if (known.values.size >= MOST_SETS)
      throw new ProtocolError(
        'rate_limited',
        `The caller sent more than ${MOST_SETS} different sets of values in the headers that the gateway sends on; try again later`,
        {
          outcome: 'not_executed',
          headers: { 'Retry-After': String(Math.ceil((known.since + WINDOW_MS - now) / 1000)) },
        },
      );
    known.values.add(digest);
  }
}

/**
 * The headers whose names are not in `added`, because a header that the caller may set replaces the gateway's header.
 */
function without(headers: readonly string[], added: readonly string[]): string[] {
  const names = new Set(added.filter((_, index) => index % 2 === 0).map((name) => name.toLowerCase()));
  return headers.filter((_, index) => !names.has(headers[index - (index % 2)]!.toLowerCase()));
}
