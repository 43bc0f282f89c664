/** A name pattern in which `*` stands for any characters. Case does not matter. */
export interface Glob {
  test(name: string): boolean;
}

/** The match takes time linear in the name for every pattern: names come from servers and may be long (S10). */
export function globOf(pattern: string): Glob {
  const [first = '', ...rest] = pattern.toLowerCase().split('*');
  const last = rest.pop();
  return {
    test: (given) => {
      const name = given.toLowerCase();
      if (last === undefined) return name === first;
      if (!name.startsWith(first) || !name.endsWith(last) || name.length < first.length + last.length) return false;
      const end = name.length - last.length;
      let at = first.length;
      for (const part of rest) {
        const found = name.indexOf(part, at);
        if (found < 0 || found + part.length > end) return false;
        at = found + part.length;
      }
      return true;
    },
  };
}
