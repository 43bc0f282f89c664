/** Starts a real gateway process for a test, on a free loopback port with a data folder of its own. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export interface GatewayConfig {
  readonly servers?: Readonly<Record<string, object>>;
  readonly [key: string]: unknown;
}

export interface RunningGateway {
  readonly url: string;
  readonly pid: number;
  readonly process: ChildProcess;
  /** Its configuration file. */
  readonly file: string;
  /** What it wrote to stderr so far. */
  log(): string;
  /** Stops it in good order and removes its folder; returns the exit code. */
  close(): Promise<number | null>;
}

export const BIN = fileURLToPath(new URL('../../bin/parley.js', import.meta.url));

export interface GatewayOptions {
  /** A data folder that outlives this process, for restarts. */
  readonly data?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Command and arguments to run node under, such as `taskset`. */
  readonly under?: readonly string[];
}

export async function startGateway(config: GatewayConfig, options: GatewayOptions = {}): Promise<RunningGateway> {
  const folder = await mkdtemp(join(tmpdir(), 'parley-test-'));
  const file = join(folder, 'parley.json');
  const settings = { listen: '127.0.0.1:0', data: options.data ?? join(folder, 'data'), ...config };
  await writeFile(file, JSON.stringify(settings), { mode: 0o600 });
  const [command, ...args] = [...(options.under ?? []), process.execPath, BIN, 'serve', '--config', file];
  const child = spawn(command!, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...options.env } });
  let errors = '';
  child.stderr.on('data', (chunk: Buffer) => {
    errors = (errors + chunk.toString()).slice(-200_000);
  });
  const url = await new Promise<string>((resolve, reject) => {
    let output = '';
    child.stdout.on('data', (chunk: Buffer) => {
      output += chunk.toString();
      const match = /listening on (\S+)/.exec(output);
      if (match) resolve(match[1]!);
    });
    child.once('exit', (code) => reject(new Error(`the gateway ended with code ${code}: ${errors}`)));
  });
  return {
    url,
    pid: child.pid!,
    process: child,
    file,
    log: () => errors,
    close: async () => {
      if (child.exitCode === null && child.signalCode === null) {
        const exit = once(child, 'exit');
        child.kill('SIGTERM');
        const timer = setTimeout(() => child.kill('SIGKILL'), 40_000);
        await exit;
        clearTimeout(timer);
      }
      await rm(folder, { recursive: true, force: true, maxRetries: 3 });
      return child.exitCode;
    },
  };
}
