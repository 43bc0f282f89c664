/** Replaces secrets and personal data in results, errors and events. */
import { RE2JS } from 're2js';
import type {
  ErrorDecision,
  EventDecision,
  JsonObject,
  JsonValue,
  Plugin,
  PluginCall,
  PluginError,
  PluginResponse,
} from '../api.js';
import { hasIbanChecksum, isCardNumber } from './checksums.js';

export const REDACTION_KINDS = ['secrets', 'email', 'phone', 'creditCard', 'iban', 'ssn'] as const;
export type RedactionKind = (typeof REDACTION_KINDS)[number];

export interface RedactionOptions {
  readonly kinds: readonly RedactionKind[];
  /** Further patterns in the syntax of RE2, whose matches are replaced. */
  readonly patterns: readonly string[];
}

interface Rule {
  readonly label: string;
  /** Every repetition is bounded, or begins at a fixed text: the time is linear in the length of the text. */
  readonly pattern: RegExp;
  /** Every match contains one of these texts, so most texts are skipped without the pattern. */
  readonly needs?: RegExp;
  /** The group that is replaced; without it the whole match. */
  readonly group?: true;
  accepts?(match: string): boolean;
}

/** Names that tell of a secret. The token of a next page is none: a client returns it. */
const NAMES =
  '(?:api|access|secret|private|signing)[_-]?key|(?<!(?:page|next|continuation|sync)[_-]?)token|secret|passw(?:or)?d|passphrase|credential';
const SECRET_MEMBER = new RegExp(`(?:${NAMES})s?$`, 'i');

const SECRETS: readonly Rule[] = [
  {
    label: 'private-key',
    needs: /PRIVATE KEY/,
    pattern: /-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|$)/g,
  },
  { label: 'secret', pattern: /\b(?:sk|pk|rk)[-_][\w-]{16,200}/g },
  { label: 'secret', pattern: /\b(?:glpat|xox[abeprs])-[\w-]{10,200}/g },
  { label: 'secret', pattern: /\b(?:gh[opsur]|github_pat|hf|npm|pypi)_[\w-]{16,200}/g },
  { label: 'secret', pattern: /\b(?:AKIA|ASIA)[0-9A-Z]{16}\b/g },
  { label: 'secret', pattern: /\bAIza[\w-]{30,80}/g },
  // A JWT. A text without its dots is matched too, and not accepted, so that no part of it is tried again.
  {
    label: 'secret',
    pattern: /\beyJ[\w-]{8,}(?:\.[\w-]{8,}\.[\w-]*)?/g,
    accepts: (match) => match.includes('.'),
  },
  { label: 'secret', group: true, pattern: /\b((?:Bearer|Basic)\s{1,4})[\w.~+/=-]{8,4000}/gi },
  { label: 'secret', group: true, needs: /:\/\//, pattern: /(:\/\/)[^/?#\s@:]{0,200}:[^/?#\s@]{1,200}(?=@)/g },
  // The value of a name that tells of a secret: in quotation marks, and without them.
  {
    label: 'secret',
    group: true,
    pattern: new RegExp(String.raw`((?:${NAMES})s?\\?["']?\s{0,4}[:=]\s{0,4}\\?["'])[^"'\\\n]{1,400}`, 'gi'),
  },
  {
    label: 'secret',
    group: true,
    pattern: new RegExp(String.raw`((?:${NAMES})s?["']?\s{0,4}[:=]\s{0,4})[^\s"',;&\\[]{6,400}`, 'gi'),
  },
];

const RULES: Readonly<Record<RedactionKind, readonly Rule[]>> = {
  secrets: SECRETS,
  email: [{ label: 'email', needs: /@/, pattern: /[\w.%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}/g }],
  // International form only: other numbers cannot be told from amounts and ids.
  phone: [{ label: 'phone', needs: /\+\d/, pattern: /\+\d{1,3}(?:[ .-]?\(\d{1,4}\))?(?:[ .-]?\d){6,14}\b/g }],
  creditCard: [{ label: 'credit-card', pattern: /\b\d(?:[ -]?\d){12,18}\b/g, accepts: isCardNumber }],
  iban: [
    {
      label: 'iban',
      pattern: /\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?\b/g,
      accepts: hasIbanChecksum,
    },
  ],
  ssn: [{ label: 'ssn', needs: /-\d\d-/, pattern: /\b\d{3}-\d{2}-\d{4}\b/g }],
};

/** Nested deeper than any result that the gateway accepts. */
const MOST_DEPTH = 100;

