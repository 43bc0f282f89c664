/** Replaces secrets and personal data in results, errors and events. */
import { isUtf8 } from 'node:buffer';
import type {
  ErrorDecision,
  EventDecision,
  JsonObject,
  JsonValue,
  ListDecision,
  ListItem,
  Plugin,
  PluginCall,
  PluginError,
  PluginResponse,
} from '../api.js';
import { isPasswordMember, isSecretMember, type RedactionKind, textRedaction } from './redaction-rules.js';

export { REDACTION_KINDS, type RedactionKind } from './redaction-rules.js';

export interface RedactionOptions {
  readonly kinds: readonly RedactionKind[];
  /** Further patterns in the syntax of RE2, whose matches are replaced. */
  readonly patterns: readonly string[];
}

/** Nested deeper than any result that the gateway accepts. */
const MOST_DEPTH = 100;

const SECRET = '[redacted:secret]';

export function redaction({ kinds, patterns }: RedactionOptions): Plugin {
  const redact = textRedaction(kinds, patterns);
  const byMember = kinds.includes('secrets');
  /** The value of a member of data that a server defines. */
  const named = (name: string, value: JsonValue | undefined): JsonValue | undefined => {
    if (!byMember || !isSecretMember(name)) return value;
    if (typeof value === 'string') return value === '' ? value : SECRET;
    // Other numbers with such names count something.
    if (typeof value === 'number') return isPasswordMember(name) ? SECRET : value;
    return Array.isArray(value) ? value.map((item) => named(name, item) ?? null) : value;
  };
  /** Card numbers, and numbers that the operator's own patterns may name, can be written as numbers. */
  const ofNumber = (value: number): JsonValue => {
    if (patterns.length === 0 && !(Math.abs(value) >= SMALLEST_CARD)) return value;
    const text = String(value);
    const shown = redact(text);
    return shown === text ? value : shown;
  };
  /** Text in base64. Other files contain no readable text, but matches by chance. */
  const ofBase64 = (value: string): string => {
    if (!BASE64.test(value)) return redact(value);
    const bytes = Buffer.from(value, 'base64');
    if (!isUtf8(bytes)) return value;
    const text = bytes.toString('utf8');
    const shown = redact(text);
    return shown === text ? value : Buffer.from(shown).toString('base64');
  };
  /** The same value if nothing in it is redacted, so that unchanged results pass as their original bytes. */
  const redacted = (value: JsonValue | undefined, place: Place, depth = 0): JsonValue | undefined => {
    if (typeof value === 'string') return redact(value);
    if (typeof value === 'number') return place === 'data' ? ofNumber(value) : value;
    if (typeof value !== 'object' || value === null) return value;
    if (depth > MOST_DEPTH) return '[redacted:nested]';
    if (Array.isArray(value)) {
      const items = value.map((item) => redacted(item, place, depth + 1) ?? null);
      return items.some((item, index) => item !== value[index]) ? items : value;
    }
    let changed = false;
    const member = byMember && place === 'data' ? nameOfValue(value) : undefined;
    const members = Object.entries(value).map(([key, before]): [string, JsonValue | undefined] => {
      if (isHandle(place, key, value)) return [key, before];
      const inner = placeOf(place, key, before);
      const known = place === 'data' ? named(key === 'value' ? (member ?? key) : key, before) : before;
      const after =
        typeof known === 'string' && isBinary(place, key, value) ? ofBase64(known) : redacted(known, inner, depth + 1);
      // Names of data may be personal too. Names that the protocol defines stay, whatever the operator's patterns match.
      const name = place === 'data' ? redact(key) : redact.byKinds(key);
      changed ||= after !== before || name !== key;
      return [name, after];
    });
    return changed ? withOwnNames(members) : value;
  };
  /** The texts of a JSON Schema. Its names, patterns and enumerated values are what a caller must send. */
  const ofSchema = (value: JsonValue | undefined, depth = 0): JsonValue | undefined => {
    if (typeof value !== 'object' || value === null) return value;
    if (depth > MOST_DEPTH) return '[redacted:nested]';
    if (Array.isArray(value)) return value.map((item) => ofSchema(item, depth + 1) ?? null);
    return Object.fromEntries(
      Object.entries(value).map(([key, inner]) => {
        if (SCHEMA_VALUES.includes(key)) return [key, redacted(inner, 'data', depth + 1)];
        if (typeof inner === 'string') return [key, SCHEMA_TEXTS.includes(key) ? redact(inner) : inner];
        return [key, ofSchema(inner, depth + 1)];
      }),
    );
  };
  /** An item of a list. Its name or its address stays. */
  const ofItem = (item: JsonObject, protocol: PluginCall['protocol']): JsonObject =>
    Object.fromEntries(
      Object.entries(item).map(([key, value]) => {
        if (IDENTITIES.includes(key)) return [key, value];
        const shown = key.endsWith('Schema') ? ofSchema(value) : redacted({ [key]: value }, protocol);
        return [key, key.endsWith('Schema') ? shown : (shown as JsonObject)[key]];
      }),
    );
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
    onList: ({ protocol }: PluginCall, items: readonly ListItem[]): ListDecision | undefined => {
      // The result with the tasks of a list passes `onResponse`.
      if (protocol === 'a2a') return undefined;
      const shown = items.map((each) => ({ ...each, item: ofItem(each.item, protocol) }));
      const same = shown.every(({ item }, index) => JSON.stringify(item) === JSON.stringify(items[index]?.item));
      return same ? undefined : { items: shown };
    },
  };
}

