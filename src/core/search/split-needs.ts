import { termsOf } from './tokenize.js';

/** Verbs that begin another need after "and" or "then". */
const VERBS =
  'add|analy[sz]e|book|buy|calculate|check|compute|convert|create|delete|determine|find|generate|get|give|let|list|make|order|play|provide|recommend|reserve|retrieve|search|send|set|show|suggest|tell|translate|update';
const BREAK = new RegExp(
  [
    // The ends of sentences and lines.
    '(?<=[.!?;])\\s+|(?<=[。！？；])\\s*|\\n+',
    // Joined requests, such as "…, and then find …" or "… and also I need …".
    `,?\\s+(?:and|then|also|after that|additionally|next|finally|plus)\\s+(?=(?:then|also|please|i|can|could|what|how|${VERBS})\\b)`,
    '(?<=\\S),\\s+(?=(?:also|then|and)\\b)',
  ].join('|'),
  'i',
);
const MOST_NEEDS = 8;
/** A part with fewer terms is joined to the need before it. */
const FEWEST_TERMS = 3;

/** The needs in a message, at least one: "book a flight to Rome and tell me the weather there" has two. */
export function needsOf(text: string): string[] {
  const needs: string[] = [];
  for (const part of text.split(BREAK)) {
    if (!part || part.trim() === '') continue;
    const last = needs.length - 1;
    if (last >= 0 && (needs.length >= MOST_NEEDS || termsOf(part).length < FEWEST_TERMS)) needs[last] += ` ${part}`;
    else needs.push(part);
  }
  return needs.length > 0 ? needs : [text];
}
