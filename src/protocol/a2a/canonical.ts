/**
 * Cards as the bytes that are signed. The rules of the specification and what both SDKs really do differ where members
 * are empty, so a signature is good if it fits either (§1.4). Hashing and signing are elsewhere.
 */
import { isObject, type JsonObject, type JsonValue } from '../jsonrpc/raw.js';
import { cardMembers, type Member } from './card-schema.js';
import { entriesOf } from './versions/tolerant.js';

/** RFC 8785. Numbers and strings are as JSON.stringify writes them; members are sorted by their UTF-16 code units. */
export function canonicalJson(value: JsonValue): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  if (!isObject(value)) return JSON.stringify(value);
  const members = Object.keys(value)
    .filter((key) => value[key] !== undefined)
    .sort()
    .map((key) => `${JSON.stringify(key)}:${canonicalJson(value[key] as JsonValue)}`);
  return `{${members.join(',')}}`;
}

/** Every payload that a signature of this card may be over, each once, the one by the rules first. */
export function canonicalForms(card: JsonObject): string[] {
  const { signatures: _signatures, ...unsigned } = card;
  return texts([...forms(unsigned), unsigned]);
}

/**
 * The payloads to sign a card over so that every verifier finds one that fits: by the rules, and as the SDKs read the
 * card as it came. The JavaScript SDK loses the security schemes of a card that it has read before; a signature over so
 * little would also be good for a card that somebody took the schemes out of, so there is none.
 */
export function cardPayloads(card: JsonObject): string[] {
  const { signatures: _signatures, ...unsigned } = card;
  return texts(forms(unsigned));
}

const texts = (values: readonly (JsonValue | undefined)[]): string[] => [
  ...new Set(values.map((value) => canonicalJson(value ?? {}))),
];

function forms(unsigned: JsonObject): [JsonValue, JsonValue | undefined] {
  // 0.3 signs cards without saying over what.
  if (!Array.isArray(unsigned['supportedInterfaces'])) return [unsigned, emptied(unsigned)];
  return [exact(unsigned, 'AgentCard'), emptied(known(unsigned, 'AgentCard'))];
}

const isDefault = (value: JsonValue): boolean =>
  value === '' ||
  value === false ||
  value === 0 ||
  (Array.isArray(value) ? value.length === 0 : isObject(value) && Object.keys(value).length === 0);

/** By the rules: what is required is there, what is optional is there if set, all else unless it is the default. */
function exact(wire: JsonObject, message: string): JsonObject {
  const members = cardMembers(message);
  const made: JsonObject = {};
  for (const [name, value] of entriesOf(wire)) {
    const member = members.get(name);
    if (value === undefined || value === null) continue;
    // A member that the proto does not know is part of what was signed all the same.
    if (!member) made[name] = value;
    else if (member.presence !== 'plain' || !isDefault(value)) made[name] = each(value, member, exact);
  }
  for (const [name, member] of members) {
    if (member.presence === 'required' && made[name] === undefined) made[name] = defaultOf(member);
  }
  return made;
}

function defaultOf({ shape, message }: Member): JsonValue {
  if (shape === 'many') return [];
  return shape === 'one' && message === undefined ? '' : {};
}

/** Only what the proto knows, without defaults that it does not write. */
function known(wire: JsonObject, message: string): JsonObject {
  const made: JsonObject = {};
  for (const [name, member] of cardMembers(message)) {
    const value = wire[name];
    if (value === undefined || value === null || (member.presence === 'plain' && isDefault(value))) continue;
    made[name] = each(value, member, known);
  }
  return made;
}

function each(
  value: JsonValue,
  { shape, message }: Member,
  change: (wire: JsonObject, message: string) => JsonObject,
): JsonValue {
  if (message === undefined) return value;
  const changed = <T>(item: T): T | JsonObject => (isObject(item) ? change(item, message) : item);
  if (shape === 'one') return changed(value);
  if (shape === 'many') return Array.isArray(value) ? value.map(changed) : value;
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, changed(item)]));
}

/** Without anything that is empty, at any depth, as both SDKs do it. */
function emptied(value: JsonValue | undefined): JsonValue | undefined {
  if (value === undefined || value === null || value === '') return undefined;
  if (Array.isArray(value)) {
    const items = value.map(emptied).filter((item) => item !== undefined);
    return items.length > 0 ? items : undefined;
  }
  if (!isObject(value)) return value;
  const members = Object.entries(value)
    .map(([key, item]): [string, JsonValue | undefined] => [key, emptied(item)])
    .filter(([, item]) => item !== undefined);
  return members.length > 0 ? Object.fromEntries(members) : undefined;
}
