/** Checksums that tell card and account numbers from other numbers. */

/** The first digits and lengths of the large networks. Times in milliseconds begin with 1, as no card does. */
const CARD =
  /^(?:4\d{12}(?:\d{3}){0,2}|5[1-5]\d{14}|2[2-7]\d{14}|3[47]\d{13}|3[0689]\d{12,17}|35\d{14,17}|(?:5[0678]|6)\d{11,17})$/;

/** Whether the digits can be a card number: a prefix of a network, and Luhn's checksum. */
export function isCardNumber(text: string): boolean {
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

/** The checksum of an IBAN (ISO 13616): the rearranged number modulo 97 is 1. */
export function hasIbanChecksum(text: string): boolean {
  const compact = text.replaceAll(' ', '');
  if (compact.length < 15 || compact.length > 34) return false;
  let rest = 0;
  for (const character of compact.slice(4) + compact.slice(0, 4)) {
    const value = Number.parseInt(character, 36);
    rest = (rest * (value > 9 ? 100 : 10) + value) % 97;
  }
  return rest === 1;
}
