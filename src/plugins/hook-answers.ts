/** Reads the answers of hooks. An answer that breaks the contract is a failure of the plugin, not of the call. */
import { isObject, type JsonObject } from '../protocol/jsonrpc/raw.js';
import type { ErrorDecision, EventDecision, ListItem, PluginError, RequestDecision, ResponseDecision } from './api.js';

/** A hook returned a value that its contract does not allow. The message contains nothing of the answer. */
export class InvalidAnswer extends Error {
  override readonly name = 'InvalidAnswer';
}

/** The longest sentence of a refusal, in characters. */
const MOST_MESSAGE = 500;
/** The largest value that a hook may return, as JSON text in characters. */
export const MOST_JSON = 32 * 1024 * 1024;

/** The decision of `onRequest`. */
export function requestDecision(answer: unknown): RequestDecision | undefined {
  const given = decision(answer, ['deny', 'reply', 'params']);
  if (!given) return undefined;
  if (given.key === 'deny') return { deny: sentence(given.value) };
  return given.key === 'reply' ? { reply: json(given.value) } : { params: json(given.value) };
}

/** The decision of `onResponse`. */
export function responseDecision(answer: unknown): ResponseDecision | undefined {
  const given = decision(answer, ['deny', 'result']);
  if (!given) return undefined;
  return given.key === 'deny' ? { deny: sentence(given.value) } : { result: json(given.value) };
}

/** The decision of `onError` about the given error. */
export function errorDecision(answer: unknown, given: PluginError): ErrorDecision | undefined {
  const decided = decision(answer, ['error']);
  if (!decided) return undefined;
  const { code = given.code, reason = given.reason, message, data, ...rest } = json(decided.value);
  if (code !== given.code || reason !== given.reason) throw new InvalidAnswer('the code and the reason cannot change');
  if (typeof message !== 'string' || Object.keys(rest).length > 0)
    throw new InvalidAnswer('error must have a message, and may have data');
  return { error: { message, ...(data !== undefined && { data }) } };
}

/** The decision of `onEvent`. */
export function eventDecision(answer: unknown): EventDecision | undefined {
  const given = decision(answer, ['event', 'drop']);
  if (!given) return undefined;
  if (given.key === 'event') return { event: json(given.value) };
  if (given.value !== true) throw new InvalidAnswer('drop must be true');
  return { drop: true };
}

/** The items of `onList`: some of the given ones, each at most once and with its own identity. */
export function listDecision(answer: unknown, given: readonly ListItem[], key: string): ListItem[] | undefined {
  const decided = decision(answer, ['items']);
  if (!decided) return undefined;
  if (!Array.isArray(decided.value)) throw new InvalidAnswer('items must be an array');
  const known = new Map(given.map((each) => [each.item[key], each]));
  return decided.value.map((each: unknown) => {
    const item = isObject(each) ? json(each['item']) : undefined;
    const before = item && known.get(item[key]);
    if (!before) throw new InvalidAnswer(`items must have the ${key} of a given item, each once`);
    known.delete(item[key]);
    return { ...before, item };
  });
}

function decision(
  answer: unknown,
  keys: readonly string[],
): { readonly key: string; readonly value: unknown } | undefined {
  if (answer === undefined || answer === null) return undefined;
  if (typeof answer !== 'object' || Array.isArray(answer)) throw new InvalidAnswer('the answer must be an object');
  const given = Object.keys(answer);
  const [key = ''] = given;
  // An empty object is the way to write nothing in languages that answer with JSON.
  if (given.length === 0) return undefined;
  if (given.length !== 1 || !keys.includes(key))
    throw new InvalidAnswer(`the answer must have one of ${keys.join(', ')}`);
  return { key, value: (answer as Record<string, unknown>)[key] };
}

function sentence(value: unknown): string {
  if (typeof value !== 'string' || value.trim() === '') throw new InvalidAnswer('deny must be a sentence');
  return value.replace(/[\u0000-\u001f\u007f-\u009f]+/g, ' ').slice(0, MOST_MESSAGE);
}

/** A copy as plain JSON, so that nothing of the plugin runs or changes the value later. */
function json(value: unknown): JsonObject {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new InvalidAnswer('the value must be a JSON object');
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch {
    throw new InvalidAnswer('the value cannot be written as JSON');
  }
  if (text === undefined || text.length > MOST_JSON)
    throw new InvalidAnswer('the value is not a JSON object, or is too large');
  const copy: unknown = JSON.parse(text);
  if (!isObject(copy)) throw new InvalidAnswer('the value must be a JSON object');
  return copy;
}
