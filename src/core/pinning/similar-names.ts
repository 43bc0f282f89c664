/**
 * Finds names that a person or a model can confuse with the name of another server's item (S21). They differ by a
 * letter of another script with the same shape, a digit for a letter, two swapped letters or a doubled letter. Equal
 * names do not count, because the server's prefix distinguishes them. Other spellings of a name (`list_issues`,
 * `listIssues`) do not count either.
 */

/** Letters of other scripts, and digits, with the shape of a Latin letter. */
const SHAPES: Readonly<Record<string, string>> = {
  ...{ а: 'a', в: 'b', е: 'e', ё: 'e', һ: 'h', і: 'l', ї: 'l', ј: 'j', к: 'k', м: 'm', н: 'h', о: 'o', р: 'p', с: 'c' },
  ...{ т: 't', у: 'y', х: 'x', ѕ: 's', ԁ: 'd', ԛ: 'q', ԝ: 'w', ɡ: 'g', ı: 'l', ℓ: 'l' },
  ...{ α: 'a', β: 'b', ε: 'e', η: 'n', ι: 'l', κ: 'k', ν: 'v', ο: 'o', ρ: 'p', τ: 't', υ: 'u', χ: 'x', ω: 'w' },
  ...{ '0': 'o', '1': 'l', i: 'l', '|': 'l' },
};

/** Shorter names are too often similar by chance. */
const SHORTEST = 5;

/** The name without case, separators and hidden characters. */
const plain = (name: string): string =>
  name
    .normalize('NFKC')
    .toLowerCase()
    .replace(/[\s_.\-/]|[\p{Cf}\p{Cc}\p{Mn}]/gu, '');

const skeleton = (text: string): string =>
  [...text]
    .map((letter) => SHAPES[letter] ?? letter)
    .join('')
    .replace(/rn/g, 'm');

const sorted = (text: string): string => [...text].sort().join('');
const undoubled = (text: string): string => text.replace(/(\D)\1+/gu, '$1');

/** Whether the texts differ by one swap of two neighbours that are not digits: `page12` and `page21` are ordinary. */
function swapped(a: string, b: string): boolean {
  if (a.length !== b.length) return false;
  let at = 0;
  while (at < a.length && a[at] === b[at]) at++;
  if (/\d/.test(a[at] ?? '')) return false;
  return a[at] === b[at + 1] && a[at + 1] === b[at] && a.slice(at + 2) === b.slice(at + 2);
}

interface Entry {
  readonly server: string;
  readonly name: string;
  readonly plain: string;
}

export interface SimilarName {
  readonly server: string;
  readonly name: string;
}

/** An index over names, in which a lookup takes the same time however many names there are. */
export class SimilarNames {
  private readonly index = new Map<string, Entry[]>();

  add(server: string, name: string): void {
    const entry = { server, name, plain: plain(name) };
    if (entry.plain.length < SHORTEST) return;
    for (const key of keysOf(entry.plain)) {
      const found = this.index.get(key);
      // A few examples of one form are enough for an answer.
      if (!found) this.index.set(key, [entry]);
      else if (found.length < MOST_ALIKE) found.push(entry);
    }
  }

  /** A name of another server that looks like the given name but is not equal to it. */
  find(server: string, name: string): SimilarName | undefined {
    const own = plain(name);
    if (own.length < SHORTEST) return undefined;
    const [shape, letters, single] = keysOf(own);
    const search = (key: string, fits: (other: Entry) => boolean): SimilarName | undefined =>
      this.index.get(key)?.find((other) => other.server !== server && other.plain !== own && fits(other));
    return (
      search(shape, () => true) ??
      search(letters, (other) => swapped(own, other.plain)) ??
      search(single, (other) => Math.abs(own.length - other.plain.length) === 1)
    );
  }
}

const MOST_ALIKE = 16;

const keysOf = (text: string): [string, string, string] => [
  `shape ${skeleton(text)}`,
  `letters ${sorted(text)}`,
  `single ${undoubled(text)}`,
];
