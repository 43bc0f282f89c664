import { closeSync, openSync, writeSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { CONFIG, type Command, type CommandLine, type Flag, HELP, UsageError } from '../command.js';
import { followEvents } from '../follow-events.js';
import { gatewayAddress, TOKEN_FLAG, URL_FLAG } from '../gateway-api.js';
import { CALL_FILTERS, filterFrom } from './tail.js';

const CONTENTS: readonly Flag[] = [
  { name: 'arguments', description: 'Record the arguments of calls, with secrets masked. parley replay needs them.' },
  { name: 'results', description: 'Record the results of calls, with secrets masked.' },
];

const SIGNALS = ['SIGINT', 'SIGTERM'] as const;
/** Pause before the command connects again, in milliseconds. */
const PAUSE = 1_000;
const LONGEST_LINE = 4 * 1024 * 1024;
const DEFAULT_CALLS = 10_000;
const MOST_CALLS = 1_000_000;
/** The largest recording, in bytes. */
const MOST_BYTES = 256 * 1024 * 1024;

export const RECORD: Command = {
  name: 'record',
  optional: ['FILE'],
  summary: 'Record calls of the running gateway in a file.',
  details:
    'Records the calls that end from now on, one JSON object per line, until Ctrl+C or --calls. Without FILE it writes to\n' +
    'stdout. Each record has the names, the outcome and the times of a call, and arguments and results only with the\n' +
    'options below. The gateway masks values that look like secrets by their name or their form. The command needs the\n' +
    'token of an administrator, and the audit trail names the person. Of several replicas, only one records its calls.',
  flags: [
    CONFIG,
    URL_FLAG,
    TOKEN_FLAG,
    ...CALL_FILTERS,
    ...CONTENTS,
    { name: 'calls', value: 'NUMBER', description: `Stop after so many calls. Default: ${DEFAULT_CALLS}.` },
    HELP,
  ],
  examples: ['parley record calls.jsonl --server files --arguments --results', 'parley record --tool search --calls 5'],
  run: record,
};

async function record(line: CommandLine): Promise<number> {
  const { io, operands, text, given } = line;
  const most = callsOf(text('calls'));
  const gateway = gatewayAddress(line);
  const wanted = CONTENTS.filter(({ name }) => given(name)).map(({ name }) => [name, 'true'] as const);
  const query = { ...filterFrom(line), ...Object.fromEntries(wanted) };
  const stopped = new AbortController();
  const { signal } = stopped;
  const stop = (): void => stopped.abort();
  for (const name of SIGNALS) process.once(name, stop);
  let output: Output | undefined;
  let [calls, bytes, dropped] = [0, 0, 0];
  try {
    while (!signal.aborted && calls < most && bytes < MOST_BYTES) {
      const options = { path: '/api/v1/recording', query, longest: LONGEST_LINE };
      for await (const { event, data } of followEvents(gateway, options, signal)) {
        if (event === 'recording' && !output) {
          // The file is created only after the gateway has accepted the recording.
          output = outputOf(operands[0], io);
          bytes += output.write({ recording: 1, begun: new Date().toISOString(), ...data });
          io.stderr(`Recording calls of ${gateway.url}; stop with Ctrl+C.\n`);
        } else if (event === 'dropped') dropped += Number(data['calls']) || 0;
        else if (event === 'call') {
          bytes += output?.write(data) ?? 0;
          calls++;
        }
        // The reader of stdout is gone.
        if ((await io.flushed?.()) === false) return 0;
        if (calls >= most || bytes >= MOST_BYTES) break;
      }
      // The gateway ends a stream after a time, or when the gateway stops. Another replica may serve the next stream.
      if (calls < most && bytes < MOST_BYTES) await sleep(PAUSE, undefined, { signal }).catch(() => {});
    }
  } finally {
    for (const name of SIGNALS) process.off(name, stop);
    output?.close();
  }
  const missed = dropped > 0 ? `; ${dropped} were left out, because the recorder was too slow` : '';
  io.stderr(`Recorded ${calls} calls${missed}.\n`);
  return 0;
}

interface Output {
  /** Writes one entry. Returns the number of its bytes. */
  write(entry: object): number;
  close(): void;
}

function outputOf(file: string | undefined, { cwd, stdout }: CommandLine['io']): Output {
  const lineOf = (entry: object): string => `${JSON.stringify(entry)}\n`;
  if (file === undefined)
    return {
      write: (entry) => {
        const text = lineOf(entry);
        stdout(text);
        return Buffer.byteLength(text);
      },
      close: () => {},
    };
  let descriptor: number;
  try {
    // Recordings may contain private data, so only the owner may read the file. An existing file is never replaced.
    descriptor = openSync(path.resolve(cwd, file), 'wx', 0o600);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new Error(code === 'EEXIST' ? `${file} exists; name another file` : `${file} cannot be written (${code})`);
  }
  return {
    write: (entry) => writeSync(descriptor, lineOf(entry)),
    close: () => closeSync(descriptor),
  };
}

function callsOf(written: string | undefined): number {
  const calls = Number(written ?? DEFAULT_CALLS);
  if (!Number.isInteger(calls) || calls < 1 || calls > MOST_CALLS)
    throw new UsageError(`--calls takes a number from 1 to ${MOST_CALLS}`, RECORD);
  return calls;
}
