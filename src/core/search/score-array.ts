/** The documents that have a term, and the weight of the term in each. */
export interface TermPostings {
  readonly documents: Uint32Array;
  readonly impacts: Float32Array;
}

/** The scores of documents during one query. The next query uses the same arrays. */
export class ScoreArray {
  private values = new Float32Array(0);
  private touched = new Uint32Array(0);
  /** For each document, the number of terms that were added. */
  private added = new Uint16Array(0);
  private count = 0;

  /** Clears the scores and makes room for `size` documents. */
  reset(size: number): void {
    if (this.values.length < size) {
      this.values = new Float32Array(size);
      this.touched = new Uint32Array(size);
      this.added = new Uint16Array(size);
    } else {
      const { values, touched, added, count } = this;
      // If many scores are set, clearing the whole array is faster than clearing them one by one.
      if (count > values.length / 8) {
        values.fill(0);
        added.fill(0);
      } else {
        for (let index = 0; index < count; index += 1) {
          values[touched[index]!] = 0;
          added[touched[index]!] = 0;
        }
      }
    }
    this.count = 0;
  }

  of(document: number): number {
    return this.values[document]!;
  }

  /** Adds to the score of a document. `amount` must be above 0. */
  add(document: number, amount: number): void {
    const value = this.values[document]!;
    if (value === 0) this.touch(document);
    this.values[document] = value + amount;
  }

  /** Sets the score of a document to the amount if the amount is larger. */
  raise(document: number, amount: number): void {
    const value = this.values[document]!;
    if (value === 0) this.touch(document);
    if (amount > value) this.values[document] = amount;
  }

  /**
   * Adds `factor` times the impact of each posting, except to documents that already have `most` terms. A search spends
   * most of its time in this loop, so the loop calls no function.
   */
  addPostings({ documents, impacts }: TermPostings, factor: number, most: number): void {
    const { values, touched, added } = this;
    let { count } = this;
    for (let index = 0; index < documents.length; index += 1) {
      const document = documents[index]!;
      if (added[document]! >= most) continue;
      added[document]! += 1;
      const value = values[document]!;
      if (value === 0) {
        touched[count] = document;
        count += 1;
      }
      values[document] = value + factor * impacts[index]!;
    }
    this.count = count;
  }

  /** Raises scores to `factor` times the impact of each posting. */
  raisePostings({ documents, impacts }: TermPostings, factor: number): void {
    const { values, touched } = this;
    let { count } = this;
    for (let index = 0; index < documents.length; index += 1) {
      const document = documents[index]!;
      const value = values[document]!;
      const amount = factor * impacts[index]!;
      if (value === 0) {
        touched[count] = document;
        count += 1;
      }
      if (amount > value) values[document] = amount;
    }
    this.count = count;
  }

  /** Adds the scores of another query, each times a factor. */
  addAll(other: ScoreArray, factor: number): void {
    const { values, touched } = this;
    const { values: others, touched: given, count: most } = other;
    let { count } = this;
    for (let index = 0; index < most; index += 1) {
      const document = given[index]!;
      const value = values[document]!;
      if (value === 0) {
        touched[count] = document;
        count += 1;
      }
      values[document] = value + others[document]! * factor;
    }
    this.count = count;
  }

  /** Raises each score to that of another query, times a factor. */
  raiseAll(other: ScoreArray, factor: number): void {
    const { values, touched } = this;
    const { values: others, touched: given, count: most } = other;
    let { count } = this;
    for (let index = 0; index < most; index += 1) {
      const document = given[index]!;
      const value = values[document]!;
      const amount = others[document]! * factor;
      if (value === 0) {
        touched[count] = document;
        count += 1;
      }
      if (amount > value) values[document] = amount;
    }
    this.count = count;
  }

  /** Multiplies all scores by a factor above 0. */
  scale(factor: number): void {
    const { values, touched, count } = this;
    for (let index = 0; index < count; index += 1) values[touched[index]!]! *= factor;
  }

  highest(): number {
    const { values, touched, count } = this;
    let highest = 0;
    for (let index = 0; index < count; index += 1) {
      const value = values[touched[index]!]!;
      if (value > highest) highest = value;
    }
    return highest;
  }

  /**
   * The best documents, best first. Documents with equal scores keep their order. `accept` may be expensive, so it is
   * called only for documents that would be among the best.
   */
  best(most: number, accept: (document: number) => boolean): number[] {
    const { values, touched, count } = this;
    const found: number[] = [];
    let lowest = 0;
    for (let index = 0; index < count; index += 1) {
      const document = touched[index]!;
      // Most documents are skipped here without a function call.
      if (values[document]! < lowest) continue;
      const last = found[most - 1];
      if (last !== undefined && !this.before(document, last)) continue;
      if (!accept(document)) continue;
      let at = found.length;
      while (at > 0 && this.before(document, found[at - 1]!)) at -= 1;
      found.splice(at, 0, document);
      if (found.length > most) found.pop();
      if (found.length === most) lowest = values[found[most - 1]!]!;
    }
    return found;
  }

  private before(a: number, b: number): boolean {
    const difference = this.values[a]! - this.values[b]!;
    return difference > 0 || (difference === 0 && a < b);
  }

  private touch(document: number): void {
    this.touched[this.count] = document;
    this.count += 1;
  }
}
