import type { ScoreArray, TermPostings } from './score-array.js';
import type { Segment } from './segment.js';
import { hashOf } from './tokenize.js';

/** A document: its segment and its index in that segment. */
export interface Place {
  readonly segment: Segment;
  readonly index: number;
}

/** The tools that a caller sees. */
export interface VisibleTools {
  /** The names of the hidden tools of a server; undefined if the caller does not see the server. */
  hiddenOf(server: string): ReadonlySet<string> | undefined;
}

/** The documents that one query can find. */
export interface Seen {
  /** The number of documents. */
  readonly size: number;
  /** For each document, 1 if the document is hidden. Absent if no document is hidden. */
  readonly hidden?: Uint8Array;
}

interface MergedPostings extends TermPostings {
  readonly rarity: number;
}

/** The most terms whose merged postings are cached. */
const MOST_MERGED = 4_000;

/** The number of documents in a list of triples. */
function frequencyIn(list: readonly number[]): number {
  let frequency = 0;
  for (let at = 0; at < list.length; at += 3) frequency += list[at + 2]! - list[at + 1]!;
  return frequency;
}

/** The postings of all segments by term. Documents have numbers from 0, in the order of the segments. */
export class Postings {
  /**
   * For each term, the segments that contain the term, as triples: slot of the segment, start and end of its postings.
   */
  private readonly byTerm = new Map<number, number[]>();
  private readonly slots: (Segment | undefined)[] = [];
  private readonly slotOf = new Map<string, number>();
  /** The number of the first document of each slot. */
  private bases: number[] = [];
  private total = 0;
  /** The merged postings of terms that were searched for since the last change. */
  private readonly merged = new Map<number, MergedPostings>();

  /** The number of documents. */
  get size(): number {
    return this.total;
  }

  get terms(): number {
    return this.byTerm.size;
  }

  add(segment: Segment): void {
    this.remove(segment.server.name);
    let slot = this.slots.indexOf(undefined);
    if (slot < 0) slot = this.slots.length;
    this.slots[slot] = segment;
    this.slotOf.set(segment.server.name, slot);
    const { terms, starts } = segment;
    for (let index = 0; index < terms.length; index += 1) {
      const list = this.byTerm.get(terms[index]!);
      if (list) list.push(slot, starts[index]!, starts[index + 1]!);
      else this.byTerm.set(terms[index]!, [slot, starts[index]!, starts[index + 1]!]);
    }
    this.renumber();
  }

  remove(server: string): void {
    const slot = this.slotOf.get(server);
    if (slot === undefined) return;
    for (const term of this.slots[slot]!.terms) {
      const list = this.byTerm.get(term)!;
      for (let at = 0; at < list.length; at += 3) {
        if (list[at] !== slot) continue;
        list.splice(at, 3);
        break;
      }
      if (list.length === 0) this.byTerm.delete(term);
    }
    this.slotOf.delete(server);
    this.slots[slot] = undefined;
    this.renumber();
  }

  /**
   * The documents that a caller sees. The result is valid for one query only, because a change of the segments makes it
   * wrong.
   */
  seen(visible: VisibleTools | undefined): Seen {
    const { total } = this;
    if (!visible) return { size: total };
    const hidden = new Uint8Array(total);
    let size = total;
    for (const [slot, segment] of this.slots.entries()) {
      if (!segment) continue;
      const base = this.bases[slot]!;
      const names = visible.hiddenOf(segment.server.name);
      if (!names) {
        hidden.fill(1, base, base + segment.size);
        size -= segment.size;
        continue;
      }
      for (const name of names) {
        const index = segment.indexOf(name);
        if (index === undefined) continue;
        hidden[base + index] = 1;
        size -= 1;
      }
    }
    return size === total ? { size } : { size, hidden };
  }

  /**
   * Adds the value of a term to the score of each visible document that has the term. Skips documents that already have
   * `most` terms. With `raise`, only raises the score to that value.
   */
  score(
    scores: ScoreArray,
    term: string,
    weight: number,
    seen: Seen,
    { raise = false, most = Number.POSITIVE_INFINITY }: { readonly raise?: boolean; readonly most?: number } = {},
  ): void {
    const all = this.postingsOf(hashOf(term));
    if (!all) return;
    const { hidden, size } = seen;
    const postings = hidden ? withoutHidden(all, hidden) : all;
    const rarity = hidden ? rarityOf(postings.documents.length, size) : all.rarity;
    if (raise) scores.raisePostings(postings, weight * rarity);
    else scores.addPostings(postings, weight * rarity, most);
  }

