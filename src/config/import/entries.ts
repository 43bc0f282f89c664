/** The result of reading a configuration of another program. */

/**
 * How a field of another program is taken over. `exact`: with the same meaning. `approximate`: with a difference that
 * the note names. `manual`: Parley can do it, but a person has to write it. `unsupported`: Parley has no counterpart.
 */
export type Verdict = 'exact' | 'approximate' | 'manual' | 'unsupported';

export interface FieldNote {
  /** The field in the other program's file, such as `mcpServers.files.timeout`. */
  readonly field: string;
  readonly verdict: Verdict;
  readonly note?: string;
}

/** The settings of a server or an agent, written with the keys of Parley. */
export type Settings = Record<string, unknown>;

export interface ImportedEntry {
  readonly section: 'servers' | 'agents';
  readonly name: string;
  readonly settings: Settings;
  /** One note for each field of the entry. */
  readonly notes: readonly FieldNote[];
}

export const FORMATS = [
  'mcpservers',
  'claude-code',
  'vscode',
  'litellm',
  'agentgateway',
  'docker',
  'server-json',
] as const;
export type ImportFormat = (typeof FORMATS)[number];

export interface Imported {
  readonly format: ImportFormat;
  readonly entries: readonly ImportedEntry[];
  /** Fields that belong to no entry. */
  readonly notes: readonly FieldNote[];
}

/**
 * Collects the notes of one entry. A second note for the same field replaces the first note if its verdict is worse.
 */
export class Notes {
  private readonly found = new Map<string, FieldNote>();

  add(field: string, verdict: Verdict, note?: string): void {
    const before = this.found.get(field);
    if (before && WORSE.indexOf(before.verdict) >= WORSE.indexOf(verdict)) return;
    this.found.set(field, { field, verdict, ...(note !== undefined && { note }) });
  }

  get all(): FieldNote[] {
    return [...this.found.values()];
  }
}

const WORSE: readonly Verdict[] = ['exact', 'approximate', 'manual', 'unsupported'];

export type Json = string | number | boolean | null | Json[] | { [name: string]: Json };
export type JsonMap = { [name: string]: Json };

export function mapOf(value: Json | undefined): JsonMap {
  return isMap(value) ? value : {};
}

export function isMap(value: Json | undefined): value is JsonMap {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function listOf(value: Json | undefined): Json[] {
  return Array.isArray(value) ? value : value === undefined || value === null ? [] : [value];
}

export function textOf(value: Json | undefined): string | undefined {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
    ? String(value)
    : undefined;
}

/**
 * Escapes a text of a format without variables, so that `${` in the text is not a reference to a variable of this
 * machine.
 */
export const literal = (text: string): string => text.replaceAll('${', () => '$${');

/**
 * Replaces the placeholders of a text, and keeps the rest as literal text. Dollar signs directly before a placeholder
 * are part of the placeholder. `reference` returns undefined for text that only looks like a placeholder.
 */
export function withReferences(
  text: string,
  placeholder: RegExp,
  reference: (match: RegExpExecArray) => string | undefined,
): string {
  let out = '';
  let end = 0;
  for (const match of text.matchAll(placeholder)) {
    const found = reference(match);
    if (found === undefined) continue;
    out += literal(text.slice(end, match.index)) + found;
    end = match.index + match[0].length;
  }
  return out + literal(text.slice(end));
}
