/** `parley assess client`: opens the scripted server, waits for a client, and grades it. */
import { clientReport } from '../../assess/client/client-report.js';
import { serveClient } from '../../assess/client/http.js';
import { serveClientLines } from '../../assess/client/stdio.js';
import { Transcript } from '../../assess/client/transcript.js';
import type { Profile } from '../../assess/profiles.js';
import type { Report } from '../../assess/report/model.js';
import type { CliEnvironment } from '../command.js';

export interface ClientAssessment {
  readonly io: CliEnvironment;
  readonly tool: string;
  readonly profile: Profile;
  /** Whether to serve stdin and stdout instead of HTTP. */
  readonly stdio: boolean;
  readonly port: number;
  /** Time limit for the client, in milliseconds. */
  readonly time: number;
  /** The client is graded after it sent nothing for this time, in milliseconds. */
  readonly idle: number;
}

const SIGNALS = ['SIGINT', 'SIGTERM'] as const;

export async function assessClient({ io, tool, profile, stdio, port, time, idle }: ClientAssessment): Promise<Report> {
  const started = new Date();
  const transcript = new Transcript(stdio ? 'stdio' : 'http');
  let done = (): void => {};
  const over = new Promise<void>((resolve) => {
    done = resolve;
  });
  // A client stops a stdio server by closing its input, or by a signal.
  for (const signal of SIGNALS) process.once(signal, done);
  try {
    if (stdio) {
      await Promise.race([serveClientLines(transcript, process.stdin, (line) => io.stdout(line)), over]);
      process.stdin.destroy();
    } else await serveUntilSilent();
    return clientReport(transcript, { tool, profile, started });
  } finally {
    for (const signal of SIGNALS) process.off(signal, done);
  }

  async function serveUntilSilent(): Promise<void> {
    const last = setTimeout(done, time);
    let quiet: NodeJS.Timeout | undefined;
    const heard = (): void => {
      clearTimeout(quiet);
      quiet = setTimeout(done, idle);
    };
    const endpoint = await serveClient({ transcript, host: '127.0.0.1', port, heard });
    const older = `or a client of HTTP+SSE at ${endpoint.sse}`;
    io.stderr(
      `Point a client at ${endpoint.url}, ${older}. The client is graded after ${idle / 1_000} s without a request.\n`,
    );
    await over;
    clearTimeout(last);
    clearTimeout(quiet);
    await endpoint.close();
  }
}
