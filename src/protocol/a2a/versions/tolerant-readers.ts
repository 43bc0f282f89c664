/**
 * Functions shared by the readers of all versions. The readers are tolerant: they accept any spelling with a single
 * possible meaning, and throw an `Unreadable` that names the place otherwise.
 */
import { Buffer } from 'node:buffer';
import { isObject, type JsonObject, type JsonValue } from '../../jsonrpc/raw.js';
import { type Role, TASK_STATES, type TaskState } from '../model.js';

/** A value on the wire that no reader understands. A dialect turns it into the error of its direction. */
export class Unreadable extends Error {
  override readonly name = 'Unreadable';
}

export function objectAt(value: JsonValue | undefined, place: string): JsonObject {
  if (!isObject(value)) throw new Unreadable(`${place} must be an object`);
  return value;
}

export function textAt(value: JsonValue | undefined, place: string): string {
  if (typeof value !== 'string' || value === '') throw new Unreadable(`${place} must be a non-empty string`);
  return value;
}

/** An optional string. Null and the empty string count as absent, because proto writes absent strings so. */
export function optionalText(value: JsonValue | undefined, place: string): string | undefined {
  if (value === undefined || value === null || value === '') return undefined;
  if (typeof value !== 'string') throw new Unreadable(`${place} must be a string`);
  return value;
}

/** An integer; query strings and ProtoJSON's 64-bit numbers write it as text. */
export function optionalInteger(value: JsonValue | undefined, place: string): number | undefined {
  if (value === undefined || value === null || value === '') return undefined;
  const number = typeof value === 'string' ? Number(value) : value;
  if (typeof number !== 'number' || !Number.isInteger(number)) throw new Unreadable(`${place} must be an integer`);
  return number;
}

export function optionalFlag(value: JsonValue | undefined, place: string): boolean | undefined {
  if (value === undefined || value === null || value === '') return undefined;
  if (value === true || value === 'true') return true;
  if (value === false || value === 'false') return false;
  throw new Unreadable(`${place} must be true or false`);
}

/** An array. A missing array or null counts as empty, and null elements are dropped. */
export function listAt(value: JsonValue | undefined, place: string): JsonValue[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw new Unreadable(`${place} must be an array`);
  return value;
}

/** The known members, for peers that write snake_case. Members inside metadata and data are not renamed. */
const MEMBERS = [
  ...['messageId', 'contextId', 'taskId', 'referenceTaskIds', 'mediaType', 'mimeType', 'artifactId', 'lastChunk'],
  ...['statusUpdate', 'artifactUpdate', 'acceptedOutputModes', 'historyLength', 'returnImmediately', 'pageSize'],
  ...['taskPushNotificationConfig', 'pushNotificationConfig', 'pushNotification', 'pushNotificationConfigId'],
  ...['pageToken', 'nextPageToken', 'totalSize', 'statusTimestampAfter', 'includeArtifacts', 'sessionId', 'configId'],
  ...['fileWithBytes', 'fileWithUri', 'supportedInterfaces', 'protocolBinding', 'protocolVersion', 'documentationUrl'],
  ...['iconUrl', 'pushNotifications', 'extendedAgentCard', 'securitySchemes', 'securityRequirements', 'inputModes'],
  ...['outputModes', 'defaultInputModes', 'defaultOutputModes', 'preferredTransport', 'additionalInterfaces'],
  ...['supportsAuthenticatedExtendedCard', 'stateTransitionHistory', 'apiKeySecurityScheme', 'httpAuthSecurityScheme'],
  ...['oauth2SecurityScheme', 'openIdConnectSecurityScheme', 'mtlsSecurityScheme', 'bearerFormat', 'tokenUrl'],
  ...['oauth2MetadataUrl', 'openIdConnectUrl', 'authorizationCode', 'clientCredentials', 'deviceCode', 'refreshUrl'],
  ...['authorizationUrl', 'deviceAuthorizationUrl', 'pkceRequired'],
] as const;
const SNAKE = new Map<string, string>(
  MEMBERS.map((member) => [member.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), member]),
);

/**
 * The object with its snake_case members renamed and without its null members, since proto writes absent members as
 * null. Returns the same object if nothing changes. `keep` names the one member that may be null.
 */
