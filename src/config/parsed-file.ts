import {
  type Alias,
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Pair,
  parseDocument,
} from 'yaml';
import type { Origin, Problems } from './problem.js';

export type RawValue = string | number | boolean | null;

/** The parsed file before validation. Every node has its position in the file. */
export type Raw = RawScalar | RawMap | RawList;

export interface RawScalar {
  readonly kind: 'scalar';
  readonly value: RawValue;
  readonly origin: Origin;
  /** Whether `${…}` in the value stays as it is, which is the case for values of environment variables. */
  readonly literal?: boolean;
}

/** A Map, not an object: keys such as `__proto__` and `constructor` are ordinary names here. */
export interface RawMap {
  readonly kind: 'map';
  readonly entries: Map<string, RawEntry>;
  readonly origin: Origin;
}

export interface RawEntry {
  readonly node: Raw;
  readonly origin: Origin;
}

export interface RawList {
  readonly kind: 'list';
  readonly items: Raw[];
  readonly origin: Origin;
}

/**
 * YAML aliases can expand a small file into huge or infinite values. These limits are far above real configurations.
 */
const MAX_NODES = 100_000;
const MAX_DEPTH = 50;
const FLATTEN = 'write the values with fewer levels, and without nested aliases';
/** Limit on the reported errors, because one mistake can cause many errors of the parser. */
const MAX_FAULTS = 10;

export function emptyMap(origin: Origin = {}): RawMap {
  return { kind: 'map', entries: new Map(), origin };
}

export function scalar(value: RawValue, origin: Origin): RawScalar {
  return { kind: 'scalar', value, origin };
}

/** Reads YAML, or JSON as editors write it: with comments, trailing commas and tabs. */
export function parseText(text: string, format: 'yaml' | 'json', origin: Origin, problems: Problems): Raw | undefined {
  const lines = new LineCounter();
  const source = format === 'json' ? plainJson(text) : text.replace(/^\uFEFF/, '');
  const document = parseDocument(source, {
    lineCounter: lines,
    prettyErrors: false,
    merge: true,
    stringKeys: true,
    // `silent` would also hide that the text has several documents, of which only the first is read.
    logLevel: 'error',
  });
  const lineOf = (offset: number | undefined): Origin =>
    origin.variable !== undefined || offset === undefined ? origin : { ...origin, line: lines.linePos(offset).line };
  const faults = [...document.errors, ...document.warnings];
  const deep = faults.some(({ message }) => message.startsWith('Maximum call stack'));
  if (deep) problems.error('syntax', '', `values are nested more than ${MAX_DEPTH} deep`, FLATTEN, origin);
  for (const fault of deep ? [] : faults.slice(0, MAX_FAULTS)) {
    // The message does not quote the text of the error, because the text may be a secret.
    const message = (fault.message.split('\n')[0] ?? '').replace(/: ".*$|[.:]$/, '');
    problems.error('syntax', '', message, `correct the ${format.toUpperCase()} here`, lineOf(fault.pos[0]));
  }
  if (faults.length > 0) return undefined;
  try {
    return new Reader(document, lineOf).read(document.contents);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    problems.error('syntax', '', error.message, FLATTEN, origin);
    return undefined;
  }
}

class Reader {
  #nodes = 0;

  constructor(
    private readonly document: Document,
    private readonly lineOf: (offset: number | undefined) => Origin,
  ) {}

  read(node: unknown, depth = 0): Raw {
    this.#nodes += 1;
    if (this.#nodes > MAX_NODES) throw new RangeError(`aliases expand to more than ${MAX_NODES} values`);
    if (depth > MAX_DEPTH) throw new RangeError(`values are nested more than ${MAX_DEPTH} deep`);
    if (isAlias(node)) return this.read((node as Alias).resolve(this.document), depth + 1);
    const origin = this.lineOf((node as { range?: [number, number, number] | null } | null)?.range?.[0]);
    if (isMap(node)) return this.readMap(node.items, origin, depth + 1);
    if (isSeq(node)) return { kind: 'list', items: node.items.map((item) => this.read(item, depth + 1)), origin };
    const value = isScalar(node) ? node.value : null;
    return scalar(typeof value === 'bigint' ? value.toString() : (value as RawValue), origin);
  }

  private readMap(items: readonly Pair[], origin: Origin, depth: number): RawMap {
    const map = emptyMap(origin);
    const own = new Map<string, RawEntry>();
    for (const { key, value } of items) {
      const name = isScalar(key) ? key.value : key;
      const at = isScalar(key) ? this.lineOf(key.range?.[0]) : origin;
      if (name === '<<' || typeof name === 'symbol') this.merge(map, this.read(value, depth));
      else own.set(String(name), { node: this.read(value, depth), origin: at });
    }
    for (const [name, entry] of own) map.entries.set(name, entry);
    return map;
  }

  private merge(map: RawMap, merged: Raw): void {
    const sources = merged.kind === 'list' ? merged.items : [merged];
    for (const source of sources) {
      if (source.kind !== 'map') continue;
      for (const [name, entry] of source.entries) if (!map.entries.has(name)) map.entries.set(name, entry);
    }
  }
}

/** A configuration that a program supplies instead of a file. */
export function fromValue(value: unknown, origin: Origin): Raw {
  if (Array.isArray(value)) return { kind: 'list', items: value.map((item) => fromValue(item, origin)), origin };
  if (typeof value === 'object' && value !== null) {
    const map = emptyMap(origin);
    for (const [name, item] of Object.entries(value)) {
      if (item !== undefined) map.entries.set(name, { node: fromValue(item, origin), origin });
    }
    return map;
  }
  return scalar(value === undefined ? null : (value as RawValue), origin);
}

/** Replaces comments, trailing commas, tabs and a byte order mark with spaces, so that every offset stays the same. */
function plainJson(text: string): string {
  const out = [...text.replace(/^\uFEFF/, ' ')];
  const blank = (from: number, to: number): void => {
    for (let i = from; i < to; i++) if (out[i] !== '\n') out[i] = ' ';
  };
  let comma = -1;
  for (let i = 0; i < out.length; i++) {
    const char = out[i] ?? '';
    if (char === '"') {
      comma = -1;
      i = endOfString(out, i);
    } else if (char === '/' && out[i + 1] === '/') {
      const end = out.indexOf('\n', i);
      blank(i, end === -1 ? out.length : end);
    } else if (char === '/' && out[i + 1] === '*') {
      let end = i + 2;
      while (end < out.length && !(out[end] === '*' && out[end + 1] === '/')) end += 1;
      blank(i, Math.min(end + 2, out.length));
      i = end + 1;
    } else if (char === ',') {
      comma = i;
    } else if (char === '}' || char === ']') {
      if (comma !== -1) blank(comma, comma + 1);
      comma = -1;
    } else if (char === '\t' || char === '\r') {
      out[i] = ' ';
    } else if (!/\s/.test(char)) {
      comma = -1;
    }
  }
  return out.join('');
}

function endOfString(chars: readonly string[], start: number): number {
  for (let i = start + 1; i < chars.length; i++) {
    if (chars[i] === '\\') i += 1;
    else if (chars[i] === '"') return i;
  }
  return chars.length;
}
