import { Child, type StdioCommand } from '../../outbound/stdio/child-process.js';
import type { Channel } from '../mcp/channel-peer.js';

const MAX_LINE = 4 * 1024 * 1024;
const MAX_STRAY = 20;
/** Time for a program to exit after the end of its stdin, and again after SIGTERM. */
const GRACE = { eofMs: 2_000, termMs: 1_000 };

/** Starts a program and exchanges lines with it. */
export function stdioChannel(command: StdioCommand): Channel {
  const held: string[] = [];
  const stray: string[] = [];
  let listener: ((text: string) => void) | undefined;
  let ended: ((why: string) => void) | undefined;
  let why: string | undefined;
  const child = Child.start(
    command,
    {
      message: (line) => {
        const text = line.toString('utf8');
        if (listener) listener(text);
        else if (held.length < MAX_STRAY) held.push(text);
      },
      exit: ({ code, signal }) => {
        why = `the program ended with ${code === null ? `the signal ${signal}` : `the exit code ${code}`}`;
        ended?.(why);
      },
    },
    {
      maxLine: MAX_LINE,
      grace: GRACE,
      output: (stream, line) => {
        if (stream === 'stdout' && stray.length < MAX_STRAY) stray.push(line);
      },
    },
  );
  return {
    transport: 'stdio',
    secrets: Object.values(command.env ?? {}),
    send: async (text) => {
      child.send(text);
      return {};
    },
    receive: (receiver) => {
      listener = receiver;
      for (const text of held.splice(0)) receiver(text);
    },
    onEnd: (receiver) => {
      ended = receiver;
      if (why !== undefined) receiver(why);
    },
    stray: () => stray,
    close: async () => {
      const started = performance.now();
      const { code, signal } = await child.stop();
      return code === null && signal !== null ? undefined : performance.now() - started;
    },
  };
}
