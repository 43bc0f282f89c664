import { ProtocolError, UpstreamRpcError } from '../../../protocol/errors.js';
import { lacksDescriptors } from '../../http/connection-problem.js';
import type { ExitInfo } from '../../stdio/exit-info.js';
import { StdioError, type StdioReason } from '../../stdio/stdio-error.js';
import { exhausted, unavailable } from '../server-errors.js';
import type { UpstreamContext } from '../upstream-context.js';

type Server = Pick<UpstreamContext, 'name' | 'explains' | 'showsOutput'>;

/** Problems of a process in words that any caller may read, for errors without a summary. */
const PROBLEM: Readonly<Record<StdioReason, string>> = {
  not_found: 'its command was not found',
  not_executable: 'its command cannot be executed',
  bad_cwd: 'its working directory does not exist',
  invalid: 'its command cannot be started',
  resources: 'the machine could not start its process',
  exited: 'its process ended while it was starting',
  timeout: 'its process did not start in time',
  failed: 'its process keeps ending',
  busy: 'its process does not read its input',
  closed: 'its process is gone',
};

/** Errors whose cause may appear in the output of the process. */
const SAYS_MORE: readonly StdioReason[] = ['exited', 'timeout', 'failed'];

export function asProtocolError(server: Server, error: unknown): ProtocolError | UpstreamRpcError {
  if (error instanceof ProtocolError || error instanceof UpstreamRpcError) return error;
  if (error instanceof StdioError && lacksDescriptors(error.cause)) return exhausted(server);
  return unavailable(server, problemOf(server, error));
}

/** Operators get the full error of a process. It names commands and paths, so other callers get the summary (S25). */
export function problemOf(server: Server, error: unknown): string {
  if (!(error instanceof StdioError)) return 'its process could not be started';
  const problem = server.explains ? error.message : (error.summary ?? PROBLEM[error.reason]);
  return SAYS_MORE.includes(error.reason) ? withOutput(server, problem) : problem;
}

/** Why the process of an open session ended. */
export function endingOf(server: Server, { failure }: ExitInfo): string {
  if (!failure) return 'its process was stopped';
  return withOutput(server, server.explains ? failure.problem : failure.summary);
}

function withOutput({ explains, showsOutput }: Server, problem: string): string {
  if (showsOutput === undefined) return problem;
  return `${problem}; ${explains ? '' : 'for an operator, '}"${showsOutput}" shows its output`;
}
