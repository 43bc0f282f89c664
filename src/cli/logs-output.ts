import { stripVTControlCharacters } from 'node:util';
import type { GatewayAddress } from './gateway-api.js';

interface Logs {
  readonly server: string;
  readonly replica?: string;
  readonly state: string;
  readonly problem?: string;
  readonly lines: readonly {
    readonly at: number;
    readonly pid: number;
    readonly stream: 'stderr' | 'stdout' | 'process';
    readonly text: string;
  }[];
}

const TIMEOUT = 10_000;

/** Asks the running gateway for the output of one of its servers. */
export async function fetchLogs({ url, token }: GatewayAddress, server: string): Promise<Logs> {
  let response: Response;
  try {
    response = await fetch(`${url}/servers/${encodeURIComponent(server)}/logs`, {
      headers: { Accept: 'application/json', ...(token !== undefined && { Authorization: `Bearer ${token}` }) },
      redirect: 'manual',
      signal: AbortSignal.timeout(TIMEOUT),
    });
  } catch (error) {
    if ((error as Error).name === 'TimeoutError')
      throw new Error(`the gateway at ${url} did not answer within ${TIMEOUT / 1000} s`);
    throw new Error(`no gateway answers at ${url}; start one with parley serve, or give another URL with --url`);
  }
  const body = (await response.json().catch(() => undefined)) as (Logs & { error?: { message?: string } }) | undefined;
  if (response.ok && Array.isArray(body?.lines)) return body;
  throw new Error(body?.error?.message ?? `the server at ${url} is not a Parley gateway (HTTP ${response.status})`);
}

/** Output for a person: the state, then each log line with its time and process. */
export function logsText({ server, replica, state, problem, lines }: Logs): string {
  const where = replica === undefined ? '' : `, on replica ${replica}`;
  const head = `# ${server} is ${state}${where}${problem === undefined ? '' : `: ${plain(problem)}`}`;
  const rows = lines.map(({ at, pid, stream, text }) => {
    const mark = stream === 'stderr' ? '' : `(${stream}) `;
    return `${new Date(at).toISOString()} ${pid} ${mark}${plain(text)}`;
  });
  return `${[head, ...(rows.length > 0 ? rows : ['# no output yet'])].join('\n')}\n`;
}

/** A server may write control characters, which must not reach the terminal. */
function plain(text: string): string {
  return stripVTControlCharacters(text).replace(/[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]/g, '');
}
