import { type LintMode, ServerLint } from '../hygiene/server-lint.js';
import { type Glob, globOf } from './glob.js';

export interface ToolRulesOptions {
  /** Patterns for the own names of offered tools; without patterns all tools are offered. */
  readonly allow: readonly string[];
  /** Patterns for the own names of tools that are never offered, even if allowed. */
  readonly deny: readonly string[];
  /** The new names of tools, by their own names. */
  readonly rename: Readonly<Record<string, string>>;
  /** How the definitions of the tools are checked; default: not at all. */
  readonly lint?: LintMode;
  /** How much search trusts the descriptions, in percent; default: entirely. */
  readonly trust?: number;
}

interface Pattern {
  readonly text: string;
  readonly glob: Glob;
}

const patternOf = (text: string): Pattern => ({ text, glob: globOf(text) });

/** The most tools that a warning names. */
const NAMED = 10;

/** The rules for which tools of a server are offered, and under which names. */
export class ToolRules {
  readonly lint: ServerLint;
  /** How much search trusts the descriptions, from 0 to 1. */
  readonly trust: number;
  private readonly allow: readonly Pattern[];
  private readonly deny: readonly Pattern[];
  private readonly names: ReadonlyMap<string, string>;
  private readonly owners: ReadonlyMap<string, string>;

  constructor({ allow, deny, rename, lint = 'off', trust = 100 }: ToolRulesOptions) {
    this.trust = trust / 100;
    this.lint = new ServerLint(lint);
    this.allow = allow.map(patternOf);
    this.deny = deny.map(patternOf);
    this.names = new Map(Object.entries(rename));
    this.owners = new Map(Object.entries(rename).map(([own, name]) => [name, own]));
  }

  /** Whether the tool is offered. */
  offers(own: string): boolean {
    const fits = ({ glob }: Pattern): boolean => glob.test(own);
    return (this.allow.length === 0 || this.allow.some(fits)) && !this.deny.some(fits);
  }

  /** The offered name of a tool, or undefined if it is not offered. */
  nameOf(own: string): string | undefined {
    return this.offers(own) ? (this.names.get(own) ?? own) : undefined;
  }

  /**
   * The own name of the tool with this offered name, according to the rules alone; undefined if the rules exclude the
   * tool.
   */
  ownerOf(name: string): string | undefined {
    const own = this.owners.get(name) ?? (this.names.has(name) ? undefined : name);
    return own !== undefined && this.offers(own) ? own : undefined;
  }

  /** The problems of the rules, given the own names of the server's tools. */
  problems(own: readonly string[]): string[] {
    const has = new Set(own);
    const shown = own.length > NAMED ? `${own.slice(0, NAMED).join(', ')}, …` : own.join(', ') || 'none';
    const unused = (key: string, patterns: readonly Pattern[]): string[] =>
      patterns
        .filter(({ glob }) => !own.some((name) => glob.test(name)))
        .map(({ text }) => `tools.${key}: "${text}" matches no tool of the server (${shown})`);
    const renamed = [...this.names].flatMap(([from, to]) => {
      if (!has.has(from)) return [`tools.rename: there is no tool "${from}" (${shown})`];
      if (from !== to && has.has(to) && !this.names.has(to) && this.offers(from) && this.offers(to))
        return [`tools.rename: "${from}" takes the name of tool "${to}", which is therefore not offered`];
      return [];
    });
    return [...unused('allow', this.allow), ...unused('deny', this.deny), ...renamed];
  }
}

/** Every tool under its own name. */
export const ALL_TOOLS = new ToolRules({ allow: [], deny: [], rename: {} });
