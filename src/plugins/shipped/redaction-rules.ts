/** Finds secrets and personal data in texts. Every rule takes time linear in the length of the text. */
import { RE2JS } from 're2js';
import { cardNumberIn, ibanIn } from './checksums.js';
import { plainCharacters } from './plain-characters.js';

export const REDACTION_KINDS = ['secrets', 'email', 'phone', 'creditCard', 'iban', 'ssn'] as const;
export type RedactionKind = (typeof REDACTION_KINDS)[number];

interface Rule {
  readonly label: string;
  /**
   * Either it begins at a fixed text or at the beginning of a run, or every repetition in it is bounded. Repetitions after a
   * fixed text are not bounded, because the end of a long secret is a secret too. These are written as `+` or `*` after a
   * look-ahead for their least length: V8 needs stack for each turn of any other repetition.
   */
  readonly pattern: RegExp;
  /** Every match contains one of these texts, so most texts are skipped without the pattern. */
  readonly needs?: RegExp;
  /** Whether the text of the first group stays. If absent, the whole match is replaced. */
  readonly group?: true;
  /** The length of the part of a match that is replaced. Only for patterns whose matches have a bounded length. */
  accepted?(match: string): number;
  /** The end of a value that follows the match. The match stays, and the value is replaced. */
  endOf?(text: string, from: number): number;
}

/** Names that tell of a secret. The token of a next page is none: a client returns it. */
const NAMES =
  '(?:api|access|secret|private|signing|account|encryption|master)[ _-]?key|(?<!(?:page|next|continuation|sync)[_-]?)token|secret|passw(?:or)?d|passphrase|passcode|(?<![a-z])pwd|credential';
/** The end of such a name, and the sign before its value. */
const NAMED = String.raw`(?:${NAMES})(?:s|[_-]?\d{1,2})?`;
const IS = String.raw`\s{0,4}(?::=|=>|[:=])\s{0,4}`;

/** The value of a name, in quotation marks that may be escaped because the text is quoted itself. */
const QUOTED = new RegExp(String.raw`${NAMED}(?:\\{0,7}["'])?${IS}\\{0,7}["']`, 'gi');

/** The end of the value that begins after the opening quotation mark at `from - 1`. */
function endOfQuoted(text: string, from: number): number {
  const mark = text[from - 1];
  const escapes = backslashesBefore(text, from - 1);
  for (let at = from; at < text.length; at++) {
    if (text[at] === '\n') return at;
    if (text[at] === '\\') {
      let end = at;
      while (text[end] === '\\') end += 1;
      const count = end - at;
      if (text[end] === mark && closes(count, escapes)) return end - Math.min(count, escapes);
      // The last backslash, or all of them, belong to the next character.
      at = text[end] === mark ? end : end - 1;
    } else if (text[at] === mark) return at;
  }
  return text.length;
}

/** Whether a mark after this many backslashes ends a value whose opening mark has `escapes`, or a value around it. */
function closes(count: number, escapes: number): boolean {
  if (count % 2 === 0) return true;
  return escapes > 0 && closes((count - 1) / 2, (escapes - 1) / 2);
}

function backslashesBefore(text: string, at: number): number {
  let count = 0;
  while (text[at - 1 - count] === '\\') count += 1;
  return count;
}

