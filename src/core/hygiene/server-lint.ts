import type { JsonObject } from '../../protocol/jsonrpc/raw.js';
import { type LintFinding, lintTool } from './tool-lint.js';

export type LintMode = 'off' | 'warn' | 'strict';

/** A finding about a tool of a server. */
export interface ServerFinding extends LintFinding {
  /** Whether the gateway does not offer the tool. */
  readonly withheld: boolean;
}

/** The most tools that one log line names, and the most findings that are kept for one server. */
const NAMED = 5;
const MOST_FINDINGS = 10_000;

/** The findings about the tools of one server, from the list that was read last. */
export class ServerLint {
  private reading: ServerFinding[] = [];
  private last: readonly ServerFinding[] = [];

  constructor(readonly mode: LintMode) {}

  /** The findings, in the order of the server's list. */
  get findings(): readonly ServerFinding[] {
    return this.last;
  }

  /** Checks one tool while the list is read. Returns the reason not to offer it, if there is one. */
  check(definition: JsonObject, name: string): string | undefined {
    if (this.mode === 'off') return undefined;
    const found = lintTool(definition, name);
    const error = this.mode === 'strict' ? found.find(({ severity }) => severity === 'error') : undefined;
    for (const finding of found) {
      if (this.reading.length >= MOST_FINDINGS) break;
      this.reading.push({ ...finding, withheld: error !== undefined });
    }
    return error?.message;
  }

  /**
   * Called when the list was read to its end. Returns a log message about tools with errors that the gateway still
   * offers; undefined if there are none.
   */
  done(): string | undefined {
    this.last = this.reading;
    this.reading = [];
    const wrong = new Map<string, string>();
    for (const { tool, severity, withheld, message } of this.last)
      if (severity === 'error' && !withheld && !wrong.has(tool)) wrong.set(tool, message);
    if (wrong.size === 0) return undefined;
    const named = [...wrong].slice(0, NAMED).map(([tool, message]) => `${tool}: ${message}`);
    const rest = wrong.size > NAMED ? `, and ${wrong.size - NAMED} more` : '';
    return `${wrong.size} tool(s) are hard to use for models (${named.join('; ')}${rest}); parley lint shows all`;
  }
}
