import { textOf } from '../../jsonrpc/json-pieces.js';
import { type Edits, isEmpty, type JsonValue, type RawObject } from '../../jsonrpc/raw.js';
import { type ClientCapabilities, HOP_META, type Implementation, isObject, type LogLevel, META } from '../model.js';
import type { Revision } from '../revisions/index.js';

/** The gateway's metadata on a request to the next hop. */
export interface Stamp {
  readonly revision: Revision;
  readonly clientInfo: Implementation;
  readonly capabilities: ClientCapabilities;
  readonly logLevel: LogLevel | undefined;
  readonly progressToken: string | number | undefined;
  /** The trace context of this hop, which replaces that of the sender (SEP-414). */
  readonly trace?: { readonly traceparent: string; readonly tracestate?: string } | undefined;
}

const TRACE_META: ReadonlySet<string> = new Set(['traceparent', 'tracestate']);

/** A request's `_meta` for the next hop: the sender's own keys pass, hop-specific keys are written anew (BR-02). */
function stampMeta(sent: JsonValue | undefined, stamp: Stamp): string | undefined {
  let text = '';
  if (isObject(sent)) {
    for (const key of Object.keys(sent))
      if (!HOP_META.has(key) && !(stamp.trace && TRACE_META.has(key)))
        text += `,${JSON.stringify(key)}:${JSON.stringify(sent[key])}`;
  }
  const { progressToken, revision, logLevel, trace } = stamp;
  if (trace) {
    text += `,"traceparent":${JSON.stringify(trace.traceparent)}`;
    if (trace.tracestate !== undefined) text += `,"tracestate":${JSON.stringify(trace.tracestate)}`;
  }
  if (progressToken !== undefined) text += `,"${META.progressToken}":${JSON.stringify(progressToken)}`;
  if (revision.era === 'modern') {
    text += `,"${META.protocolVersion}":"${revision.date}","${META.clientInfo}":${textOf(stamp.clientInfo)}`;
    // Most clients declare no capabilities.
    const capabilities = isEmpty(stamp.capabilities) ? '{}' : JSON.stringify(stamp.capabilities);
    text += `,"${META.clientCapabilities}":${capabilities}`;
    if (logLevel !== undefined) text += `,"${META.logLevel}":"${logLevel}"`;
  }
  return text === '' ? undefined : `{${text.slice(1)}}`;
}

/** A request's parameters for the next hop. Only `_meta` and the given members change. */
export function stampParams(params: RawObject, stamp: Stamp, edits?: Edits): RawObject {
  const meta = { _meta: stampMeta(params.get('_meta'), stamp) };
  return edits ? params.edit(edits).edit(meta) : params.edit(meta);
}
