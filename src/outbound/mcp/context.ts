import type { Caller } from '../../core/caller.js';
import { within } from '../../core/timing.js';
import type { Credential, CredentialRefusal } from '../../identity/upstream-credentials.js';
import { type ErrorDetail, ProtocolError } from '../../protocol/errors.js';
import type { Implementation } from '../../protocol/mcp/model.js';
import type { Log } from '../../telemetry/log.js';
import type { HttpClient } from '../http/index.js';
import { FLOODED, type ServerTraffic } from './server-traffic-limits.js';

/** Shared by all connections to one configured server. */
export interface UpstreamContext {
  readonly name: string;
  /** The server's URL without secrets, where callers may see it (S25). */
  readonly place?: string | undefined;
  readonly http: HttpClient;
  /** The credential of a caller's requests to this server. */
  credential(caller: Caller): Credential | Promise<Credential>;
  readonly timeouts: { readonly connect: number; readonly call: number; readonly callMax: number };
  readonly limits: { readonly event: number; readonly reply: number };
  /** Limits on messages that the server sends on its own. */
  readonly traffic: ServerTraffic;
  /** The gateway's own `clientInfo`. */
  readonly clientInfo: Implementation;
  /** Whether callers may read details for operators: commands, paths and the output of the server's process. */
  readonly explains: boolean;
  /** The command with which an operator reads the output of the server's process. */
  readonly showsOutput?: string | undefined;
  readonly log: Log;
}

/** The server that an error names. */
export type Server = Pick<UpstreamContext, 'name' | 'place'>;

/** The server as the subject of a sentence. */
export const subject = ({ name, place }: Server): string =>
  `Server "${name}"${place === undefined ? '' : ` at ${place}`}`;

/** A URL that may be shown: without credentials, query and fragment. */
export function shownUrl(url: string): string {
  const { origin, pathname } = new URL(url);
  return `${origin}${pathname}`;
}

export const unavailable = (server: Server, why: string): ProtocolError =>
  new ProtocolError('upstream_unavailable', `${subject(server)} cannot be reached: ${why}`, {
    outcome: 'not_executed',
    data: { server: server.name },
  });

/** The gateway pauses requests to the server after a flood of messages. */
export const resting = (server: Server, milliseconds: number): ProtocolError =>
  unavailable(server, `${FLOODED}; the gateway does not connect to it for ${Math.ceil(milliseconds / 1_000)} s`);

/**
 * The gateway has no file descriptors left. The server did not fail; closed connections free descriptors (fault 10).
 */
export const lacksDescriptors = (error: unknown): boolean => {
  const code = (error as NodeJS.ErrnoException | undefined)?.code;
  return code === 'EMFILE' || code === 'ENFILE';
};

export const exhausted = ({ name }: Server): ProtocolError =>
  new ProtocolError(
    'overloaded',
    `The gateway has too many open connections to reach server "${name}"; try again later`,
    {
      outcome: 'not_executed',
      data: { server: name },
      headers: { 'Retry-After': '1' },
      forTheModel: false,
    },
  );

/** The request was not sent: no connection could be opened. */
export const unconnected = (server: Server, error: Error): ProtocolError =>
  lacksDescriptors(error) ? exhausted(server) : unavailable(server, connectionProblem(error));

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

/** Waits for a credential no longer than for an answer of the server. */
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

/** The caller whose credential a session uses, and the key of that credential. The session uses no other one. */
export interface CredentialHolder {
  readonly caller: Caller;
  readonly key: string;
}

/** A caller has no credential for a server. The server got no request, so its health does not change. */
export class CredentialError extends ProtocolError {}

/** The server refused the credential of a request with 401 or 403. It executed nothing. */
export class CredentialRefused extends ProtocolError {
  constructor(
    message: string,
    detail: ErrorDetail,
    readonly refusal: CredentialRefusal,
  ) {
    super('upstream_unauthorized', message, detail);
  }
}

/** The request was not sent: no credential could be obtained. */
export const withoutCredential = (server: Server, error: unknown): CredentialError =>
  error instanceof ProtocolError
    ? new CredentialError(error.reason, error.message, error.detail)
    : new CredentialError(
        'upstream_unauthorized',
        `${subject(server)} was not called: no credential could be obtained`,
        { outcome: 'not_executed', data: { server: server.name } },
      );

/** The request was not sent: the credential was not available in time. */
export const lateCredential = (server: Server, milliseconds: number): CredentialError =>
  new CredentialError(
    'upstream_timeout',
    `${subject(server)} was not called: no credential could be obtained within ${milliseconds / 1000} s`,
    { outcome: 'not_executed', data: { server: server.name } },
  );

