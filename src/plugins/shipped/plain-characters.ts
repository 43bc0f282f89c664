/** Texts in plain characters: look-alikes, escapes and invisible characters hide data from patterns. */

const DISGUISED =
  /(?![\x00-\x7f])[\p{Default_Ignorable_Code_Point}\p{Nd}\p{Pd}\p{Zs}\u2212\uff01-\uff5e\u2070-\u2089\u2460-\u2468\u24b6-\u24e9\u{1d400}-\u{1d7cb}]|\\u00[2-7][\da-f]|&#(?:x0{0,4}[2-7][\da-f]|0{0,4}\d{2,3});/giu;
/** Texts without these characters are plain. */
const MAY_BE_DISGUISED = /[^\x00-\x7f]|\\u00|&#/;
/** The rest of the text could not be read without these. */
const KEPT = /["'\\&<>]/;

/** The text with full-width and styled letters, digits of any script, spaces and dashes in ASCII. */
export function plainCharacters(text: string): string {
  return MAY_BE_DISGUISED.test(text) ? text.replace(DISGUISED, plain) : text;
}

function plain(found: string): string {
  if (found.charCodeAt(0) < 0x80) return ofEscape(found);
  if (/\p{Pd}|\u2212/u.test(found)) return '-';
  if (/\p{Zs}/u.test(found)) return ' ';
  if (/\p{Default_Ignorable_Code_Point}/u.test(found)) return '';
  const normal = found.normalize('NFKC');
  if (normal.length === 1 && normal < '\u0080') return normal;
  return /\p{Nd}/u.test(found) ? digitOf(found) : found;
}

function ofEscape(written: string): string {
  const digits = written.slice(2).replace(/;$/, '');
  const code = written.startsWith('\\')
    ? Number.parseInt(digits, 16)
    : Number(/^x/i.test(digits) ? `0${digits}` : digits);
  const character = String.fromCharCode(code);
  return code < 0x20 || code > 0x7e || KEPT.test(character) ? written : character;
}

/** The value of a decimal digit: the digits of each script are ten characters in a row. */
function digitOf(digit: string): string {
  const code = digit.codePointAt(0) ?? 0;
  let value = 0;
  while (value < 9 && /\p{Nd}/u.test(String.fromCodePoint(code - value - 1))) value += 1;
  return String(value);
}
