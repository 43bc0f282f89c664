import type { Caller } from '../../core/caller.js';
import { within } from '../../core/timing.js';
import type { Credential } from '../../identity/credentials.js';
import { ProtocolError } from '../../protocol/errors.js';
import type { Implementation } from '../../protocol/mcp/model.js';
import type { Log } from '../../telemetry/log.js';
import type { HttpClient } from '../http/index.js';
import { FLOODED, type ServerTraffic } from './server-traffic.js';

/** What every connection to one configured server shares. */
export interface UpstreamContext {
  readonly name: string;
  /** The server's URL without secrets, where callers may read it (S25). */
  readonly place?: string | undefined;
  readonly http: HttpClient;
  /** The credential of a caller's requests to this server. */
  credential(caller: Caller): Credential | Promise<Credential>;
  readonly timeouts: { readonly connect: number; readonly call: number; readonly callMax: number };
  readonly limits: { readonly event: number; readonly reply: number };
  /** What the server sends without being asked. */
  readonly traffic: ServerTraffic;
  /** How the gateway introduces itself. */
  readonly clientInfo: Implementation;
  /** Whether callers may read what operators may: commands, paths, and what the process of the server wrote. */
  readonly explains: boolean;
  /** How an operator reads the output of the server's process. */
  readonly showsOutput?: string | undefined;
  readonly log: Log;
}

/** The server that an error is about. */
export type Server = Pick<UpstreamContext, 'name' | 'place'>;

/** The server as the subject of a sentence. */
export const subject = ({ name, place }: Server): string =>
  `Server "${name}"${place === undefined ? '' : ` at ${place}`}`;

/** A URL as it may be shown: without credentials, query and fragment. */
export function shownUrl(url: string): string {
  const { origin, pathname } = new URL(url);
  return `${origin}${pathname}`;
}

export const unavailable = (server: Server, why: string): ProtocolError =>
  new ProtocolError('upstream_unavailable', `${subject(server)} cannot be reached: ${why}`, {
    outcome: 'not_executed',
    data: { server: server.name },
  });

/** The server is left alone after a flood of messages. */
export const resting = (server: Server, milliseconds: number): ProtocolError =>
  unavailable(server, `${FLOODED}, and is left alone for ${Math.ceil(milliseconds / 1_000)} s`);

/** The gateway's own machine is out of descriptors: no server is to blame, and it passes when clients leave (fault 10). */
export const lacksDescriptors = (error: unknown): boolean => {
  const code = (error as NodeJS.ErrnoException | undefined)?.code;
  return code === 'EMFILE' || code === 'ENFILE';
};

export const exhausted = ({ name }: Server): ProtocolError =>
  new ProtocolError('overloaded', `The gateway has too much open to reach server "${name}"; try again`, {
    outcome: 'not_executed',
    data: { server: name },
    headers: { 'Retry-After': '1' },
    forTheModel: false,
  });

/** Nothing was sent, because no connection came about. */
export const unconnected = (server: Server, error: Error): ProtocolError =>
  lacksDescriptors(error) ? exhausted(server) : unavailable(server, connectionProblem(error));

/** What it takes to ask for a credential. */
export type CredentialContext = Pick<UpstreamContext, 'name' | 'place' | 'credential' | 'timeouts'>;

/** The credential of a caller; a failure to choose one is a promise like any other, and so is one of the wrong form. */
export function credentialOf(context: CredentialContext, caller: Caller): Credential | Promise<Credential> {
  const { credential } = context;
  try {
    const given = credential(caller);
    return given instanceof Promise ? inTime(context, given) : wellFormed(given);
  } catch (error) {
    return Promise.reject(error);
  }
}

/** A credential that is waited for no longer than an answer of the server would be. */
async function inTime(context: CredentialContext, given: Promise<Credential>): Promise<Credential> {
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
  throw new TypeError('a credential has a key and headers, which are strings');
}

/** The caller whose credential a session uses, and the key of that credential: no other one is used on the session. */
export interface CredentialHolder {
  readonly caller: Caller;
  readonly key: string;
}

/** A caller has no credential for a server. It says nothing about the server, which was not asked. */
export class CredentialError extends ProtocolError {}

/** Nothing was sent, because there is no credential to send it with. */
export const withoutCredential = (server: Server, error: unknown): CredentialError =>
  error instanceof ProtocolError
    ? new CredentialError(error.reason, error.message, error.detail)
    : new CredentialError(
        'upstream_unauthorized',
        `${subject(server)} was not called: no credential could be obtained`,
        { outcome: 'not_executed', data: { server: server.name } },
      );

/** Nothing was sent, because the credential did not come in time. */
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

/** The server went beyond a limit of one call, which is ended for it. */
export const tooMuch = (server: Server, what: string): ProtocolError =>
  new ProtocolError(
    'upstream_error',
    `${subject(server)} sent more ${what} than one call may bring; the call was ended`,
    {
      outcome: 'unknown',
      data: { server: server.name, limit: what },
    },
  );

export const invalidReply = (server: Server, why: string): ProtocolError =>
  new ProtocolError('upstream_invalid', `${subject(server)} ${why}`, {
    outcome: 'unknown',
    data: { server: server.name },
  });

/** A reply of a type that no MCP message has, where that is the cause of the failure. */
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
  EHOSTUNREACH: 'there is no way to its host; check the host of its URL',
  ENETUNREACH: 'there is no way to its host; check the host of its URL',
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
  ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED: 'it wants a client certificate; set "tls.cert" and "tls.key"',
  ERR_SSL_SSLV3_ALERT_HANDSHAKE_FAILURE:
    'the TLS handshake failed; it may want a client certificate ("tls.cert", "tls.key")',
};

/** Why a connection failed, without addresses or paths (S25), and what to do. */
export function connectionProblem(error: Error): string {
  const { code } = error as NodeJS.ErrnoException;
  const known = code === undefined ? undefined : PROBLEMS[code];
  if (known !== undefined) return known;
  return code !== undefined && /CERT|TLS|SSL/.test(code)
    ? `its TLS was not accepted (${code})`
    : (code ?? 'the connection failed');
}
