import { analyse, type SearchDocument, type SearchServer } from './weighted-fields.js';

/**
 * The documents of one server, with the postings of all their terms in flat arrays. A segment never changes. A server
 * whose list changes gets a new segment, and the segments of other servers stay.
 */
export class Segment {
  readonly names: readonly string[];
  readonly stuffed: readonly boolean[];
  /** The factor of each document's scores. Impacts include it already. */
  readonly trusts: Float32Array;
  /** The hashes of the terms. The postings of `terms[i]` are at `starts[i]` to `starts[i + 1]`. */
  readonly terms: Uint32Array;
  readonly starts: Uint32Array;
  readonly documents: Uint32Array;
  readonly impacts: Float32Array;
  /** The sorted terms of the name and the description of each document. */
  readonly texts: readonly Uint32Array[];
  readonly shapes: Uint32Array;
  private readonly indexes = new Map<string, number>();

  constructor(
    readonly server: SearchServer,
    documents: readonly SearchDocument[],
  ) {
    const analysed = documents.map((document) => analyse(document, server));
    this.names = documents.map(({ key, name }) => key ?? name);
    this.stuffed = analysed.map(({ stuffed }) => stuffed);
    this.trusts = Float32Array.from(analysed, ({ trust }) => trust);
    this.texts = analysed.map(({ text }) => text);
    this.shapes = Uint32Array.from(analysed, ({ shape }) => shape);
    for (const [index, name] of this.names.entries()) this.indexes.set(name, index);
    const counts = new Map<number, number>();
    let total = 0;
    for (const { impacts } of analysed) {
      total += impacts.size;
      for (const term of impacts.keys()) counts.set(term, (counts.get(term) ?? 0) + 1);
    }
    this.terms = Uint32Array.from(counts.keys());
    this.starts = new Uint32Array(counts.size + 1);
    this.documents = new Uint32Array(total);
    this.impacts = new Float32Array(total);
    /** The index of the next posting of each term. */
    const next = new Map<number, number>();
    let start = 0;
    for (const [index, term] of this.terms.entries()) {
      this.starts[index] = start;
      next.set(term, start);
      start += counts.get(term)!;
    }
    this.starts[this.terms.length] = total;
    for (const [document, { impacts }] of analysed.entries()) {
      for (const [term, impact] of impacts) {
        const at = next.get(term)!;
        this.documents[at] = document;
        this.impacts[at] = impact;
        next.set(term, at + 1);
      }
    }
  }

  get size(): number {
    return this.names.length;
  }

  indexOf(name: string): number | undefined {
    return this.indexes.get(name);
  }
}

/** Texts of two tools are nearly the same if they share at least this part of their terms (Jaccard index). */
const DUPLICATE = 0.95;

/** Whether two documents have nearly the same names and descriptions, and equal names of parameters. */
export function alike(a: DocumentOf, b: DocumentOf): boolean {
  if (a.segment.shapes[a.index] !== b.segment.shapes[b.index]) return false;
  const one = a.segment.texts[a.index]!;
  const other = b.segment.texts[b.index]!;
  if (one.length === 0 || Math.min(one.length, other.length) < DUPLICATE * Math.max(one.length, other.length))
    return false;
  let shared = 0;
  for (let left = 0, right = 0; left < one.length && right < other.length; ) {
    if (one[left] === other[right]) {
      shared += 1;
      left += 1;
      right += 1;
    } else if (one[left]! < other[right]!) left += 1;
    else right += 1;
  }
  return shared >= DUPLICATE * (one.length + other.length - shared);
}

interface DocumentOf {
  readonly segment: Segment;
  readonly index: number;
}
