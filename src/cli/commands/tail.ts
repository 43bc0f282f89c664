import { setTimeout as sleep } from 'node:timers/promises';
import { CONFIG, type Command, type CommandLine, type Flag, HELP } from '../command.js';
import { gatewayAddress, TOKEN_FLAG, URL_FLAG } from '../gateway-api.js';
import { followTail, tailText } from '../tail-output.js';

/** Filters of calls. */
export const CALL_FILTERS: readonly Flag[] = [
  { name: 'server', value: 'NAME', description: 'Only calls of this server or agent; * matches any characters.' },
  { name: 'tool', value: 'NAME', description: 'Only calls of this tool, by the name that its server gives it.' },
  { name: 'caller', value: 'NAME', description: 'Only calls of this caller.' },
  { name: 'outcome', value: 'NAME', description: 'Only calls with this outcome, such as ok or error.' },
];

const SIGNALS = ['SIGINT', 'SIGTERM'] as const;
/** Pause before the command connects again, in milliseconds. */
const PAUSE = 1_000;

/** The filters that the command line gives. */
export const filterFrom = ({ text }: Pick<CommandLine, 'text'>): Record<string, string> =>
  Object.fromEntries(
    CALL_FILTERS.flatMap(({ name }) => {
      const value = text(name);
      return value === undefined ? [] : [[name, value]];
    }),
  );

export const TAIL: Command = {
  name: 'tail',
  summary: 'Show the calls of the running gateway as they end.',
  details:
    'Follows the calls of all replicas until the command is stopped with Ctrl+C. A call has one line: method, target,\n' +
    'outcome, duration, caller and revisions; never arguments or results. If the terminal is too slow, calls are left\n' +
    'out and counted. A token without admin: true shows its own calls. GET /api/v1/tail is the same as an event stream.',
  flags: [
    CONFIG,
    URL_FLAG,
    TOKEN_FLAG,
    ...CALL_FILTERS,
    { name: 'json', description: 'Print one JSON object per line.' },
    HELP,
  ],
  examples: ['parley tail', 'parley tail --server files --outcome error', 'parley tail --json'],
  run: async (line) => {
    const { io, given } = line;
    const gateway = gatewayAddress(line);
    const filter = filterFrom(line);
    const stopped = new AbortController();
    const { signal } = stopped;
    const stop = (): void => stopped.abort();
    for (const name of SIGNALS) process.once(name, stop);
    try {
      while (!signal.aborted) {
        for await (const event of followTail(gateway, filter, signal)) {
          const shown = given('json') ? `${JSON.stringify({ event: event.event, ...event.data })}\n` : tailText(event);
          if (shown !== undefined) io.stdout(shown);
          // The reader of stdout is gone.
          if ((await io.flushed?.()) === false) return 0;
        }
        // The gateway ends a stream after a time, or when the gateway stops. Another replica may serve the next stream.
        await sleep(PAUSE, undefined, { signal }).catch(() => {});
      }
      return 0;
    } finally {
      for (const name of SIGNALS) process.off(name, stop);
    }
  },
};