export function redaction({ kinds, patterns }: RedactionOptions): Plugin {
  const rules = kinds.flatMap((kind) => RULES[kind]);
  const own = patterns.map((pattern) => RE2JS.compile(pattern));
  const byRules = (text: string): string => {
    let shown = text;
    for (const { pattern, needs, group, accepts, label } of rules) {
      if (needs && !needs.test(shown)) continue;
      shown = shown.replace(pattern, (match: string, kept: unknown) =>
        accepts && !accepts(match) ? match : `${group ? String(kept) : ''}[redacted:${label}]`,
      );
    }
    return shown;
  };
  const redact = (text: string): string =>
    own.reduce((shown, pattern) => pattern.matcher(shown).replaceAll('[redacted]'), byRules(text));
  const byMember = kinds.includes('secrets');
  /** The value of a member of data that a server defines. */
  const named = (name: string, value: JsonValue | undefined): JsonValue | undefined =>
    byMember && typeof value === 'string' && value !== '' && SECRET_MEMBER.test(name) ? '[redacted:secret]' : value;
  /** Card numbers, and numbers that the operator's own patterns may name, can be written as numbers. */
  const ofNumber = (value: number): JsonValue => {
    if (own.length === 0 && !(value >= SMALLEST_CARD)) return value;
    const text = String(value);
    const shown = redact(text);
    return shown === text ? value : shown;
  };
  /** The same value if nothing in it is redacted, so that unchanged results pass as their original bytes. */
  const redacted = (value: JsonValue | undefined, place: Place, depth = 0): JsonValue | undefined => {
    if (typeof value === 'string') return redact(value);
    if (typeof value === 'number') return place === 'data' ? ofNumber(value) : value;
    if (typeof value !== 'object' || value === null || depth > MOST_DEPTH) return value;
    if (Array.isArray(value)) {
      const items = value.map((item) => redacted(item, place, depth + 1) ?? null);
      return items.some((item, index) => item !== value[index]) ? items : value;
    }
    let changed = false;
    const members = Object.entries(value).map(([key, before]): [string, JsonValue | undefined] => {
      if (isHandle(place, key, value) || (typeof before === 'string' && isBinary(place, key, value)))
        return [key, before];
      const inner = placeOf(place, key, before);
      const after = redacted(place === 'data' ? named(key, before) : before, inner, depth + 1);
      // Names of data may be personal too. Names that the protocol defines stay, whatever the operator's patterns match.
      const name = place === 'data' ? redact(key) : byRules(key);
      changed ||= after !== before || name !== key;
      return [name, after];
    });
    return changed ? withOwnNames(members) : value;
  };
  const all = (value: JsonObject, { protocol }: PluginCall): JsonObject => redacted(value, protocol) as JsonObject;
  return {
    apiVersion: 1,
    onResponse: (call: PluginCall, response: PluginResponse) => {
      const { result } = response;
      const shown = all(result, call);
      return shown === result ? undefined : { result: shown };
    },
    onError: (_call: PluginCall, error: PluginError): ErrorDecision | undefined => {
      const message = redact(error.message);
      const data = redacted(error.data, 'data');
      if (message === error.message && data === error.data) return undefined;
      return { error: { ...error, message, ...(data !== undefined && { data }) } };
    },
    onEvent: (call: PluginCall, event: JsonObject): EventDecision | undefined => {
      const shown = all(event, call);
      return shown === event ? undefined : { event: shown };
    },
  };
}

/** The smallest card number that is not written as a text. */
const SMALLEST_CARD = 1e12;

/** Two names that look the same after the redaction stay two members. */
function withOwnNames(members: readonly (readonly [string, JsonValue | undefined])[]): JsonObject {
  const uses = new Map<string, number>();
  return Object.fromEntries(
    members.map(([name, value]) => {
      const use = (uses.get(name) ?? 0) + 1;
      uses.set(name, use);
      return [use === 1 ? name : `${name} ${use}`, value];
    }),
  );
}

/** An object of a protocol, whose names have a meaning, or data that only the server or agent defines. */
type Place = PluginCall['protocol'] | 'data';

const DATA: Readonly<Record<PluginCall['protocol'], readonly string[]>> = {
  mcp: ['structuredContent', '_meta'],
  a2a: ['data', 'metadata'],
};

function placeOf(place: Place, key: string, value: JsonValue | undefined): Place {
  if (place === 'data' || DATA[place].includes(key)) return 'data';
  // The data of a log message; the data of an image is a text.
  return place === 'mcp' && key === 'data' && typeof value === 'object' ? 'data' : place;
}

const A2A_IDS: readonly string[] = ['taskId', 'contextId', 'messageId', 'artifactId'];

/** Ids and addresses of the protocols: clients return them, so they must not change. */
function isHandle(place: Place, key: string, object: JsonObject): boolean {
  if (place === 'data') return false;
  if (place === 'a2a') return A2A_IDS.includes(key) || (key === 'id' && object['status'] !== undefined);
  if (key === 'progressToken' || key === 'taskId') return true;
  return key === 'uri' && (object['type'] === 'resource_link' || 'blob' in object || 'text' in object);
}

const READABLE = /^text\/|json|xml|yaml/;

/** Images, audio and files in base64 contain no readable text, but matches by chance. */
function isBinary(place: Place, key: string, { type, mimeType }: JsonObject): boolean {
  if (place !== 'mcp') return place === 'a2a' && key === 'raw';
  if (key === 'blob') return true;
  if (key !== 'data') return false;
  return type === 'image' || type === 'audio' || (typeof mimeType === 'string' && !READABLE.test(mimeType));
}
