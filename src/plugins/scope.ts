/** The calls that a plugin sees. An empty list limits nothing. */
import type { Target } from '../core/admission.js';
import { BoundedCache } from '../core/bounded-cache.js';
import { globOf } from '../core/catalog/glob.js';

export interface ScopeSettings {
  /** Patterns of servers and agents. */
  readonly servers: readonly string[];
  /** Patterns of tools, by their own name or as `server__tool`. */
  readonly tools: readonly string[];
  /** Patterns of MCP methods and A2A operations. */
  readonly methods: readonly string[];
}

type Test = (text: string) => boolean;

/** Names come from clients, so the memory of decisions is bounded. */
const REMEMBERED = 2_000;

export class Scope {
  private readonly methods: Test | undefined;
  private readonly servers: Test | undefined;
  private readonly tools: Test | undefined;
  private readonly known = new BoundedCache<string, boolean>(REMEMBERED);

  constructor({ servers, tools, methods }: ScopeSettings) {
    this.servers = anyGlob(servers);
    this.tools = anyGlob(tools);
    this.methods = anyGlob(methods);
  }

  /** Whether the plugin sees calls of this method to this target. */
  covers(method: string, target: Target | undefined): boolean {
    if (!this.methods && !this.servers && !this.tools) return true;
    const key = JSON.stringify([method, target?.server, target?.kind, this.tools && target?.name]);
    let covered = this.known.get(key);
    if (covered === undefined) {
      covered = this.coversMethod(method) && this.coversTarget(target);
      this.known.set(key, covered);
    }
    return covered;
  }

  coversMethod(method: string): boolean {
    return this.methods?.(method) ?? true;
  }

  /** Whether the plugin sees this item of a list. */
  coversItem(server: string | undefined, name: string, isTool: boolean): boolean {
    if (this.servers && (server === undefined || !this.servers(server))) return false;
    if (!this.tools) return true;
    return isTool && (this.tools(name) || (server !== undefined && this.tools(`${server}__${name}`)));
  }

  private coversTarget(target: Target | undefined): boolean {
    if (!target || target.kind === 'catalog') return !this.servers && !this.tools;
    // The tool of a task is not known any more, so a task counts as one of every tool of its server.
    if (target.kind === 'task') return this.servers?.(target.server) ?? true;
    return this.coversItem(target.server, target.name, target.kind === 'tool');
  }
}

function anyGlob(patterns: readonly string[]): Test | undefined {
  if (patterns.length === 0) return undefined;
  const globs = patterns.map(globOf);
  return (text) => globs.some((glob) => glob.test(text));
}
