/**
 * Detects the eras a server speaks, from its reaction to a modern request (mcp.md 5.1, 5.2). `http-link.ts` and
 * `stdio-version-probe.ts` send that request.
 */
import { type ProtocolError, UpstreamRpcError } from '../errors.js';
import type { JsonObject } from '../jsonrpc/raw.js';
import { isObject } from './model.js';
import {
  LEGACY,
  MODERN,
  NEWEST_LEGACY,
  NEWEST_MODERN,
  type Revision,
  revisionOf,
  soundsModern,
} from './revisions/index.js';

/** The detected eras of a server and the time of detection. `undefined` means unknown. */
export interface Verdict {
  readonly modern: string | false | undefined;
  /** Whether the server accepts the handshake. */
  readonly legacy: boolean | undefined;
  /** The server's transport, if it had to be detected. */
  readonly transport?: 'http' | 'sse';
  readonly at: number;
}

/**
 * A legacy verdict expires, and the server is probed again (mcp.md 5.2). Otherwise the gateway would not notice that a
 * server has become modern, because such a server may still accept the handshake.
 */
export const LEGACY_VERDICT_TTL = 24 * 60 * 60 * 1000;

export type Evidence =
  | { readonly kind: 'modern'; readonly revision: Revision; readonly discovered: JsonObject | undefined }
  | { readonly kind: 'legacy' }
  /** The server is modern, but none of its versions is supported. */
  | { readonly kind: 'foreign'; readonly versions: readonly string[] }
  /** The answer shows no era; the server is probed again later. */
  | { readonly kind: 'none' };

function fromVersions(versions: unknown, discovered: JsonObject | undefined): Evidence {
  const listed = Array.isArray(versions)
    ? versions.filter((version): version is string => typeof version === 'string')
    : [];
  const mutual = MODERN.findLast((revision) => listed.includes(revision.date));
  if (mutual) return { kind: 'modern', revision: mutual, discovered };
  const foreign = listed.filter(soundsModern);
  return foreign.length > 0 ? { kind: 'foreign', versions: foreign } : { kind: 'legacy' };
}

const MODERN_ONLY_CODES: readonly number[] = [-32020, -32021];

/** Reads the reply to `server/discover`. `silence` is the conclusion from a missing reply on this transport. */
export function readProbe(
  reply: { readonly result: JsonObject } | { readonly error: ProtocolError | UpstreamRpcError },
  silence: 'legacy' | 'none',
): Evidence {
  if ('result' in reply) return fromVersions(reply.result['supportedVersions'], reply.result);
  const { error } = reply;
  if (error instanceof UpstreamRpcError) {
    if (error.status !== undefined && error.status >= 500) return { kind: 'none' };
    if (error.code === -32022 && isObject(error.data)) return fromVersions(error.data['supported'], undefined);
    // The specification defines these as modern errors, although a correct probe should not cause them.
    if (MODERN_ONLY_CODES.includes(error.code))
      return { kind: 'modern', revision: NEWEST_MODERN, discovered: undefined };
    return { kind: 'legacy' };
  }
  const status = error.detail.data?.['status'];
  if (error.reason === 'upstream_error' && typeof status === 'number') {
    return status >= 400 && status < 500 ? { kind: 'legacy' } : { kind: 'none' };
  }
  return error.reason === 'upstream_timeout' || error.reason === 'upstream_error'
    ? { kind: silence }
    : { kind: 'none' };
}

/** The configured revision of a server: detected, an era, or one date. */
export interface RevisionSetting {
  readonly fixed: Verdict | undefined;
  readonly legacyOffer: Revision;
  readonly modernOffer: Revision;
}

export function revisionSetting(configured: string): RevisionSetting {
  const dated = revisionOf(configured);
  const era = dated?.era ?? configured;
  const legacyOffer = dated?.era === 'legacy' ? dated : NEWEST_LEGACY;
  const modernOffer = dated?.era === 'modern' ? dated : NEWEST_MODERN;
  const fixed: Verdict | undefined =
    era === 'modern'
      ? { modern: modernOffer.date, legacy: false, at: 0 }
      : era === 'legacy'
        ? { modern: false, legacy: true, at: 0 }
        : undefined;
  return { fixed, legacyOffer, modernOffer };
}

/** The order in which the eras are tried for a caller: the caller's own first, because it needs no bridging. */
export function erasFor(caller: Revision, verdict: Verdict): readonly Revision['era'][] {
  const other = caller.era === 'legacy' ? 'modern' : 'legacy';
  if (verdict[caller.era] === false) return verdict[other] === false ? [] : [other];
  return verdict[other] === false ? [caller.era] : [caller.era, other];
}

/** The revisions of a verdict, in readable form. */
export function spoken(verdict: Verdict): string[] {
  return [...(verdict.legacy ? [`up to ${LEGACY.at(-1)!.date}`] : []), ...(verdict.modern ? [verdict.modern] : [])];
}

/** Whether an error response to a modern request shows that the server does not speak the modern era. */
export function contradictsModern(error: ProtocolError | UpstreamRpcError): boolean {
  if (error instanceof UpstreamRpcError)
    return error.status === 400 && (error.code === -32600 || error.code === -32000);
  const status = error.detail.data?.['status'];
  return error.reason === 'upstream_error' && (status === 400 || status === 404 || status === 405);
}
