/**
 * The texts of a card come from an untrusted agent and are shown to people and models. The gateway removes invisible
 * characters and limits the length (§7, card spoofing).
 */

// The characters to remove: control characters except line break and tab; invisible formatting and filler characters;
// tags and variation selectors, which can encode hidden text; unpaired surrogates. Joiners and the emoji selector are
// allowed.
const UNSEEN =
  /(?!\t|\n|\u200c|\u200d|\ufe0f)(?:\p{Cc}|\p{Cf}|\p{Cs}|\p{Zl}|\p{Zp}|\p{Default_Ignorable_Code_Point}|[\ufff0-\ufffb])/gu;

// Joiners are valid between letters of some scripts and between parts of some emoji, but not in a row or at an edge.
const STRAY_JOINERS = /[\u200c\u200d]{2,}|^[\u200c\u200d]+|[\u200c\u200d]+$/g;

/** Removes invisible characters and cuts the text to `most` characters. */
export function plainText(text: string, most: number): string {
  const seen = text.replace(/\r\n?/g, '\n').replace(UNSEEN, '').replace(STRAY_JOINERS, '').trim();
  if (seen.length <= most) return seen;
  const cut = seen.slice(0, most - 1).replace(/[\ud800-\udbff]$/, '');
  return `${cut.trimEnd()}…`;
}

/** Like `plainText`, on one line. */
export const plainLine = (text: string, most: number): string => plainText(text.replace(/\s+/g, ' '), most);

/** A link that a card may contain: http or https, without credentials. */
export function webLink(link: unknown): string | undefined {
  if (typeof link !== 'string' || link.length > 2_048 || !URL.canParse(link)) return undefined;
  const { protocol, username, password } = new URL(link);
  return /^https?:$/.test(protocol) && username === '' && password === '' ? link : undefined;
}