export const timedOut = (server: Server, milliseconds: number): ProtocolError =>
  new ProtocolError(
    'upstream_timeout',
    `${subject(server)} did not answer within ${milliseconds / 1000} s; it may be busy or stuck`,
    { outcome: 'unknown', data: { server: server.name } },
  );

export const broken = (server: Server, why: string): ProtocolError =>
  new ProtocolError('upstream_error', `${subject(server)} ${why}`, {
    outcome: 'unknown',
    data: { server: server.name },
  });

/** The server exceeded a limit of one call. The call ends. */
export const tooMuch = (server: Server, what: string): ProtocolError =>
  new ProtocolError('upstream_error', `${subject(server)} sent too many ${what} during one call; the call was ended`, {
    outcome: 'unknown',
    data: { server: server.name, limit: what },
  });

export const invalidReply = (server: Server, why: string): ProtocolError =>
  new ProtocolError('upstream_invalid', `${subject(server)} ${why}`, {
    outcome: 'unknown',
    data: { server: server.name },
  });

/** An error for a reply whose content type is not that of MCP. Undefined for an MCP content type. */
export function foreignReply(server: Server, type: string | undefined): ProtocolError | undefined {
  const media = type?.split(';', 1)[0]?.trim().toLowerCase();
  if (media === undefined || media === '' || media.endsWith('json') || media === 'text/event-stream') return undefined;
  const what = media === 'text/html' ? 'a web page' : `content of type ${media.slice(0, 100)}`;
  return invalidReply(server, `answered with ${what} instead of MCP; check its URL, which often ends in /mcp or /sse`);
}

const PROBLEMS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused; check that it runs, and the host and port of its URL',
  ENOTFOUND: 'its host name does not resolve; check the host of its URL',
  EAI_AGAIN: 'its host name does not resolve; check the host of its URL',
  ETIMEDOUT: 'connecting timed out; check the host and port of its URL, and firewalls on the way',
  EHOSTUNREACH: 'there is no network route to its host; check the host of its URL',
  ENETUNREACH: 'there is no network route to its host; check the host of its URL',
  ECONNRESET: 'the connection was reset',
  HTTP_INVALID: 'its reply is not valid HTTP; a server that speaks TLS needs an https:// URL',
  HTTP_UNSENDABLE: 'a header cannot be sent; check "headers" of the server in the configuration',
  ERR_TLS_CERT_ALTNAME_INVALID:
    'its TLS certificate is for another name; check the host of its URL, or set "tls.serverName"',
  CERT_HAS_EXPIRED: 'its TLS certificate has expired; renew it',
  CERT_NOT_YET_VALID: 'its TLS certificate is not valid yet; check the clocks of both machines',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'its TLS certificate is self-signed; name that certificate in "tls.ca" to trust it',
  SELF_SIGNED_CERT_IN_CHAIN:
    'its TLS certificate is signed by an unknown authority; name that authority in "tls.ca" to trust it',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    'its TLS certificate is signed by an unknown authority; name that authority in "tls.ca" to trust it',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    'its TLS certificate is signed by an unknown authority; name that authority in "tls.ca" to trust it',
  UNABLE_TO_GET_ISSUER_CERT:
    'its TLS certificate is signed by an unknown authority; name that authority in "tls.ca" to trust it',
  EPROTO: 'it does not speak TLS; a server on plain HTTP needs an http:// URL',
  ERR_SSL_WRONG_VERSION_NUMBER: 'it does not speak TLS; a server on plain HTTP needs an http:// URL',
  ERR_SSL_PACKET_LENGTH_TOO_LONG: 'it does not speak TLS; a server on plain HTTP needs an http:// URL',
  ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED: 'it requires a client certificate; set "tls.cert" and "tls.key"',
  ERR_SSL_SSLV3_ALERT_HANDSHAKE_FAILURE:
    'the TLS handshake failed; it may require a client certificate ("tls.cert", "tls.key")',
};

/** Why a connection failed and what to do about it, without addresses or paths (S25). */
export function connectionProblem(error: Error): string {
  const { code } = error as NodeJS.ErrnoException;
  const known = code === undefined ? undefined : PROBLEMS[code];
  if (known !== undefined) return known;
  return code !== undefined && /CERT|TLS|SSL/.test(code)
    ? `its TLS certificate was not accepted (${code})`
    : (code ?? 'the connection failed');
}