export function camel(wire: JsonObject, keep?: string): JsonObject {
  for (const key in wire) {
    if ((wire[key] === null && key !== keep) || (key.includes('_') && SNAKE.has(key))) return renamed(wire, keep);
  }
  return wire;
}

/** The members except `__proto__`, whose assignment would change the prototype. */
export const entriesOf = (wire: JsonObject): [string, JsonValue | undefined][] =>
  Object.entries(wire).filter(([name]) => name !== '__proto__');

function renamed(wire: JsonObject, keep: string | undefined): JsonObject {
  const made: JsonObject = {};
  for (const [key, value] of entriesOf(wire)) {
    const name = SNAKE.get(key) ?? key;
    if ((name === key || wire[name] === undefined) && (value !== null || name === keep)) made[name] = value;
  }
  return made;
}

/** Drops undefined, null, and empty strings, arrays and objects, which the 0.x versions omit. */
export function filled(members: JsonObject): JsonObject {
  const made: JsonObject = {};
  for (const [key, value] of entriesOf(members)) if (!isEmpty(value)) made[key] = value;
  return made;
}

export function isEmpty(value: JsonValue | undefined): boolean {
  if (value === undefined || value === null || value === '') return true;
  if (Array.isArray(value)) return value.length === 0;
  return typeof value === 'object' && Object.keys(value).length === 0;
}

const STATES = new Map<string, TaskState>();
for (const state of TASK_STATES) {
  const bare = state.slice('TASK_STATE_'.length);
  for (const spelling of [bare, `TASK_STATE_${bare}`]) STATES.set(spelling, state);
}
STATES.set('CANCELLED', 'TASK_STATE_CANCELED');
STATES.set('TASK_STATE_CANCELLED', 'TASK_STATE_CANCELED');
STATES.set('UNKNOWN', 'TASK_STATE_UNSPECIFIED');

const KNOWN_STATES: ReadonlySet<unknown> = new Set(TASK_STATES);

/** The state for any version's spelling or number; undefined for an unknown word. */
export function stateOf(value: JsonValue | undefined): TaskState | undefined {
  if (KNOWN_STATES.has(value)) return value as TaskState;
  if (typeof value === 'number') return TASK_STATES[value];
  if (typeof value === 'string') return STATES.get(value.toUpperCase().replaceAll('-', '_'));
  return undefined;
}

const ROLES: readonly Role[] = ['ROLE_UNSPECIFIED', 'ROLE_USER', 'ROLE_AGENT'];

export function roleOf(value: JsonValue | undefined): Role | undefined {
  if (typeof value === 'number') return ROLES[value];
  if (value === 'ROLE_USER' || value === 'ROLE_AGENT' || value === 'ROLE_UNSPECIFIED') return value;
  if (value === 'user' || value === 'agent') return value === 'user' ? 'ROLE_USER' : 'ROLE_AGENT';
  return undefined;
}

const STANDARD_BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
const ANY_BASE64 = /^[A-Za-z0-9+/_-]*={0,2}$/;

/** Normalises the base64 variants that peers use to standard base64. */
export function base64(value: string, place: string): string {
  if (value.length % 4 === 0 && STANDARD_BASE64.test(value)) return value;
  const bare = value.replace(/\s+/g, '');
  if (!ANY_BASE64.test(bare)) throw new Unreadable(`${place} must be base64`);
  return Buffer.from(bare, 'base64').toString('base64');
}

const ZONED = /(?:Z|[+-]\d{2}:?\d{2})$/i;

/** A timestamp in UTC. Samples of 0.3 omit the zone and mean UTC. A text that is not a timestamp stays unchanged. */
export function utc(timestamp: string): string {
  if (timestamp.endsWith('Z')) return timestamp;
  const at = Date.parse(ZONED.test(timestamp) ? timestamp : `${timestamp}Z`);
  return Number.isNaN(at) ? timestamp : new Date(at).toISOString();
}

/**
 * Parses the resource names of the 0.3 proto: `tasks/{id}`, `tasks/{id}/pushNotificationConfigs/{config}`, or a bare
 * id.
 */
export function readName(name: string): { task: string; config?: string } {
  const parts = name.split('/');
  if ((parts[0] === 'tasks' || parts[0] === 'task') && parts[1]) {
    return { task: parts[1], ...(parts[3] && { config: parts[3] }) };
  }
  return { task: name };
}
