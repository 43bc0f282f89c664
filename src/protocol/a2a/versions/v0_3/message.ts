import { isObject, type JsonObject, type JsonValue } from '../../../jsonrpc/raw.js';
import type { Artifact, Message, Role } from '../../model.js';
import { WRAPPED, withNotes, without } from '../metadata-notes.js';
import { camel, filled, listAt, objectAt, optionalText, roleOf, textAt, Unreadable } from '../tolerant-readers.js';
import { readPart, type Shape, unwrapNoted, wrappedParts, writePart, writeProtoPart } from './part.js';

/** The context that a reader of messages needs. */
export interface Place {
  readonly shape: Shape;
  /** The role for a message that has none. */
  readonly role: Role;
  /** Creates the id for a message that has none; without this function the id is required. */
  readonly mint?: () => string;
}

export function readMessage(wire: JsonValue | undefined, place: string, at: Place): Message {
  const { kind: _kind, content, parts, role, messageId, metadata, ...rest } = camel(objectAt(wire, place));
  const list = listAt(parts ?? content, `${place}.parts`);
  const id = optionalText(messageId, `${place}.messageId`) ?? at.mint?.();
  const read = list.map((part, index) => readPart(part, `${place}.parts[${index}]`, at.shape));
  const about = isObject(metadata) ? metadata : undefined;
  const kept = about?.[WRAPPED] === undefined ? about : without(about, WRAPPED);
  return {
    ...withoutEmpty(rest, 'contextId', 'taskId'),
    messageId: id ?? textAt(undefined, `${place}.messageId`),
    role: readRole(role, place, at),
    parts: unwrapNoted(read, about?.[WRAPPED]),
    ...(kept !== undefined && { metadata: kept }),
  };
}

function readRole(role: JsonValue | undefined, place: string, at: Place): Role {
  if (role === undefined) return at.role;
  const read = roleOf(role);
  if (read === undefined) throw new Unreadable(`${place}.role must be user or agent`);
  return read === 'ROLE_UNSPECIFIED' ? at.role : read;
}

/** The object without those members that are empty strings: old servers write absent members so. */
export function withoutEmpty(wire: JsonObject, ...members: string[]): JsonObject {
  if (members.every((member) => wire[member] !== '')) return wire;
  return Object.fromEntries(Object.entries(wire).filter(([key, value]) => value !== '' || !members.includes(key)));
}

export const writeRole = (role: Role): string => (role === 'ROLE_USER' ? 'user' : 'agent');

export function writeMessage(message: Message, shape: Shape): JsonObject {
  const { messageId, role, parts, contextId, taskId, referenceTaskIds, extensions, metadata, ...rest } = message;
  if (shape === 'proto') {
    return filled({
      messageId,
      contextId,
      taskId,
      role: role === 'ROLE_USER' ? role : 'ROLE_AGENT',
      content: parts.map(writeProtoPart),
      metadata: withWrapped(metadata, message.parts),
      extensions,
    });
  }
  return {
    kind: 'message',
    messageId,
    role: writeRole(role),
    parts: parts.map((part) => writePart(part)),
    ...filled({ contextId, taskId, referenceTaskIds, extensions }),
    ...(metadata !== undefined && { metadata }),
    ...rest,
  };
}

function withWrapped(metadata: JsonObject | undefined, parts: Message['parts']): JsonObject | undefined {
  const wrapped = wrappedParts(parts);
  return wrapped.length === 0 ? metadata : withNotes(metadata, { [WRAPPED]: wrapped });
}

export function readArtifact(wire: JsonValue | undefined, place: string, shape: Shape): Artifact {
  const { artifactId, parts, metadata, ...others } = camel(objectAt(wire, place));
  const { id, rest } = artifactName(artifactId, others);
  const read = listAt(parts, `${place}.parts`).map((part, index) => readPart(part, `${place}.parts[${index}]`, shape));
  const about = isObject(metadata) ? metadata : undefined;
  const kept = about?.[WRAPPED] === undefined ? about : without(about, WRAPPED);
  return {
    ...withoutEmpty(rest, 'name', 'description'),
    artifactId: textAt(id, `${place}.artifactId`),
    parts: unwrapNoted(read, about?.[WRAPPED]),
    ...(kept !== undefined && { metadata: kept }),
  };
}

/** An artifact with a number and without an id comes from 0.1, and gets the id of such artifacts. */
function artifactName(id: JsonValue | undefined, others: JsonObject): { id: JsonValue | undefined; rest: JsonObject } {
  const { index, ...rest } = others;
  if (id !== undefined || !Number.isInteger(index)) return { id, rest: others };
  return { id: `idx-${String(index)}`, rest };
}

export function writeArtifact(artifact: Artifact, shape: Shape): JsonObject {
  const { artifactId, parts, name, description, metadata, extensions, ...rest } = artifact;
  if (shape === 'proto') {
    return filled({
      artifactId,
      name,
      description,
      parts: parts.map(writeProtoPart),
      metadata: withWrapped(metadata, parts),
      extensions,
    });
  }
  return {
    artifactId,
    ...filled({ name, description, extensions }),
    parts: parts.map((part) => writePart(part)),
    ...(metadata !== undefined && { metadata }),
    ...rest,
  };
}
