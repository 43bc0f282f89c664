/** A2A parts as MCP content and back (a2a.md 4.1, 4.2). */
import type { Part } from '../a2a/model.js';
import type { JsonObject, JsonValue } from '../jsonrpc/raw.js';
import { isObject } from '../mcp/model.js';

/** The position of a part, for the URI of a resource created from it. */
export interface Place {
  readonly agent: string;
  readonly task: string | undefined;
  readonly artifact: string;
}

/** Translates an agent's parts to the content of a tool result. */
export function contentOf(parts: readonly Part[], place: Place): JsonObject[] {
  return parts.flatMap((part, index) => {
    const content = blockOf(part, place, index);
    return content ? [content] : [];
  });
}

function blockOf(part: Part, place: Place, index: number): JsonObject | undefined {
  const { text, raw, url, data, mediaType, filename } = part;
  if (text !== undefined) return { type: 'text', text };
  if (url !== undefined) {
    return {
      type: 'resource_link',
      uri: url,
      name: filename ?? nameOf(url),
      ...(mediaType !== undefined && { mimeType: mediaType }),
    };
  }
  if (raw !== undefined) return fileBlock(raw, mediaType, resourceUri(place, index));
  // Clients without support for structured content read it as text (a2a.md 4.1).
  if ('data' in part) return { type: 'text', text: JSON.stringify(data) };
  return undefined;
}

function fileBlock(raw: string, mediaType: string | undefined, uri: string): JsonObject {
  const kind = /^(image|audio)\//.exec(mediaType ?? '')?.[1];
  if (kind !== undefined && mediaType !== undefined) return { type: kind, data: raw, mimeType: mediaType };
  const described = { uri, ...(mediaType !== undefined && { mimeType: mediaType }) };
  const text = mediaType !== undefined && isText(mediaType) ? decoded(raw) : undefined;
  return { type: 'resource', resource: text === undefined ? { ...described, blob: raw } : { ...described, text } };
}

const isText = (mediaType: string): boolean => /^text\/|^application\/(json|xml)\b|\+(json|xml)\b/.test(mediaType);

function decoded(raw: string): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(raw, 'base64'));
  } catch {
    return undefined;
  }
}

function resourceUri({ agent, task, artifact }: Place, index: number): string {
  return `a2a://${[agent, task ?? 'message', artifact, String(index)].map(encodeURIComponent).join('/')}`;
}

/** The last segment of a URL, used as a name. */
function nameOf(url: string): string {
  return /([^/?#]+)\/?(?:[?#].*)?$/.exec(url)?.[1] ?? url;
}

/** Translates a tool result to an agent's parts; structured content comes first. */
export function partsOf(result: JsonObject): Part[] {
  const { content, structuredContent } = result;
  const parts: Part[] = Array.isArray(content) ? content.filter(isObject).flatMap(partOf) : [];
  if (structuredContent === undefined) return parts;
  const structured: Part = { data: structuredContent, mediaType: 'application/json' };
  // A server repeats structured content as text for clients that read only text.
  const rest = parts.filter(({ text }) => text === undefined || !sameJson(text, structuredContent));
  return [structured, ...rest];
}

function partOf(block: JsonObject): Part[] {
  const { type, text, data, mimeType, uri, name, resource } = block;
  const described = typeof mimeType === 'string' ? { mediaType: mimeType } : {};
  switch (type) {
    case 'text':
      return [{ text: String(text ?? '') }];
    case 'image':
    case 'audio':
      return typeof data === 'string' ? [{ raw: data, ...described }] : [];
    case 'resource_link':
      return typeof uri === 'string' ? [{ url: uri, ...described, ...(isString(name) && { filename: name }) }] : [];
    case 'resource':
      return isObject(resource) ? resourcePart(resource) : [];
    default:
      return [{ data: block }];
  }
}

function resourcePart({ uri, mimeType, text, blob }: JsonObject): Part[] {
  const described: Part = {
    ...(isString(mimeType) && { mediaType: mimeType }),
    ...(isString(uri) && { filename: nameOf(uri) }),
  };
  if (isString(blob)) return [{ raw: blob, ...described }];
  return isString(text) ? [{ text, ...described }] : [];
}

const isString = (value: JsonValue | undefined): value is string => typeof value === 'string';

function sameJson(text: string, value: JsonValue): boolean {
  try {
    return JSON.stringify(JSON.parse(text)) === JSON.stringify(value);
  } catch {
    return false;
  }
}

/** The text of all text parts. */
export function textOf(parts: readonly Part[] | undefined, between = '\n'): string {
  return (parts ?? [])
    .flatMap(({ text }) => (text === undefined ? [] : [text]))
    .join(between)
    .trim();
}
