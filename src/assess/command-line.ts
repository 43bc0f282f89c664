/** Splits a command into words, with quotes in the manner of a shell and without its expansions. */
export function splitCommand(text: string): string[] {
  const words: string[] = [];
  let word: string | undefined;
  let quote: string | undefined;
  for (let i = 0; i < text.length; i++) {
    const each = text[i]!;
    if (quote !== undefined) {
      if (each === quote) quote = undefined;
      else if (each === '\\' && quote === '"' && i + 1 < text.length) word += text[++i]!;
      else word += each;
    } else if (each === '"' || each === "'") {
      quote = each;
      word ??= '';
    } else if (each === '\\' && i + 1 < text.length) word = `${word ?? ''}${text[++i]}`;
    else if (/\s/.test(each)) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else word = `${word ?? ''}${each}`;
  }
  if (quote !== undefined) throw new Error(`a quote ${quote} is not closed`);
  if (word !== undefined) words.push(word);
  return words;
}
