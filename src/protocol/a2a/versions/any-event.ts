/** What an agent posts to a webhook, or answers where an event is expected, in whichever shape it comes. */
import { isObject, type JsonValue } from '../../jsonrpc/raw.js';
import type { StreamContext } from '../dialect.js';
import { type ReadEvent, readEvent } from './v0_3/event.js';
import type { Shape } from './v0_3/part.js';

export function readAnyEvent(wire: JsonValue, place: string, shape: Shape, context: StreamContext = {}): ReadEvent {
  return readEvent(opened(wire), place, shape, context);
}

/** The event inside of a JSON-RPC message, which some agents post whole. */
export function opened(wire: JsonValue): JsonValue {
  if (!isObject(wire) || wire['jsonrpc'] === undefined) return wire;
  const { result, params } = wire;
  return isObject(result) ? result : isObject(params) ? params : wire;
}
