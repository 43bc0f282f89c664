/**
 * Texts of a card are a stranger's words, and end up before people and models. They are passed on without what cannot be
 * seen, and no longer than a description is (§7, card spoofing).
 */

// Controls but line break and tab; characters that format or fill and show nothing; tags and variation selectors, which can
// spell hidden text; halves of surrogate pairs. Joiners and the selector of emoji are not among them.
const UNSEEN =
  /(?!\t|\n|\u200c|\u200d|\ufe0f)(?:\p{Cc}|\p{Cf}|\p{Cs}|\p{Zl}|\p{Zp}|\p{Default_Ignorable_Code_Point}|[\ufff0-\ufffb])/gu;

// Joiners belong between the letters of some scripts and the parts of some emoji; a row of them, or one at an edge, does not.
const STRAY_JOINERS = /[\u200c\u200d]{2,}|^[\u200c\u200d]+|[\u200c\u200d]+$/g;

/** `text` without what cannot be seen, cut to `most` characters. */
export function plainText(text: string, most: number): string {
  const seen = text.replace(/\r\n?/g, '\n').replace(UNSEEN, '').replace(STRAY_JOINERS, '').trim();
  if (seen.length <= most) return seen;
  const cut = seen.slice(0, most - 1).replace(/[\ud800-\udbff]$/, '');
  return `${cut.trimEnd()}…`;
}

/** The same on one line. */
export const plainLine = (text: string, most: number): string => plainText(text.replace(/\s+/g, ' '), most);

/** A link that may stand in a card: the web's schemes, and nobody's credentials. */
export function webLink(link: unknown): string | undefined {
  if (typeof link !== 'string' || link.length > 2_048 || !URL.canParse(link)) return undefined;
  const { protocol, username, password } = new URL(link);
  return /^https?:$/.test(protocol) && username === '' && password === '' ? link : undefined;
}
