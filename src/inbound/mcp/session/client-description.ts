/** The part of a client's `initialize` that its session keeps, bounded: it stays in memory as long as the session. */
import { ProtocolError } from '../../../protocol/errors.js';
import type { JsonObject, JsonValue } from '../../../protocol/jsonrpc/raw.js';
import { type Implementation, isObject } from '../../../protocol/mcp/model.js';

/** Bytes of `capabilities`, as JSON. Genuine clients declare a few hundred. */
const MOST_CAPABILITY_BYTES = 16 * 1024;
const MOST_CHARACTERS = 200;
const KEPT = ['name', 'title', 'version'] as const;

/** The names and the version of the client's program, for logs and for people; nothing else of it is used. */
export function keptClientInfo(given: JsonValue | undefined): Implementation | undefined {
  if (!isObject(given)) return undefined;
  const kept: JsonObject = {};
  for (const key of KEPT) {
    const value = given[key];
    if (typeof value === 'string') kept[key] = value.slice(0, MOST_CHARACTERS);
  }
  return kept as Implementation;
}

/** Refuses a declaration that is too large to keep, because a part of one would mean something else. */
export function checkCapabilities(bytes: number): void {
  if (bytes <= MOST_CAPABILITY_BYTES) return;
  throw new ProtocolError(
    'invalid_params',
    `"capabilities" has ${bytes} bytes; the gateway keeps at most ${MOST_CAPABILITY_BYTES} of them with a session`,
    { outcome: 'not_executed' },
  );
}
