/** Text that is already HTML. */
export class Html {
  constructor(readonly text: string) {}
}

type Part = string | number | Html | undefined | false | readonly Part[];

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/**
 * Characters that change the direction of text or are invisible: with them, a name could look like a different name.
 */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Co}\p{Cn}\u2028\u2029]/gu;

export const escapeHtml = (text: string): string =>
  text.replace(INVISIBLE, '\ufffd').replace(/[&<>"']/g, (character) => ESCAPES[character]!);

/** A template whose values are escaped, except for `Html`. */
export function html(strings: TemplateStringsArray, ...parts: Part[]): Html {
  let text = strings[0]!;
  for (const [index, part] of parts.entries()) text += shown(part) + strings[index + 1]!;
  return new Html(text);
}

function shown(part: Part): string {
  if (part === undefined || part === false) return '';
  if (part instanceof Html) return part.text;
  return Array.isArray(part) ? part.map(shown).join('') : escapeHtml(String(part));
}
