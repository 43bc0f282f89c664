/**
 * What all versions' readers share. They read with good will: any spelling that can only mean one thing is taken, and
 * what cannot be understood is an `Unreadable` that names the place.
 */
import { Buffer } from 'node:buffer';
import { isObject, type JsonObject, type JsonValue } from '../../jsonrpc/raw.js';
import { type Role, TASK_STATES, type TaskState } from '../model.js';

/** Something on the wire that no reader can make sense of. A dialect turns it into the error of its direction. */
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

/** A string that may be left out; null and the empty string are proto's ways of leaving it out. */
export function optionalText(value: JsonValue | undefined, place: string): string | undefined {
  if (value === undefined || value === null || value === '') return undefined;
  if (typeof value !== 'string') throw new Unreadable(`${place} must be a string`);
  return value;
}

/** A whole number; a query string and ProtoJSON's 64-bit numbers bring it as text. */
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

/** An array; one that is missing or null is an empty one, and null is no element. */
export function listAt(value: JsonValue | undefined, place: string): JsonValue[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw new Unreadable(`${place} must be an array`);
  return value;
}

/** The members that are known, for peers that write them in snake_case. Nobody's metadata and data are touched. */
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
 * The object with its snake_case members renamed and its null members left out, which is how proto leaves a member out;
 * the object itself where there are none. `keep` names the one member that may be null.
 */
export function camel(wire: JsonObject, keep?: string): JsonObject {
  for (const key in wire) {
    if ((wire[key] === null && key !== keep) || (key.includes('_') && SNAKE.has(key))) return renamed(wire, keep);
  }
  return wire;
}

/** Members by their names, without the one name that cannot be assigned without becoming something else. */
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

/** Drops what is undefined, null, an empty string, array or object: what the 0.x versions leave out. */
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

/** The state that any version's spelling means, its number too; undefined for a word nobody has defined. */
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

/** Base64 as the standard writes it, of any of the forms peers use. */
export function base64(value: string, place: string): string {
  if (value.length % 4 === 0 && STANDARD_BASE64.test(value)) return value;
  const bare = value.replace(/\s+/g, '');
  if (!ANY_BASE64.test(bare)) throw new Unreadable(`${place} must be base64`);
  return Buffer.from(bare, 'base64').toString('base64');
}

const ZONED = /(?:Z|[+-]\d{2}:?\d{2})$/i;

/** A timestamp in UTC. Samples of 0.3 leave out the zone, and mean UTC; what is no timestamp stays as it is. */
export function utc(timestamp: string): string {
  if (timestamp.endsWith('Z')) return timestamp;
  const at = Date.parse(ZONED.test(timestamp) ? timestamp : `${timestamp}Z`);
  return Number.isNaN(at) ? timestamp : new Date(at).toISOString();
}

/** `tasks/{id}` and `tasks/{id}/pushNotificationConfigs/{config}`, the 0.3 proto's way to name things; a bare id too. */
export function readName(name: string): { task: string; config?: string } {
  const parts = name.split('/');
  if ((parts[0] === 'tasks' || parts[0] === 'task') && parts[1]) {
    return { task: parts[1], ...(parts[3] && { config: parts[3] }) };
  }
  return { task: name };
}
