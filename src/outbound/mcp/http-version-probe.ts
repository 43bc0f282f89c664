/** Finds out which versions of MCP a server with a URL speaks. */
import type { Caller } from '../../core/caller.js';
import { type Evidence, readProbe } from '../../protocol/mcp/server-version.js';
import { gatewayCall } from './gateway-call.js';
import type { ModernHttp } from './modern-http.js';

/** Sends `server/discover`. An error that says nothing about versions is thrown. */
export async function probeHttp(modern: ModernHttp, caller: Caller): Promise<Evidence> {
  const outcome = await modern.send({}, gatewayCall('server/discover'), caller);
  if (outcome.kind === 'complete') return readProbe({ result: outcome.result.value() }, 'none');
  if (outcome.kind !== 'error') return { kind: 'none' };
  const evidence = readProbe({ error: outcome.error }, 'none');
  if (evidence.kind === 'none') throw outcome.error;
  return evidence;
}
