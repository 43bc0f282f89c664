/** Scores of documents while one query is answered. The next query uses the same arrays. */
export class Scores {
  private values = new Float32Array(0);
  private touched = new Uint32Array(0);
  private count = 0;

  /** Clears the scores and makes room for `size` documents. */
  reset(size: number): void {
    if (this.values.length < size) {
      this.values = new Float32Array(size);
      this.touched = new Uint32Array(size);
    } else {
      for (let index = 0; index < this.count; index += 1) this.values[this.touched[index]!] = 0;
    }
    this.count = 0;
  }

  of(document: number): number {
    return this.values[document]!;
  }

  /** `amount` is above 0. */
  add(document: number, amount: number): void {
    const value = this.values[document]!;
    if (value === 0) this.touch(document);
    this.values[document] = value + amount;
  }

  /** Keeps the larger of the score and the amount. */
  raise(document: number, amount: number): void {
    const value = this.values[document]!;
    if (value === 0) this.touch(document);
    if (amount > value) this.values[document] = amount;
  }

  /** Adds the scores of another query, each times a factor. */
  addAll(other: Scores, factor: number): void {
    for (let index = 0; index < other.count; index += 1) {
      const document = other.touched[index]!;
      this.add(document, other.values[document]! * factor);
    }
  }

  /** Raises each score to that of another query, times a factor. */
  raiseAll(other: Scores, factor: number): void {
    for (let index = 0; index < other.count; index += 1) {
      const document = other.touched[index]!;
      this.raise(document, other.values[document]! * factor);
    }
  }

  highest(): number {
    let highest = 0;
    for (let index = 0; index < this.count; index += 1) {
      const value = this.values[this.touched[index]!]!;
      if (value > highest) highest = value;
    }
    return highest;
  }

  /**
   * The best documents, best first, equal scores in the order of documents. `accept` is asked only for documents that
   * would be among the best: it may be expensive.
   */
  best(most: number, accept: (document: number) => boolean): number[] {
    const found: number[] = [];
    for (let index = 0; index < this.count; index += 1) {
      const document = this.touched[index]!;
      const last = found[most - 1];
      if (last !== undefined && !this.before(document, last)) continue;
      if (!accept(document)) continue;
      let at = found.length;
      while (at > 0 && this.before(document, found[at - 1]!)) at -= 1;
      found.splice(at, 0, document);
      if (found.length > most) found.pop();
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
