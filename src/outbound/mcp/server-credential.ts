/** The credential of a caller for a server. */
import type { Caller } from '../../core/caller.js';
import { within } from '../../core/timing.js';
import type { Credential } from '../../identity/upstream-credentials.js';
import { lateCredential } from './server-errors.js';
import type { UpstreamContext } from './upstream-context.js';

/** The members of the context that are needed to get a credential. */
export type CredentialContext = Pick<UpstreamContext, 'name' | 'place' | 'credential' | 'timeouts'>;

/** The credential of a caller. An exception and a malformed credential become a rejected promise. */
export function credentialOf(context: CredentialContext, caller: Caller): Credential | Promise<Credential> {
  const { credential } = context;
  try {
    const given = credential(caller);
    return given instanceof Promise ? withTimeLimit(context, given) : wellFormed(given);
  } catch (error) {
    return Promise.reject(error);
  }
}

/** Waits for a credential at most as long as for an answer of the server. */
async function withTimeLimit(context: CredentialContext, given: Promise<Credential>): Promise<Credential> {
  const { call } = context.timeouts;
  let late = false;
  const credential = await within(given, call, {
    late: () => {
      late = true;
    },
  });
  if (late) throw lateCredential(context, call);
  return wellFormed(credential);
}

function wellFormed(credential: Credential | undefined): Credential {
  const { key, headers } = credential ?? {};
  if (
    credential &&
    typeof key === 'string' &&
    Array.isArray(headers) &&
    headers.every((each) => typeof each === 'string')
  )
    return credential;
  throw new TypeError('a credential must have a key and headers, all of them strings');
}

/** The caller whose credential a session uses, and the key of that credential. The session uses no other credential. */
export interface CredentialHolder {
  readonly caller: Caller;
  readonly key: string;
}
