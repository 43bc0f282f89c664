/**
 * What an old version has no place for is noted in the metadata of the thing it belongs to, under the gateway's own
 * names, and taken back from there by the readers. A peer that echoes metadata gives everything back.
 */
import { isObject, type JsonObject, type JsonValue } from '../../jsonrpc/raw.js';
import { isInterrupted, isTerminal, PARLEY, type TaskState } from '../model.js';
import { stateOf } from './tolerant.js';

/** On a part: the media type and the file name of what is no file. */
export const MEDIA_TYPE = `${PARLEY}/mediaType`;
export const FILENAME = `${PARLEY}/filename`;
/** On a task or an event: the state, where the version has no word for it. */
export const STATE = `${PARLEY}/state`;
/** The convention of both SDKs for data that is no object: `{value}` and this mark. */
export const WRAPPED = 'data_part_compat';

/** Metadata with notes added; undefined where there is nothing at all. */
export function withNotes(metadata: JsonValue | undefined, notes: JsonObject): JsonObject | undefined {
  const made: JsonObject = isObject(metadata) ? { ...metadata } : {};
  for (const [key, value] of Object.entries(notes)) if (value !== undefined) made[key] = value;
  return Object.keys(made).length > 0 || isObject(metadata) ? made : undefined;
}

/** Metadata without some of its keys; undefined where nothing is left. */
export function without(metadata: JsonObject, ...keys: string[]): JsonObject | undefined {
  const made = { ...metadata };
  for (const key of keys) delete made[key];
  return Object.keys(made).length > 0 ? made : undefined;
}

/**
 * The state and the metadata that a peer meant: the noted state counts where the word on the wire is the one it would
 * have been written as, or no word of ours.
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
