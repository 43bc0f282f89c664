import { ProtocolError } from '../../protocol/errors.js';
import type { Implementation } from '../../protocol/mcp/model.js';
import type { HttpClient } from '../http/index.js';

export interface Log {
  isLevelEnabled?(level: string): boolean;
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** What every connection to one configured server shares. */
export interface UpstreamContext {
  readonly name: string;
  readonly http: HttpClient;
  /** Headers of the configuration, as flat pairs: the gateway's credentials for this server. */
  readonly headers: readonly string[];
  readonly timeouts: { readonly connect: number; readonly call: number; readonly callMax: number };
  readonly limits: { readonly event: number; readonly reply: number };
  /** How the gateway introduces itself. */
  readonly clientInfo: Implementation;
  /** Whether callers may read what operators may: commands, paths, and what the process of the server wrote. */
  readonly explains: boolean;
  /** How an operator reads the output of the server's process. */
  readonly showsOutput?: string | undefined;
  readonly log: Log;
}

export const unavailable = (name: string, why: string): ProtocolError =>
  new ProtocolError('upstream_unavailable', `Server "${name}" cannot be reached: ${why}`, {
    outcome: 'not_executed',
    data: { server: name },
  });

/** The gateway's own machine is out of descriptors: no server is to blame, and it passes when clients leave (fault 10). */
export const lacksDescriptors = (error: unknown): boolean => {
  const code = (error as NodeJS.ErrnoException | undefined)?.code;
  return code === 'EMFILE' || code === 'ENFILE';
};

export const exhausted = (name: string): ProtocolError =>
  new ProtocolError('overloaded', `The gateway has too much open to reach server "${name}"; try again`, {
    outcome: 'not_executed',
    data: { server: name },
    headers: { 'Retry-After': '1' },
    forTheModel: false,
  });

/** Nothing was sent, because no connection came about. */
export const unconnected = (name: string, error: Error): ProtocolError =>
  lacksDescriptors(error) ? exhausted(name) : unavailable(name, connectionProblem(error));

export const timedOut = (name: string, milliseconds: number): ProtocolError =>
  new ProtocolError('upstream_timeout', `Server "${name}" did not answer within ${milliseconds / 1000} s`, {
    outcome: 'unknown',
    data: { server: name },
  });

export const broken = (name: string, why: string): ProtocolError =>
  new ProtocolError('upstream_error', `Server "${name}" ${why}`, { outcome: 'unknown', data: { server: name } });

export const invalidReply = (name: string, why: string): ProtocolError =>
  new ProtocolError('upstream_invalid', `Server "${name}" ${why}`, { outcome: 'unknown', data: { server: name } });

/** The text of a connection error without addresses or paths (S25): its code says enough. */
export function connectionProblem(error: Error): string {
  const code = (error as NodeJS.ErrnoException).code;
  switch (code) {
    case 'ECONNREFUSED':
      return 'connection refused';
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return 'its name does not resolve';
    case 'ETIMEDOUT':
      return 'connecting timed out';
    case 'ECONNRESET':
      return 'the connection was reset';
    case 'HTTP_INVALID':
      return 'its reply is not valid HTTP';
    case 'HTTP_UNSENDABLE':
      return 'a header cannot be sent';
    default:
      return code?.includes('CERT') || code?.includes('TLS') || code?.includes('SSL')
        ? 'its TLS certificate was not accepted'
        : (code ?? 'the connection failed');
  }
}
