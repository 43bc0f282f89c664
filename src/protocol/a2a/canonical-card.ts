/**
 * Serialises cards to the bytes that are signed. The specification and both SDKs differ where members are empty, so a
 * signature is valid if it matches either form (§1.4). Hashing and signing are elsewhere.
 */
import { isObject, type JsonObject, type JsonValue } from '../jsonrpc/raw.js';
import { cardMembers, type Member } from './card-schema.js';
import { entriesOf } from './versions/tolerant-readers.js';

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

/**
 * Every payload that a signature of this card may cover, without duplicates; the payload by the specification comes
 * first.
 */
export function canonicalForms(card: JsonObject): string[] {
  const { signatures: _signatures, ...unsigned } = card;
  return texts([...forms(unsigned), unsigned]);
}

/**
 * The payloads to sign a card over so that every verifier finds a match: one by the specification, and one as the SDKs
 * read the card as received. The JavaScript SDK drops the security schemes of a card it has parsed before. The gateway
 * does not sign that payload, because its signature would also match a card from which an attacker removed the schemes.
 */
export function cardPayloads(card: JsonObject): string[] {
  const { signatures: _signatures, ...unsigned } = card;
  return texts(forms(unsigned));
}

const texts = (values: readonly (JsonValue | undefined)[]): string[] => [
  ...new Set(values.map((value) => canonicalJson(value ?? {}))),
];

function forms(unsigned: JsonObject): [JsonValue, JsonValue | undefined] {
  // 0.3 does not specify which form of the card is signed.
  if (!Array.isArray(unsigned['supportedInterfaces'])) return [unsigned, withoutEmptyValues(unsigned)];
  return [exact(unsigned, 'AgentCard'), withoutEmptyValues(known(unsigned, 'AgentCard'))];
}

const isDefault = (value: JsonValue): boolean =>
  value === '' ||
  value === false ||
  value === 0 ||
  (Array.isArray(value) ? value.length === 0 : isObject(value) && Object.keys(value).length === 0);

/**
 * The form by the specification: required members are always present, optional members if set, other members unless
 * they hold the default value.
 */
function exact(wire: JsonObject, message: string): JsonObject {
  const members = cardMembers(message);
  const made: JsonObject = {};
  for (const [name, value] of entriesOf(wire)) {
    const member = members.get(name);
    if (value === undefined || value === null) continue;
    // A member that the proto does not define is still part of the signed text.
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

/** Only the members that the proto defines, without the default values that it does not write. */
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

/** Removes every empty value at any depth, as both SDKs do. */
function withoutEmptyValues(value: JsonValue | undefined): JsonValue | undefined {
  if (value === undefined || value === null || value === '') return undefined;
  if (Array.isArray(value)) {
    const items = value.map(withoutEmptyValues).filter((item) => item !== undefined);
    return items.length > 0 ? items : undefined;
  }
  if (!isObject(value)) return value;
  const members = Object.entries(value)
    .map(([key, item]): [string, JsonValue | undefined] => [key, withoutEmptyValues(item)])
    .filter(([, item]) => item !== undefined);
  return members.length > 0 ? Object.fromEntries(members) : undefined;
}
