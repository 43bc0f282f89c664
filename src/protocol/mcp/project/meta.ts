import type { JsonObject, JsonValue, RawObject } from '../../jsonrpc/raw.js';
import { type ClientCapabilities, HOP_META, type Implementation, isObject, type LogLevel, META } from '../model.js';
import type { Revision } from '../revisions/index.js';

/** What the next hop is told about this request. */
export interface Stamp {
  readonly revision: Revision;
  readonly clientInfo: Implementation;
  readonly capabilities: ClientCapabilities;
  readonly logLevel: LogLevel | undefined;
  readonly progressToken: string | number | undefined;
}

/** A request's `_meta` for the next hop: the sender's own keys pass, those of one hop are written anew (BR-02). */
export function stampMeta(sent: JsonValue | undefined, stamp: Stamp): JsonObject | undefined {
  const meta: JsonObject = {};
  if (isObject(sent)) for (const key of Object.keys(sent)) if (!HOP_META.includes(key)) define(meta, key, sent[key]);
  if (stamp.progressToken !== undefined) meta[META.progressToken] = stamp.progressToken;
  if (stamp.revision.era === 'modern') {
    meta[META.protocolVersion] = stamp.revision.date;
    meta[META.clientInfo] = stamp.clientInfo;
    meta[META.clientCapabilities] = stamp.capabilities;
    if (stamp.logLevel !== undefined) meta[META.logLevel] = stamp.logLevel;
  }
  for (const _ in meta) return meta;
  return undefined;
}

/** `__proto__` is a key like any other in JSON. */
function define(object: JsonObject, key: string, value: JsonValue | undefined): void {
  if (key === '__proto__')
    Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
  else object[key] = value;
}

/** A request's parameters for the next hop, with everything but `_meta` and the given members as the sender wrote it. */
export function stampParams(
  params: RawObject,
  stamp: Stamp,
  edits: { readonly [key: string]: string | Buffer | undefined } = {},
): RawObject {
  const meta = stampMeta(params.get('_meta'), stamp);
  return params.edit({ ...edits, _meta: meta && JSON.stringify(meta) });
}
