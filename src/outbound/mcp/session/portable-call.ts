/** The stored form of a parked call. Another process can continue the call from it (mcp.md 4.4, "portable park"). */

import type { Id } from '../../../protocol/jsonrpc/message.js';
import type { JsonObject, JsonValue } from '../../../protocol/jsonrpc/raw.js';
import { type ClientCapabilities, type InputRequest, isObject } from '../../../protocol/mcp/model.js';

/** The session of the call. Any process can use the session by its id. */
export interface PortableSession {
  readonly session: string;
  readonly revision: string;
  /** The key of the credential with which the session was opened. */
  readonly credential?: string | undefined;
}

export interface PortableCall extends PortableSession {
  /** The id of the call on that session. */
  readonly call: number;
  readonly method: string;
  readonly taskId?: string;
  readonly wantsProgress: boolean;
  /** The capabilities that the caller declared. */
  readonly capabilities: ClientCapabilities;
  /** The reply is resumed after this event. */
  readonly lastEventId: string;
  readonly questions: readonly { readonly key: string; readonly id: Id; readonly request: InputRequest }[];
  readonly timeouts?: { readonly call: number; readonly callMax: number };
}

const VERSION = 1;

export const writePortable = (call: PortableCall): JsonValue => ({ v: VERSION, ...call }) as unknown as JsonValue;

/** Returns undefined for a record of another format version. */
export function readPortable(value: JsonValue): PortableCall | undefined {
  if (!isObject(value) || value['v'] !== VERSION) return undefined;
  const { v: _, ...call } = value as JsonObject;
  return call as unknown as PortableCall;
}
