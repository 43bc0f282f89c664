import { type Glob, globOf } from './glob.js';

export interface ToolRulesOptions {
  /** Patterns of own names of the tools that are offered; all of them where there is none. */
  readonly allow: readonly string[];
  /** Patterns of own names of tools that are not offered, allowed or not. */
  readonly deny: readonly string[];
  /** Other names, by own names. */
  readonly rename: Readonly<Record<string, string>>;
}

interface Pattern {
  readonly text: string;
  readonly glob: Glob;
}

const patternOf = (text: string): Pattern => ({ text, glob: globOf(text) });

/** How many tools a warning names. */
const NAMED = 10;

/** Which tools of a server are offered, and under which names. */
export class ToolRules {
  private readonly allow: readonly Pattern[];
  private readonly deny: readonly Pattern[];
  private readonly names: ReadonlyMap<string, string>;
  private readonly owners: ReadonlyMap<string, string>;

  constructor({ allow, deny, rename }: ToolRulesOptions) {
    this.allow = allow.map(patternOf);
    this.deny = deny.map(patternOf);
    this.names = new Map(Object.entries(rename));
    this.owners = new Map(Object.entries(rename).map(([own, name]) => [name, own]));
  }

  /** Whether a tool is offered at all. */
  offers(own: string): boolean {
    const fits = ({ glob }: Pattern): boolean => glob.test(own);
    return (this.allow.length === 0 || this.allow.some(fits)) && !this.deny.some(fits);
  }

  /** The name a tool is offered under, or undefined where it is not offered. */
  nameOf(own: string): string | undefined {
    return this.offers(own) ? (this.names.get(own) ?? own) : undefined;
  }

  /** The own name of the tool that is offered under a name, as far as the rules tell; undefined where none can be. */
  ownerOf(name: string): string | undefined {
    const own = this.owners.get(name) ?? (this.names.has(name) ? undefined : name);
    return own !== undefined && this.offers(own) ? own : undefined;
  }

  /** What is wrong with the rules, given the own names of the tools a server has. */
  problems(own: readonly string[]): string[] {
    const has = new Set(own);
    const shown = own.length > NAMED ? `${own.slice(0, NAMED).join(', ')}, …` : own.join(', ') || 'none';
    const unused = (key: string, patterns: readonly Pattern[]): string[] =>
      patterns
        .filter(({ glob }) => !own.some((name) => glob.test(name)))
        .map(({ text }) => `tools.${key}: "${text}" fits none of its tools (${shown})`);
    const renamed = [...this.names].flatMap(([from, to]) => {
      if (!has.has(from)) return [`tools.rename: there is no tool "${from}" (${shown})`];
      if (from !== to && has.has(to) && !this.names.has(to) && this.offers(from) && this.offers(to))
        return [`tools.rename: "${from}" takes the name of its tool "${to}", which is not offered any more`];
      return [];
    });
    return [...unused('allow', this.allow), ...unused('deny', this.deny), ...renamed];
  }
}

/** Every tool under its own name. */
export const ALL_TOOLS = new ToolRules({ allow: [], deny: [], rename: {} });
