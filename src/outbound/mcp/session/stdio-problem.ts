import { ProtocolError, UpstreamRpcError } from '../../../protocol/errors.js';
import { StdioError, type StdioReason } from '../../stdio/errors.js';
import type { ExitInfo } from '../../stdio/exit-info.js';
import { exhausted, lacksDescriptors, type UpstreamContext, unavailable } from '../context.js';

type Server = Pick<UpstreamContext, 'name' | 'explains' | 'showsOutput'>;

/** What a caller may know about a process that cannot be used, where its error does not say it itself. */
const PROBLEM: Readonly<Record<StdioReason, string>> = {
  not_found: 'its command was not found',
  not_executable: 'its command cannot be executed',
  bad_cwd: 'its working directory does not exist',
  invalid: 'its command cannot be started',
  resources: 'the machine could not start its process',
  exited: 'its process ended while it was starting',
  timeout: 'its process did not start in time',
  failed: 'its process keeps ending',
  busy: 'its process does not read what it is sent',
  closed: 'its process is gone',
};

/** Errors after which the output of the process says more. */
const SAYS_MORE: readonly StdioReason[] = ['exited', 'timeout', 'failed'];

export function asProtocolError(server: Server, error: unknown): ProtocolError | UpstreamRpcError {
  if (error instanceof ProtocolError || error instanceof UpstreamRpcError) return error;
  if (error instanceof StdioError && lacksDescriptors(error.cause)) return exhausted(server);
  return unavailable(server, problemOf(server, error));
}

/** The error of a process is for operators, as it names commands and paths; other callers get its summary (S25). */
export function problemOf(server: Server, error: unknown): string {
  if (!(error instanceof StdioError)) return 'its process could not be started';
  const problem = server.explains ? error.message : (error.summary ?? PROBLEM[error.reason]);
  return SAYS_MORE.includes(error.reason) ? withOutput(server, problem) : problem;
}

/** Why a process that was spoken to is gone. */
export function endingOf(server: Server, { failure }: ExitInfo): string {
  if (!failure) return 'its process was stopped';
  return withOutput(server, server.explains ? failure.problem : failure.summary);
}

function withOutput({ explains, showsOutput }: Server, problem: string): string {
  if (showsOutput === undefined) return problem;
  return `${problem}; ${explains ? '' : 'for an operator, '}"${showsOutput}" shows its output`;
}
