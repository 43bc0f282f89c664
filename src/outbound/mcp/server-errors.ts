/** The errors of calls to a server: cannot be reached, no credential, refused, too late, broken, invalid reply. */
import type { CredentialRefusal } from '../../identity/upstream-credentials.js';
import { type ErrorDetail, ProtocolError } from '../../protocol/errors.js';
import { connectionProblem, lacksDescriptors } from '../http/connection-problem.js';
import { FLOODED } from './server-traffic-limits.js';
import type { UpstreamContext } from './upstream-context.js';

/** The server that an error names. */
export type Server = Pick<UpstreamContext, 'name' | 'place'>;

/** The server as the subject of a sentence. */
export const subject = ({ name, place }: Server): string =>
  `Server "${name}"${place === undefined ? '' : ` at ${place}`}`;

export const unavailable = (server: Server, why: string): ProtocolError =>
  new ProtocolError('upstream_unavailable', `${subject(server)} cannot be reached: ${why}`, {
    outcome: 'not_executed',
    data: { server: server.name },
  });

/** The gateway pauses requests to the server after a flood of messages. */
export const resting = (server: Server, milliseconds: number): ProtocolError =>
  unavailable(server, `${FLOODED}; the gateway does not connect to it for ${Math.ceil(milliseconds / 1_000)} s`);

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

/**
 * The error for a reply whose content type is not one of MCP. Undefined if the content type is one of MCP or absent.
 */
export function foreignReply(server: Server, type: string | undefined): ProtocolError | undefined {
  const media = type?.split(';', 1)[0]?.trim().toLowerCase();
  if (media === undefined || media === '' || media.endsWith('json') || media === 'text/event-stream') return undefined;
  const what = media === 'text/html' ? 'a web page' : `content of type ${media.slice(0, 100)}`;
  return invalidReply(server, `answered with ${what} instead of MCP; check its URL, which often ends in /mcp or /sse`);
}
