import type { Scores } from './scores.js';
import type { Segment } from './segment.js';
import { hashOf } from './tokenize.js';

/** A document: its segment and its place in it. */
export interface Place {
  readonly segment: Segment;
  readonly index: number;
}

/** The postings of all segments by term. Documents have numbers from 0, in the order of the segments. */
export class Postings {
  /** For each term the segments that have it, as triples: slot of the segment, start and end of its postings. */
  private readonly byTerm = new Map<number, number[]>();
  private readonly slots: (Segment | undefined)[] = [];
  private readonly slotOf = new Map<string, number>();
  /** The number of the first document of each slot. */
  private bases: number[] = [];
  private total = 0;

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

  /** Adds what a term is worth to the score of each document that has it; with `raise`, the score is at least that. */
  score(scores: Scores, term: string, weight: number, raise = false): void {
    const list = this.byTerm.get(hashOf(term));
    if (!list) return;
    const rarity = weight * this.rarityOf(list);
    for (let at = 0; at < list.length; at += 3) {
      const base = this.bases[list[at]!]!;
      const { documents, impacts } = this.slots[list[at]!]!;
      const end = list[at + 2]!;
      for (let index = list[at + 1]!; index < end; index += 1) {
        const amount = rarity * impacts[index]!;
        if (raise) scores.raise(base + documents[index]!, amount);
        else scores.add(base + documents[index]!, amount);
      }
    }
  }

  /** The inverse document frequency of a term. */
  rarity(term: string): number {
    return this.rarityOf(this.byTerm.get(hashOf(term)) ?? []);
  }

  /** The number of a document, or undefined if its server no longer has it. */
  find(server: string, name: string): number | undefined {
    const slot = this.slotOf.get(server);
    const index = slot === undefined ? undefined : this.slots[slot]!.indexOf(name);
    return index === undefined ? undefined : this.bases[slot!]! + index;
  }

  place(document: number): Place {
    // The last slot that begins at or before the document; an empty slot begins where the next one does.
    let low = 0;
    let high = this.bases.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.bases[middle]! <= document) low = middle;
      else high = middle - 1;
    }
    return { segment: this.slots[low]!, index: document - this.bases[low]! };
  }

  private rarityOf(list: readonly number[]): number {
    let frequency = 0;
    for (let at = 0; at < list.length; at += 3) frequency += list[at + 2]! - list[at + 1]!;
    return Math.log(1 + (this.total - frequency + 0.5) / (frequency + 0.5));
  }

  private renumber(): void {
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
