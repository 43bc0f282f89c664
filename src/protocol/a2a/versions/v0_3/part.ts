import { isObject, type JsonObject, type JsonValue } from '../../../jsonrpc/raw.js';
import type { Part } from '../../model.js';
import { FILENAME, MEDIA_TYPE, WRAPPED, withNotes, without } from '../metadata-notes.js';
import { base64, camel, objectAt, optionalText, Unreadable } from '../tolerant-readers.js';

/** The two JSON shapes of 0.3: its JSON Schema, and the ProtoJSON of its proto. */
export type Shape = 'schema' | 'proto';

/** A part of any version, distinguished by `kind`, by `type`, or by the member it has (C-26). */
export function readPart(wire: JsonValue, place: string, shape: Shape): Part {
  const { kind, type, ...part } = camel(objectAt(wire, place), 'data');
  // Unless it is the discriminator of 0.1, `type` is an ordinary member.
  if (type !== undefined && kind === undefined && type !== 'text' && type !== 'file' && type !== 'data') {
    part['type'] = type;
  }
  const named = kind ?? type;
  if (isObject(part['file'])) return readFile(part, part['file'], place);
  const { text, raw, url, data, ...rest } = part;
  const contents = [text, raw, url].filter((content) => typeof content === 'string').length + (data == null ? 0 : 1);
  if (contents > 1 && named === undefined) throw new Unreadable(`${place} must have one content, not ${contents}`);
  if (typeof text === 'string' && named !== 'data') return restored({ ...rest, text });
  if (typeof raw === 'string') return { ...rest, raw: base64(raw, `${place}.raw`) };
  if (typeof url === 'string' && named !== 'data') return { ...rest, url };
  if (data === undefined) throw new Unreadable(`${place} must have a text, a file or data`);
  const proto = shape === 'proto' && named === undefined && isObject(data) ? data['data'] : undefined;
  return restored(unwrapped({ ...rest, data: isObject(proto) ? proto : data }));
}

function readFile(part: JsonObject, wire: JsonObject, place: string): Part {
  const { file: _file, ...rest } = part;
  const { bytes, data, fileWithBytes, uri, fileWithUri, name, mimeType, ...more } = camel(wire);
  const filename = optionalText(name, `${place}.file.name`);
  const mediaType = optionalText(mimeType, `${place}.file.mimeType`);
  const made: Part = { ...more, ...rest };
  if (filename !== undefined) made.filename = filename;
  if (mediaType !== undefined) made.mediaType = mediaType;
  // Samples of 0.3 name the bytes `data`.
  const raw = bytes ?? fileWithBytes ?? data;
  const url = uri ?? fileWithUri;
  if (typeof raw === 'string' && (raw !== '' || typeof url !== 'string' || url === '')) {
    return { ...made, raw: base64(raw, `${place}.file.bytes`) };
  }
  if (typeof url === 'string') return { ...made, url };
  throw new Unreadable(`${place}.file must have bytes or a uri`);
}

function unwrapped(part: Part): Part {
  if (part.metadata?.[WRAPPED] !== true || !isObject(part.data) || !('value' in part.data)) return part;
  return withMetadata({ ...part, data: part.data['value'] as JsonValue }, without(part.metadata, WRAPPED));
}

function restored(part: Part): Part {
  const { metadata } = part;
  if (!isObject(metadata) || (metadata[MEDIA_TYPE] === undefined && metadata[FILENAME] === undefined)) return part;
  const made = withMetadata({ ...part }, without(metadata, MEDIA_TYPE, FILENAME));
  if (typeof metadata[MEDIA_TYPE] === 'string') made.mediaType = metadata[MEDIA_TYPE];
  if (typeof metadata[FILENAME] === 'string') made.filename = metadata[FILENAME];
  return made;
}

function withMetadata(part: Part, metadata: JsonObject | undefined): Part {
  const { metadata: _old, ...rest } = part;
  return metadata === undefined ? rest : { ...rest, metadata };
}

/** The part in the JSON Schema form of 0.3 and 0.2, or of 0.1 with `type` instead of `kind`. */
export function writePart(part: Part, discriminator: 'kind' | 'type' = 'kind'): JsonObject {
  const { text, raw, url, data, metadata, filename, mediaType, ...rest } = part;
  const about = (notes: JsonObject): JsonObject => {
    const made = withNotes(metadata, notes);
    return made === undefined ? {} : { metadata: made };
  };
  if (text !== undefined) {
    const notes = { [MEDIA_TYPE]: mediaType, [FILENAME]: filename };
    return { [discriminator]: 'text', text, ...about(notes), ...rest };
  }
  if (raw !== undefined || url !== undefined) {
    const file: JsonObject = raw !== undefined ? { bytes: base64(raw, 'raw') } : { uri: url };
    if (filename !== undefined) file['name'] = filename;
    if (mediaType !== undefined) file['mimeType'] = mediaType;
    return { [discriminator]: 'file', file, ...about({}), ...rest };
  }
  const notes: JsonObject = { [MEDIA_TYPE]: mediaType, [FILENAME]: filename };
  if (isObject(data)) return { [discriminator]: 'data', data, ...about(notes), ...rest };
  return { [discriminator]: 'data', data: { value: data ?? null }, ...about({ ...notes, [WRAPPED]: true }), ...rest };
}

/** The part in the form of the 0.3.0 proto, which has no fields for metadata, names and unknown members. */
export function writeProtoPart(part: Part): JsonObject {
  const { text, raw, url, data, mediaType } = part;
  if (text !== undefined) return { text };
  if (raw !== undefined || url !== undefined) {
    const file: JsonObject = raw !== undefined ? { fileWithBytes: base64(raw, 'raw') } : { fileWithUri: url };
    if (mediaType !== undefined && mediaType !== '') file['mimeType'] = mediaType;
    return { file };
  }
  return { data: { data: isObject(data) ? data : { value: data ?? null } } };
}

/**
 * The indexes of the parts whose data the proto had to wrap, for a note in the metadata of their message or artifact.
 */
export function wrappedParts(parts: readonly Part[]): number[] {
  return parts.flatMap((part, index) =>
    part.text === undefined && part.raw === undefined && part.url === undefined && !isObject(part.data) ? [index] : [],
  );
}

/** Unwraps the parts that `wrappedParts` noted. */
export function unwrapNoted(parts: Part[], note: JsonValue | undefined): Part[] {
  if (!Array.isArray(note)) return parts;
  return parts.map((part, index) =>
    note.includes(index) && isObject(part.data) && 'value' in part.data
      ? { ...part, data: part.data['value'] as JsonValue }
      : part,
  );
}
