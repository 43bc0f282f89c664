import { ProtocolError, UpstreamRpcError } from '../../../protocol/errors.js';
import { StdioError, type StdioReason } from '../../stdio/errors.js';
import { exhausted, lacksDescriptors, unavailable } from '../context.js';

/** What a caller may know about a process that cannot be used: its error names commands and paths, which are not for callers. */
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

export function asProtocolError(name: string, error: unknown): ProtocolError | UpstreamRpcError {
  if (error instanceof ProtocolError || error instanceof UpstreamRpcError) return error;
  if (error instanceof StdioError && lacksDescriptors(error.cause)) return exhausted(name);
  return unavailable(name, problemOf(error));
}

export const problemOf = (error: unknown): string =>
  error instanceof StdioError ? PROBLEM[error.reason] : 'its process could not be started';