const SECRETS: readonly Rule[] = [
  {
    label: 'private-key',
    needs: /PRIVATE KEY/,
    pattern:
      /-----BEGIN [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----|$)/g,
  },
  { label: 'secret', pattern: /(?<![A-Za-z0-9])(?:sk|pk|rk)[-_](?=[\w-]{16})[\w-]+/g },
  { label: 'secret', pattern: /(?<![A-Za-z0-9])(?:glpat|xox[abeprs])-(?=[\w-]{10})[\w-]+/g },
  {
    label: 'secret',
    pattern:
      /(?<![A-Za-z0-9])(?:gh[opsur]|github_pat|hf|npm|pypi|shp(?:at|ca|pa|ss)|dop_v1|dckr_pat|whsec)[_-](?=[\w-]{16})[\w-]+/g,
  },
  { label: 'secret', pattern: /(?<![A-Za-z0-9])(?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Z])/g },
  { label: 'secret', pattern: /(?<![A-Za-z0-9])AIza(?=[\w-]{30})[\w-]+/g },
  // A JWT. The beginning of the word looks ahead for its dots, so that a word without them is read once.
  {
    label: 'secret',
    group: true,
    needs: /eyJ/,
    pattern:
      /((?<![\w-])(?=[\w-]+\.(?=[\w-]{8})[\w-]+\.)[\w-]*?(?<![A-Za-z0-9]))eyJ(?=[\w-]{8})[\w-]+\.(?=[\w-]{8})[\w-]+\.[\w-]*(?:\.[\w-]+){0,2}/g,
  },
  { label: 'secret', group: true, pattern: /(\bBearer\s{1,4})(?=[\w.~+/=-]{8})[\w.~+/=-]+/gi },
  // Words after "basic" have no capital letters or digits inside.
  {
    label: 'secret',
    group: true,
    pattern: /(\b[Bb]asic\s{1,4})(?=[A-Za-z][a-z]*[A-Z\d+/=])(?=[\w.~+/=-]{8})[\w.~+/=-]+/g,
  },
  // A user with a password, up to the last @; or a long user name alone, which is a token.
  {
    label: 'secret',
    group: true,
    needs: /:\/\//,
    pattern: /(:\/\/)(?:[^/?#\s@:"'<>\\]*:[^/?#\s"'<>\\]+|(?=[^/?#\s@:"'<>\\]{16})[^/?#\s@:"'<>\\]+)(?=@)/g,
  },
  {
    label: 'secret',
    group: true,
    needs: /cookie/i,
    pattern: /(\bcookie\\?["']?\s{0,4}:\s{0,4}\\?["']?)(?=[\w.!#$%&*+^|~-]{1,100}=)[^"'\\\r\n]+/gi,
  },
  {
    label: 'secret',
    group: true,
    needs: /authorization/i,
    pattern:
      /(authorization\\?["']?\s{0,4}[:=]\s{0,4}\\?["']?)(?!(?:bearer|basic)\s)(?:[\w-]{1,30}\s)?(?=[^\s\d"'\\]*\d)(?=[^\s"'\\]{8})[^\s"'\\]+/gi,
  },
  { label: 'secret', pattern: QUOTED, endOf: endOfQuoted },
  {
    label: 'secret',
    group: true,
    needs: /</,
    pattern: new RegExp(String.raw`(<[\w:.-]{0,60}${NAMED}(?:\s[^<>]{0,200})?>(?:<!\[CDATA\[)?)[^<\]]+`, 'gi'),
  },
  {
    label: 'secret',
    group: true,
    pattern: new RegExp(String.raw`(${NAMED}["']?${IS})[^\s"',;&\\[{(<](?=[^\s"',;&\\]{5})[^\s"',;&\\]+`, 'gi'),
  },
];

const RULES: Readonly<Record<RedactionKind, readonly Rule[]>> = {
  secrets: SECRETS,
  email: [
    {
      label: 'email',
      needs: /@|%40/,
      pattern:
        /(?<![\p{L}\p{N}\p{M}_.%+-])[\p{L}\p{N}\p{M}_.%+-]+(?:@|%40)(?:[\p{L}\p{N}\p{M}-]{1,63}\.){1,30}(?:xn--[a-z0-9-]{2,59}|[\p{L}\p{M}]{2,24})/gu,
    },
  ],
  // International form only: other numbers cannot be told from amounts and ids.
  phone: [
    {
      label: 'phone',
      needs: /(?:\+|%2B)\(?\d/i,
      pattern: /(?:\+|%2B)\(?\d{1,3}\)?(?:[ .-]?\(\d{1,4}\))?(?:[ ./-]?\d){6,14}(?!\d)/gi,
    },
  ],
  creditCard: [
    { label: 'credit-card', pattern: /(?<![A-Za-z0-9])\d(?:[ .-]?\d){12,18}(?![A-Za-z0-9])/g, accepted: cardNumberIn },
  ],
  iban: [
    {
      label: 'iban',
      pattern: /(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]{4}){2,7}(?:[ -]?[A-Z0-9]{1,4})?(?![A-Za-z0-9])/gi,
      accepted: ibanIn,
    },
  ],
  ssn: [{ label: 'ssn', needs: /-\d\d-/, pattern: /(?<!\d)\d{3}-\d{2}-\d{4}(?!\d)/g }],
};

/** A function that replaces what the rules of some kinds, and patterns in the syntax of RE2, find in a text. */
export interface TextRedaction {
  (text: string): string;
  /** Only what the rules of the kinds find. */
  readonly byKinds: (text: string) => string;
}

export function textRedaction(kinds: readonly RedactionKind[], patterns: readonly string[]): TextRedaction {
  const rules = kinds.flatMap((kind) => RULES[kind]);
  const own = patterns.map((pattern) => RE2JS.compile(pattern));
  const byRules = (text: string): string => rules.reduce(replaced, text);
  const byAll = (text: string): string =>
    own.reduce((shown, pattern) => pattern.matcher(shown).replaceAll('[redacted]'), byRules(text));
  return Object.assign(undisguised(byAll), { byKinds: undisguised(byRules) });
}

/**
 * Looks at a text a second time, in plain characters. Only a text in which that finds more is shown in plain characters.
 */
function undisguised(redact: (text: string) => string): (text: string) => string {
  return (text) => {
    const shown = redact(text);
    const plain = plainCharacters(shown);
    if (plain === shown) return shown;
    const more = redact(plain);
    return more === plain ? shown : more;
  };
}

function replaced(text: string, { label, pattern, needs, group, accepted, endOf }: Rule): string {
  if (needs && !needs.test(text)) return text;
  const mark = `[redacted:${label}]`;
  if (!accepted && !endOf)
    return text.replace(pattern, (_, kept: unknown) => (group ? `${String(kept)}${mark}` : mark));
  let shown = '';
  let from = 0;
  pattern.lastIndex = 0;
  for (let found = pattern.exec(text); found; found = pattern.exec(text)) {
    const [match] = found;
    const start = endOf ? pattern.lastIndex : found.index;
    const end = endOf ? endOf(text, start) : start + (accepted?.(match) ?? 0);
    if (end > start) {
      shown += `${text.slice(from, start)}${mark}`;
      from = end;
      pattern.lastIndex = end;
    } else if (!endOf) {
      // A number may begin inside of a match that is none.
      pattern.lastIndex = start + 1;
    }
  }
  return shown + text.slice(from);
}

const SECRET_MEMBER = new RegExp(`(?:${NAMED}|authorization|^(?:set-)?cookies?)$`, 'i');
const PASSWORD_MEMBER = /(?:passw(?:or)?d|passphrase|passcode|(?<![a-z])pwd|secret)$/i;

/** Whether the value of a member with this name is a secret: a text, or a number that is no count. */
export const isSecretMember = (name: string): boolean => SECRET_MEMBER.test(name);
export const isPasswordMember = (name: string): boolean => PASSWORD_MEMBER.test(name);