/** The members of an item of a list that clients return. */
const IDENTITIES: readonly string[] = ['name', 'uri', 'uriTemplate'];
const SCHEMA_TEXTS: readonly string[] = ['title', 'description', '$comment'];
const SCHEMA_VALUES: readonly string[] = ['default', 'examples'];

/** The name of a pair such as `{ name: 'DB_PASSWORD', value: '...' }`, which decides about its value. */
function nameOfValue({ name, key, value }: JsonObject): string | undefined {
  if (value === undefined) return undefined;
  return typeof name === 'string' ? name : typeof key === 'string' ? key : undefined;
}

/** The smallest card number that is not written as a text. */
const SMALLEST_CARD = 1e12;

/** Two names that look the same after the redaction stay two members. */
function withOwnNames(members: readonly (readonly [string, JsonValue | undefined])[]): JsonObject {
  const used = new Set<string>();
  const uses = new Map<string, number>();
  return Object.fromEntries(
    members.map(([name, value]) => {
      let own = name;
      for (let use = uses.get(name) ?? 2; used.has(own); use++) {
        own = `${name} ${use}`;
        uses.set(name, use + 1);
      }
      used.add(own);
      return [own, value];
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

const A2A_IDS: readonly string[] = ['taskId', 'contextId', 'messageId', 'artifactId', 'referenceTaskIds'];

/** Ids and addresses of the protocols: clients return them, so they must not change. */
function isHandle(place: Place, key: string, object: JsonObject): boolean {
  if (place === 'data') return false;
  if (place === 'a2a') return A2A_IDS.includes(key) || (key === 'id' && object['status'] !== undefined);
  if (key === 'progressToken' || key === 'taskId') return true;
  return key === 'uri' && (object['type'] === 'resource_link' || 'blob' in object || 'text' in object);
}

const BASE64 = /^[\w+/\s-]*={0,2}\s*$/;

/** Images, audio and files in base64. */
function isBinary(place: Place, key: string, { type, mimeType }: JsonObject): boolean {
  if (place === 'a2a') return key === 'raw';
  if (place === 'data') return false;
  return key === 'blob' || (key === 'data' && (type === 'image' || type === 'audio' || typeof mimeType === 'string'));
}
