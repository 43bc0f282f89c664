/**
 * Values that an old version cannot represent are noted in the metadata of their object, under the gateway's own keys,
 * and restored from there by the readers. No value is lost if the peer echoes the metadata.
 */
import { isObject, type JsonObject, type JsonValue } from '../../jsonrpc/raw.js';
import { isInterrupted, isTerminal, PARLEY, type TaskState } from '../model.js';
import { stateOf } from './tolerant-readers.js';

/** On a part: the media type and the file name of a part other than a file. */
export const MEDIA_TYPE = `${PARLEY}/mediaType`;
export const FILENAME = `${PARLEY}/filename`;
/** On a task or an event: the state, if the version cannot represent it. */
export const STATE = `${PARLEY}/state`;
/** The convention of both SDKs for data other than an object: `{value}` and this mark. */
export const WRAPPED = 'data_part_compat';

/** Metadata with notes added; undefined if the result is empty. */
export function withNotes(metadata: JsonValue | undefined, notes: JsonObject): JsonObject | undefined {
  const made: JsonObject = isObject(metadata) ? { ...metadata } : {};
  for (const [key, value] of Object.entries(notes)) if (value !== undefined) made[key] = value;
  return Object.keys(made).length > 0 || isObject(metadata) ? made : undefined;
}

/** Metadata without some of its keys; undefined if nothing is left. */
export function without(metadata: JsonObject, ...keys: string[]): JsonObject | undefined {
  const made = { ...metadata };
  for (const key of keys) delete made[key];
  return Object.keys(made).length > 0 ? made : undefined;
}

/**
 * The state and the metadata that a peer meant. The noted state applies if the state on the wire is a possible
 * substitute for it.
 */
export function restoredState(
  wire: JsonValue | undefined,
  metadata: JsonObject | undefined,
): { state: TaskState; metadata: JsonObject | undefined } {
  const state = stateOf(wire);
  const note = metadata?.[STATE];
  if (metadata === undefined || note === undefined) {
    if (state !== undefined || typeof wire !== 'string') return { state: state ?? 'TASK_STATE_UNSPECIFIED', metadata };
    return { state: 'TASK_STATE_UNSPECIFIED', metadata: withNotes(metadata, { [STATE]: wire }) };
  }
  const meant = stateOf(note);
  if (meant === undefined || state === undefined) return { state: state ?? 'TASK_STATE_UNSPECIFIED', metadata };
  const fits =
    state === 'TASK_STATE_UNSPECIFIED' ||
    (isTerminal(state) && isTerminal(meant)) ||
    (isInterrupted(state) && isInterrupted(meant));
  return { state: fits ? meant : state, metadata: without(metadata, STATE) };
}
