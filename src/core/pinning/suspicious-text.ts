/**
 * Finds text in definitions that a person does not see or that addresses the model instead of describing the item
 * (S21). The result is a hint for the operator and decides nothing. The patterns are few and narrow, because operators
 * ignore a flag that appears often. docs/tool-pinning.md lists them.
 */
import type { JsonValue } from '../../protocol/jsonrpc/raw.js';
import { isObject } from '../../protocol/mcp/model.js';

export type TextFlag =
  | 'tag-characters'
  | 'bidi-control'
  | 'zero-width'
  | 'variation-selector'
  | 'private-use'
  | 'control-character'
  | 'mixed-script-name'
  | 'overrides-instructions'
  | 'hides-from-user'
  | 'pseudo-markup'
  | 'steers-other-tools'
  | 'asks-for-secrets'
  | 'long-description'
  | 'unsafe-url';

/** Characters that are never needed in a definition. */
const HIDDEN: readonly (readonly [TextFlag, RegExp])[] = [
  ['tag-characters', /[\u{e0000}-\u{e007f}]/u],
  ['bidi-control', /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/u],
  // Joiners are part of words in Arabic and Indic scripts and of emoji, so they are suspicious beside ASCII only.
  [
    'zero-width',
    /[\u00ad\u115f\u1160\u180e\u200b\u2060-\u2064\u206a-\u206f\u2800\u3164\ufeff\uffa0]|[\x20-\x7e][\u200c\u200d]|[\u200c\u200d][\x21-\x7e]/u,
  ],
  // U+FE0E and U+FE0F choose the form of an emoji or of a keycap; several selectors in a row, or a selector after a
  // letter, can hide data.
  [
    'variation-selector',
    /[\ufe00-\ufe0d]|[\u{e0100}-\u{e01ef}]{2}|[\x20\x21\x24-\x29\x2b-\x2f\x3a-\x7e][\ufe0e\ufe0f\u{e0100}-\u{e01ef}]|[\ufe0e\ufe0f]{2}/u,
  ],
  ['private-use', /[\ue000-\uf8ff\u{f0000}-\u{ffffd}\u{100000}-\u{10fffd}]/u],
  ['control-character', /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]/u],
];

/** Sentences for the model. Each pattern has bounded repetitions, so that its time is linear in the text. */
const ADDRESSED: readonly (readonly [TextFlag, RegExp])[] = [
  [
    'overrides-instructions',
    /\b(?:ignore|disregard|forget|override)\b[^.\n]{0,40}\b(?:previous|prior|earlier|above|preceding|all other|system|user'?s?)\b[^.\n]{0,30}\b(?:instructions?|prompts?|rules|guidelines|requests?)\b/i,
  ],
  [
    'hides-from-user',
    /\b(?:do not|don'?t|never|without|must not)\b[^.\n]{0,20}\b(?:tell|telling|inform|informing|mention|mentioning|reveal|revealing|notify|notifying|alert|alerting)\b[^.\n]{0,40}\busers?\b/i,
  ],
  ['pseudo-markup', /<\s*\/?\s*(?:important|system|secret|hidden|admin|instructions?|assistant)\s*>/i],
  [
    'steers-other-tools',
    /\b(?:before|after|instead of|whenever|when)\b[^.\n]{0,20}\b(?:us(?:e|ing)|call(?:ing)?|invok(?:e|ing)|run(?:ning)?)\b[^.\n]{0,20}\b(?:any|every|all|each)\s+(?:other\s+)?tools?\b/i,
  ],
  [
    'asks-for-secrets',
    /~\/\.ssh\b|\bid_(?:rsa|ed25519)\b|\.aws\/credentials\b|\/etc\/(?:passwd|shadow)\b|\b(?:include|pass|send|provide|put|append|attach|read)\b[^.\n]{0,60}\b(?:system prompt|(?:conversation|chat) history|private keys?|ssh keys?|contents? of [^.\n]{0,20}\.env)\b/i,
  ],
];

/** Longer descriptions are rare, and people seldom read them in full before an approval. */
const LONG = 10_000;
/** The number of characters of one definition that are searched. The hash covers the whole definition. */
const SEARCHED = 256 * 1024;
const DEEPEST = 64;

/** A word with letters of Latin and of a script with the same shapes. */
const MIXED =
  /\p{Script=Latin}[\p{Script=Cyrillic}\p{Script=Greek}]|[\p{Script=Cyrillic}\p{Script=Greek}]\p{Script=Latin}/u;

export interface Suspect {
  readonly name: string;
  /** The parts that a model reads. */
  readonly parts: JsonValue;
  /** Icons, whose URLs clients open. */
  readonly icons?: JsonValue | undefined;
}

/** The flags of one definition, each once. */
export function textFlags({ name, parts, icons }: Suspect): TextFlag[] {
  const flags = new Set<TextFlag>();
  let left = SEARCHED;
  const search = (value: JsonValue | undefined, depth: number): void => {
    if (left <= 0 || depth > DEEPEST) return;
    if (typeof value === 'string') {
      const text = value.slice(0, left);
      left -= text.length;
      if (value.length > LONG) flags.add('long-description');
      for (const [flag, pattern] of HIDDEN) if (!flags.has(flag) && pattern.test(text)) flags.add(flag);
      for (const [flag, pattern] of ADDRESSED) if (!flags.has(flag) && pattern.test(text)) flags.add(flag);
    } else if (Array.isArray(value)) for (const member of value) search(member, depth + 1);
    else if (isObject(value))
      for (const [key, member] of Object.entries(value)) {
        search(key, depth + 1);
        search(member, depth + 1);
      }
  };
  search(parts, 0);
  if (MIXED.test(name)) flags.add('mixed-script-name');
  if (Array.isArray(icons) && icons.some((icon) => isObject(icon) && !isSafeIcon(icon['src']))) flags.add('unsafe-url');
  return [...flags];
}

/** S9: icons are https or inline images; http only on this machine. */
function isSafeIcon(src: JsonValue | undefined): boolean {
  if (typeof src !== 'string') return true;
  return /^(?:https:\/\/|data:image\/|http:\/\/(?:localhost|127\.0\.0\.1|\[::1\])[:/])/i.test(src);
}

/** Text with its hidden characters written as `\u{…}`, for people. Line breaks and tabs stay. */
export function visibleText(text: string): string {
  return text.replace(
    /[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufeff\uffa0\ue000-\uf8ff\ud800-\udfff\u{e0000}-\u{e01ef}\u{f0000}-\u{10ffff}]|[\ufe00-\ufe0f]/gu,
    (character) => `\\u{${character.codePointAt(0)!.toString(16)}}`,
  );
}
