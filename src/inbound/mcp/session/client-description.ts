/**
 * The part of a client's `initialize` that its session keeps. It is bounded, because it stays in memory as long as the
 * session.
 */
import { ProtocolError } from '../../../protocol/errors.js';
import type { JsonObject, JsonValue } from '../../../protocol/jsonrpc/raw.js';
import { type Implementation, isObject } from '../../../protocol/mcp/model.js';

/** The maximum size of `capabilities` in bytes, as JSON. Real clients declare a few hundred bytes. */
const MOST_CAPABILITY_BYTES = 16 * 1024;
const MOST_CHARACTERS = 200;
const KEPT = ['name', 'title', 'version'] as const;

/** The names and the version of the client program, for logs and people; the rest is dropped. */
export function keptClientInfo(given: JsonValue | undefined): Implementation | undefined {
  if (!isObject(given)) return undefined;
  const kept: JsonObject = {};
  for (const key of KEPT) {
    const value = given[key];
    if (typeof value === 'string') kept[key] = value.slice(0, MOST_CHARACTERS);
  }
  return kept as Implementation;
}

/**
 * Refuses capabilities that are too large to keep. They are not cut to the limit: a part of them would declare something
 * that the client did not declare.
 */
export function checkCapabilities(bytes: number): void {
  if (bytes <= MOST_CAPABILITY_BYTES) return;
  throw new ProtocolError(
    'invalid_params',
    `"capabilities" has ${bytes} bytes; the gateway keeps at most ${MOST_CAPABILITY_BYTES} of them with a session`,
    { outcome: 'not_executed' },
  );
}
