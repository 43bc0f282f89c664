import { readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import type { RecordedCall, ReplayedCall } from '../../app/commands/replay.js';
import { paint } from '../../telemetry/terminal-style.js';
import { CONFIG, type Command, type CommandLine, HELP, JSON_OUTPUT, UsageError } from '../command.js';
import { type GatewayAddress, gatewayAddress, URL_FLAG } from '../gateway-api.js';
import { firstLine, printJson } from '../gateway-output.js';
import { secondsOf } from './call.js';
import { connectionError } from './tools.js';

const DEFAULT_SECONDS = 60;
const LARGEST_FILE = 512 * 1024 * 1024;

export const REPLAY: Command = {
  name: 'replay',
  operands: ['FILE'],
  summary: 'Send recorded calls to another version of a server, and show what differs.',
  details:
    'FILE comes from parley record --arguments --results. Each call of a tool is sent once, by the name that its server\n' +
    'gives it, and its result is compared with the recorded result. Only tools that declare to be read-only are called, and\n' +
    'no call whose arguments contain masked secrets. The exit code is 0 if all sent calls gave the same result, and 1 if\n' +
    'one differs or none was sent.',
  flags: [
    {
      name: 'to',
      value: 'TARGET',
      description: 'The URL of an MCP endpoint, or a server of the running gateway. Required.',
    },
    { name: 'server', value: 'NAME', description: 'Only the recorded calls of this server.' },
    { name: 'tool', value: 'NAME', description: 'Only the recorded calls of this tool.' },
    { name: 'active', description: 'Also call tools that may change something.' },
    {
      name: 'ignore',
      value: 'POINTERS',
      description: 'Places that may differ: JSON pointers with *, separated by commas, such as /content/*.',
    },
    {
      name: 'timeout',
      value: 'SECONDS',
      description: `Time without any message of the tool. Default: ${DEFAULT_SECONDS}.`,
    },
    CONFIG,
    URL_FLAG,
    {
      name: 'token-env',
      value: 'NAME',
      description: 'The variable that holds the token. A URL after --to gets only this token.',
    },
    JSON_OUTPUT,
    HELP,
  ],
  examples: [
    'parley replay calls.jsonl --to files-next',
    'parley replay calls.jsonl --to http://127.0.0.1:8080/mcp --ignore "/content/*,/structuredContent/time"',
  ],
  run: replay,
};

async function replay(line: CommandLine): Promise<number> {
  const { io, operands, text, given } = line;
  const { url, token } = targetOf(line);
  const timeout = secondsOf(text('timeout'), REPLAY, DEFAULT_SECONDS);
  const calls = chosen(recordedIn(path.resolve(io.cwd, operands[0] ?? '')), line);
  const ignore = (text('ignore') ?? '').split(',').filter((pointer) => pointer !== '');
  const { withGateway } = await import('../../app/commands/gateway-client.js');
  const { replay: run } = await import('../../app/commands/replay.js');
  const replayed: ReplayedCall[] = [];
  await withGateway({ url, token }, async (client) => {
    for await (const call of run(calls, { client, active: given('active'), ignore, timeout })) {
      replayed.push(call);
      if (!given('json')) io.stdout(shown(call, line));
    }
  }).catch((error: unknown) => {
    throw connectionError({ url, token }, error);
  });
  const count = (status: ReplayedCall['status']): number => replayed.filter((call) => call.status === status).length;
  const totals = { same: count('same'), differs: count('differs'), skipped: count('skipped') };
  if (given('json')) printJson(line, { ...totals, calls: replayed });
  else io.stdout(`${totals.same} same, ${totals.differs} different, ${totals.skipped} not sent\n`);
  return totals.differs > 0 || totals.same === 0 ? 1 : 0;
}

/** The endpoint to call. A token of the gateway never goes to a URL. */
function targetOf(line: CommandLine): GatewayAddress {
  const { io, text } = line;
  const to = text('to');
  if (to === undefined) throw new UsageError('replay needs --to with a URL or the name of a server', REPLAY);
  if (!/^https?:\/\//.test(to)) {
    const { url, token } = gatewayAddress(line);
    return { url: `${url}/mcp/${encodeURIComponent(to.toLowerCase())}`, token };
  }
  if (!URL.canParse(to)) throw new UsageError(`--to ${JSON.stringify(to)} is not a URL`, REPLAY);
  const variable = text('token-env');
  const token = variable === undefined ? undefined : io.env[variable];
  if (variable !== undefined && (token ?? '') === '')
    throw new Error(`the environment variable ${variable} is not set`);
  return { url: to, token };
}

/** The calls of a recording. */
function recordedIn(file: string): RecordedCall[] {
  let text: string;
  try {
    if (statSync(file).size > LARGEST_FILE) throw new Error(`the file is larger than ${LARGEST_FILE} bytes`);
    text = readFileSync(file, 'utf8');
  } catch (error) {
    throw new Error(`${file} cannot be read: ${(error as NodeJS.ErrnoException).code ?? (error as Error).message}`);
  }
  const lines = text.split('\n').filter((each) => each.trim() !== '');
  const entries = lines.map((each, at) => {
    try {
      const entry: unknown = JSON.parse(each);
      if (typeof entry === 'object' && entry !== null) return entry;
    } catch {}
    throw new Error(`line ${at + 1} of ${file} is not a JSON object; use a file of parley record`);
  });
  if (!('recording' in (entries[0] ?? {}))) throw new Error(`${file} is not a recording; use a file of parley record`);
  return entries.filter((entry) => !('recording' in entry));
}

/**
 * The calls that the filters choose. They must all be of one server, because tools of two servers may have the same
 * name.
 */
function chosen(calls: readonly RecordedCall[], { text }: CommandLine): RecordedCall[] {
  const [server, tool] = [text('server')?.toLowerCase(), text('tool')];
  const found = calls.filter(
    (call) =>
      typeof call.tool === 'string' &&
      (server === undefined || call.server === server) &&
      (tool === undefined || call.tool === tool),
  );
  const servers = [...new Set(found.map((call) => String(call.server)))];
  if (servers.length > 1)
    throw new UsageError(`the recording has calls of ${servers.join(', ')}; choose one with --server`, REPLAY);
  if (found.length === 0) throw new Error('the recording has no such call of a tool');
  return found;
}

const COLORS = { same: 'green', differs: 'red', skipped: 'dim' } as const;

function shown({ tool, status, note, recordedMs, replayedMs, differences }: ReplayedCall, { io }: CommandLine): string {
  const times = replayedMs === undefined ? '' : ` (${recordedMs ?? '?'} ms, now ${replayedMs} ms)`;
  const head = `${paint(io.style, COLORS[status], status.padEnd(7))} ${firstLine(tool)}${times}`;
  const lines = differences.map(
    ({ at, recorded, replayed }) =>
      `  ${firstLine(at === '' ? 'the call' : at, 200)}: ${firstLine(recorded, 150)} -> ${firstLine(replayed, 150)}`,
  );
  return `${[`${head}${note === undefined ? '' : `: ${note}`}`, ...lines].join('\n')}\n`;
}
