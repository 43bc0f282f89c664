import { type Admission, type AdmissionRequest, type ItemTarget, knownBy, serverTarget } from '../core/admission.js';
import type { Caller, Principal, Restriction } from '../core/caller.js';
import { type Glob, globOf } from '../core/catalog/glob.js';
import { ProtocolError } from '../protocol/errors.js';

/** The name of this check in the audit trail. */
const RULE = 'restriction of the credential';

/**
 * Hides everything outside of the scope of a credential: in lists, calls, prompts, resources and agents of both
 * protocols. A call to a hidden target gets the same answer as a call to a target that does not exist.
 */
export class RestrictionAdmission implements Admission {
  /** Keyed by restriction, because a principal with its restriction is used for many requests. */
  private readonly scopes = new WeakMap<Restriction, Scope>();

  seesEverything({ principal }: Caller): boolean {
    return principal.restriction === undefined;
  }

  sees({ principal: { restriction } }: Caller, target: ItemTarget): boolean {
    return restriction === undefined || this.scopeOf(restriction).contains(target);
  }

  /** Whether the credential of a caller is for some part of a server. */
  readonly reaches = (principal: Principal, server: string): boolean =>
    principal.restriction === undefined || this.scopeOf(principal.restriction).contains(serverTarget(server));

  hiddenBy(caller: Caller, target: ItemTarget): string | undefined {
    return this.sees(caller, target) ? undefined : RULE;
  }

  /**
   * The caller may use every target that it sees. Methods of an extension are the exception: if the scope names tools,
   * they are refused, because nothing says which tools they use.
   */
  admit({ caller, target, method, notes }: AdmissionRequest): void {
    const { restriction } = caller.principal;
    if (restriction === undefined || target.kind === 'catalog') return;
    const scope = this.scopeOf(restriction);
    const hidden = target.kind === 'method' && scope.onlyTools;
    if (!hidden && scope.contains(knownBy(target))) return;
    if (notes) notes.decision = { decision: 'denied', rule: RULE };
    throw hidden
      ? new ProtocolError('method_not_found', `Method not found: ${method}`)
      : new ProtocolError('not_found', `There is no server "${target.server}"`);
  }

  private scopeOf(restriction: Restriction): Scope {
    let scope = this.scopes.get(restriction);
    if (!scope) {
      scope = new Scope(restriction);
      this.scopes.set(restriction, scope);
    }
    return scope;
  }
}

/** The part of the gateway that a restricted credential can reach. */
class Scope {
  private readonly servers: readonly Glob[];
  private readonly tools: readonly ToolPattern[];
  /** Whether the restriction names only tools, so that prompts, resources and agents are outside of the scope. */
  readonly onlyTools: boolean;

  constructor({ servers, tools }: Restriction) {
    this.servers = servers.map(globOf);
    this.tools = tools.map(toolPattern);
    this.onlyTools = servers.length === 0 && tools.length > 0;
  }

  contains({ server, kind, name }: ItemTarget): boolean {
    if (this.servers.length > 0 && !this.servers.some((glob) => glob.test(server))) return false;
    if (this.tools.length === 0) return true;
    if (kind === 'tool') return this.tools.some((pattern) => pattern.server.test(server) && pattern.tool.test(name));
    if (!this.onlyTools) return true;
    return kind === 'server' && this.tools.some((pattern) => pattern.server.test(server));
  }
}

interface ToolPattern {
  readonly server: Glob;
  /** The name that the server itself gives the tool. */
  readonly tool: Glob;
}

/**
 * A pattern has the form `server__tool`. The two parts are compared separately, so that a tool of another server whose
 * own name looks like `server__tool` is not in the scope.
 */
function toolPattern(text: string): ToolPattern {
  const mark = text.indexOf('__');
  const [server, tool] = mark < 0 ? ['*', text] : [text.slice(0, mark), text.slice(mark + 2)];
  return { server: globOf(server), tool: globOf(tool) };
}
