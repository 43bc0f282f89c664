/** Callers, their calls and their credentials, for unit tests. */
import { type Caller, Cancellation, principalOf } from '../../src/core/caller.js';
import { ALL_SERVERS, type Call } from '../../src/core/gateway.js';
import type { Credential, Credentials } from '../../src/identity/upstream-credentials.js';
import { type JsonObject, RawObject } from '../../src/protocol/jsonrpc/raw.js';
import { NEWEST } from '../../src/protocol/mcp/revisions/index.js';

export const callerNamed = (subject: string, more: Partial<Caller> = {}): Caller => ({
  principal: principalOf({ subject }),
  revision: NEWEST,
  capabilities: {},
  clientInfo: undefined,
  session: undefined,
  ...more,
});

/** A call of a tool. */
export const toolCall = (params: JsonObject, more: Partial<Call> = {}): Call => ({
  requestId: 'made-at-the-edge',
  id: 7,
  method: 'tools/call',
  params: RawObject.from(params),
  view: ALL_SERVERS,
  wantsProgress: false,
  logLevel: undefined,
  cancellation: new Cancellation(),
  header: undefined,
  notify: () => {},
  ...more,
});

/** Each caller has its own token, available either at once or later. */
export const tokenOfCaller = (later: boolean): Credentials => ({
  for: ({ principal }) => {
    const credential: Credential = { key: principal.key, headers: ['Authorization', `Bearer ${principal.key}`] };
    return later ? new Promise((resolve) => setImmediate(() => resolve(credential))) : credential;
  },
});
