import type { Admission, AdmissionRequest } from '../core/admission.js';
import { type Glob, globOf } from '../core/catalog/glob.js';
import { spellingsOf } from '../core/catalog/names.js';
import { ProtocolError } from '../protocol/errors.js';
import { lackingScopes, type ScopeRules } from './scopes.js';

/** A scope of access tokens, and the calls that need it. */
export interface ScopeRule {
  readonly scope: string;
  readonly servers: readonly string[];
  readonly tools: readonly string[];
  readonly includes: readonly string[];
}

export const scopeRules = (rules: readonly ScopeRule[]): ScopeRules => ({
  includes: Object.fromEntries(rules.map(({ scope, includes }) => [scope, includes])),
});

interface Demand {
  readonly scope: string;
  readonly servers: readonly Glob[];
  readonly tools: readonly Glob[];
}

/**
 * Refuses calls whose access token lacks a scope, and names all scopes that the call needs (AUR-05). The target stays
 * visible, so that the client can ask its user for more (step-up). Callers without an access token have no scopes, and
 * their rights come from their roles and restrictions.
 */
export class ScopeAdmission implements Admission {
  private readonly demands: readonly Demand[];
  private readonly rules: ScopeRules;

  constructor(
    rules: readonly ScopeRule[],
    /** The value of `WWW-Authenticate` for a refused call. */
    private readonly challenge: (scopes: readonly string[]) => string,
  ) {
    this.rules = scopeRules(rules);
    this.demands = rules
      .filter(({ servers, tools }) => servers.length > 0 || tools.length > 0)
      .map(({ scope, servers, tools }) => ({ scope, servers: servers.map(globOf), tools: tools.map(globOf) }));
  }

  admit({ caller, target, notes }: AdmissionRequest): void {
    const { credential, scopes } = caller.principal;
    if (credential?.kind !== 'jwt' || target.kind === 'catalog') return;
    const { server, name } = target;
    let spellings: readonly string[] | undefined;
    const needed = this.demands.filter((demand) => {
      // Demands of a server also apply to its tasks, which hold results of calls. Demands of a tool do not, because the
      // tool of a task is not known.
      if (demand.servers.some((glob) => glob.test(server))) return true;
      if (target.kind !== 'tool' || demand.tools.length === 0) return false;
      spellings ??= [...spellingsOf(server, name), ...spellingsOf(server, target.offered ?? name)];
      return demand.tools.some((glob) => spellings!.some((spelling) => glob.test(spelling)));
    });
    if (needed.length === 0) return;
    const all = needed.map(({ scope }) => scope);
    const lacking = lackingScopes(scopes, all, this.rules);
    if (lacking.length === 0) return;
    if (notes) notes.decision = { decision: 'denied', rule: `scope ${lacking.join(' ')}` };
    throw new ProtocolError('forbidden', `The access token needs the scopes ${all.join(' ')} for this call`, {
      outcome: 'not_executed',
      data: { requiredScopes: all },
      headers: { 'WWW-Authenticate': this.challenge(all) },
    });
  }
}
