/** Reads an event in any of the known shapes: the body of a webhook, or a result in the form of an event. */
import { isObject, type JsonValue } from '../../jsonrpc/raw.js';
import type { StreamContext } from '../dialect.js';
import { type ReadEvent, readEvent } from './v0_3/event.js';
import type { Shape } from './v0_3/part.js';

export function readAnyEvent(wire: JsonValue, place: string, shape: Shape, context: StreamContext = {}): ReadEvent {
  return readEvent(opened(wire), place, shape, context);
}

/** The event inside a JSON-RPC message: some agents post the whole message. */
export function opened(wire: JsonValue): JsonValue {
  if (!isObject(wire) || wire['jsonrpc'] === undefined) return wire;
  const { result, params } = wire;
  return isObject(result) ? result : isObject(params) ? params : wire;
}
