/** Checksums that tell card and account numbers from other numbers. */

/** The first digits and lengths of the large networks. Times in milliseconds begin with 1, as no card does. */
const CARD =
  /^(?:4\d{12}(?:\d{3}){0,2}|5[1-5]\d{14}|2[2-7]\d{14}|3[47]\d{13}|3[0689]\d{12,17}|35\d{14,17}|(?:5[0678]|6)\d{11,17})$/;

/** Whether the digits can be a card number: a prefix of a network, and Luhn's checksum. */
function isCardNumber(text: string): boolean {
  const digits = text.replace(/\D/g, '');
  if (!CARD.test(digits) || /^(\d)\1*$/.test(digits)) return false;
  let sum = 0;
  for (let index = 0; index < digits.length; index++) {
    const digit = Number(digits[digits.length - 1 - index]);
    const doubled = index % 2 === 1 ? digit * 2 : digit;
    sum += doubled > 9 ? doubled - 9 : doubled;
  }
  return sum % 10 === 0;
}

/** The digits of printed cards, group by group. Other groups are rows of other numbers. */
const GROUPS = /^(?:\d{13,19}|\d{4}([ .-])\d{4}\1\d{4}\1\d{4}(?:\1\d{3})?|\d{4}([ .-])\d{6}\2\d{4,5})(?!\d)/;

/** The length of the card number at the beginning of a text of digits and separators; 0 if there is none. */
export function cardNumberIn(text: string): number {
  if (!/^[2-6]/.test(text)) return 0;
  if (isCardNumber(text)) return text.length;
  const found = GROUPS.exec(text)?.[0];
  return found !== undefined && isCardNumber(found) ? found.length : 0;
}

const IBAN_COUNTRIES: ReadonlySet<string> = new Set(
  (
    'AD AE AL AT AZ BA BE BG BH BI BR BY CH CR CY CZ DE DJ DK DO EE EG ES FI FK FO FR GB GE GI GL GR GT HN HR HU IE IL IQ ' +
    'IS IT JO KW KZ LB LC LI LT LU LV LY MC MD ME MK MN MR MT MU NI NL NO OM PK PL PS PT QA RO RS RU SA SC SD SE SI SK SM ' +
    'SO ST SV TL TN TR UA VA VG XK YE'
  ).split(' '),
);

/** The length of the IBAN at the beginning of a text; 0 if there is none. The words after it may look like a part of it. */
export function ibanIn(text: string): number {
  if (!IBAN_COUNTRIES.has(text.slice(0, 2).toUpperCase())) return 0;
  for (let length = text.length; length >= 15; length--) {
    // An IBAN ends where a word ends.
    if (/[A-Za-z0-9]/.test(text[length] ?? '') || !/[A-Za-z0-9]/.test(text[length - 1] ?? '')) continue;
    if (hasIbanChecksum(text.slice(0, length))) return length;
  }
  return 0;
}

/** The checksum of an IBAN (ISO 13616): the rearranged number modulo 97 is 1. */
function hasIbanChecksum(text: string): boolean {
  const compact = text.replace(/[ -]/g, '').toUpperCase();
  if (compact.length < 15 || compact.length > 34) return false;
  let rest = 0;
  for (const character of compact.slice(4) + compact.slice(0, 4)) {
    const value = Number.parseInt(character, 36);
    rest = (rest * (value > 9 ? 100 : 10) + value) % 97;
  }
  return rest === 1;
}