  /**
   * The merged postings of a term over all segments. One loop over merged postings is faster than one loop per segment.
   */
  private postingsOf(term: number): MergedPostings | undefined {
    const known = this.merged.get(term);
    if (known) return known;
    const list = this.byTerm.get(term);
    if (!list) return undefined;
    const size = frequencyIn(list);
    const documents = new Uint32Array(size);
    const impacts = new Float32Array(size);
    let next = 0;
    for (let at = 0; at < list.length; at += 3) {
      const base = this.bases[list[at]!]!;
      const segment = this.slots[list[at]!]!;
      for (let index = list[at + 1]!; index < list[at + 2]!; index += 1) {
        documents[next] = base + segment.documents[index]!;
        impacts[next] = segment.impacts[index]!;
        next += 1;
      }
    }
    const postings = { documents, impacts, rarity: rarityOf(size, this.total) };
    if (this.merged.size >= MOST_MERGED) this.merged.clear();
    this.merged.set(term, postings);
    return postings;
  }

  /** The value of a term for one document. */
  worth(document: number, term: string, seen: Seen): number {
    const list = this.byTerm.get(hashOf(term)) ?? [];
    const { segment, index: wanted } = this.place(document);
    for (let at = 0; at < list.length; at += 3) {
      if (this.slots[list[at]!] !== segment) continue;
      for (let index = list[at + 1]!; index < list[at + 2]!; index += 1)
        if (segment.documents[index] === wanted) return this.rarity(term, seen) * segment.impacts[index]!;
    }
    return 0;
  }

  /** The inverse document frequency of a term among the visible documents. */
  rarity(term: string, seen: Seen): number {
    const known = seen.hidden ? undefined : this.merged.get(hashOf(term))?.rarity;
    return known ?? rarityOf(this.frequency(term, seen), seen.size);
  }

  /** The number of visible documents that have a term. */
  frequency(term: string, { hidden }: Seen): number {
    const hash = hashOf(term);
    const known = hidden ? undefined : this.merged.get(hash)?.documents.length;
    if (known !== undefined) return known;
    const list = this.byTerm.get(hash) ?? [];
    return hidden ? this.seenFrequency(list, hidden) : frequencyIn(list);
  }

  private seenFrequency(list: readonly number[], hidden: Uint8Array): number {
    let frequency = 0;
    for (let at = 0; at < list.length; at += 3) {
      const base = this.bases[list[at]!]!;
      const { documents } = this.slots[list[at]!]!;
      for (let index = list[at + 1]!; index < list[at + 2]!; index += 1)
        if (hidden[base + documents[index]!] === 0) frequency += 1;
    }
    return frequency;
  }

  /** The number of a document, or undefined if its server no longer has it. */
  find(server: string, name: string): number | undefined {
    const slot = this.slotOf.get(server);
    const index = slot === undefined ? undefined : this.slots[slot]!.indexOf(name);
    return index === undefined ? undefined : this.bases[slot!]! + index;
  }

  place(document: number): Place {
    // Finds the last slot that begins at or before the document. An empty slot begins where the next slot begins.
    let low = 0;
    let high = this.bases.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.bases[middle]! <= document) low = middle;
      else high = middle - 1;
    }
    return { segment: this.slots[low]!, index: document - this.bases[low]! };
  }

  private renumber(): void {
    this.merged.clear();
    this.total = 0;
    this.bases = this.slots.map((segment) => {
      const base = this.total;
      this.total += segment?.size ?? 0;
      return base;
    });
    // A slot without documents at the end must not be found for the last document.
    while (this.slots.length > 0 && !this.slots.at(-1)) {
      this.slots.pop();
      this.bases.pop();
    }
  }
}

const rarityOf = (frequency: number, size: number): number =>
  Math.log(1 + (size - frequency + 0.5) / (frequency + 0.5));

function withoutHidden({ documents, impacts }: TermPostings, hidden: Uint8Array): TermPostings {
  const kept = documents.filter((document) => hidden[document] === 0);
  if (kept.length === documents.length) return { documents, impacts };
  return { documents: kept, impacts: impacts.filter((_, index) => hidden[documents[index]!] === 0) };
}
