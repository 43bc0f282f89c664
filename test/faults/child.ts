import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { StateOptions } from '../../src/state/index.js';

const PROGRAM = fileURLToPath(new URL('./state-child.mjs', import.meta.url));

export interface Child {
  readonly process: ChildProcess;
  /** The complete lines printed so far. */
  readonly lines: string[];
  said(line: RegExp, timeoutMs?: number): Promise<string>;
  /** Sends SIGKILL, then reads the rest of the pipe. */
  kill(): Promise<void>;
}

export function startChild(
  options: StateOptions,
  args: string[],
  wrap: string[] = [],
  more: Readonly<Record<string, string>> = {},
): Child {
  const env = { ...process.env, ...more, STATE: JSON.stringify(options) };
  const [command, ...rest] = [...wrap, process.execPath, PROGRAM, ...args];
  const child = spawn(command!, rest, { env, stdio: ['pipe', 'pipe', 'pipe'] });
  child.stdin.on('error', () => {});
  const lines: string[] = [];
  let partial = '';
  let errors = '';
  const listeners = new Set<() => void>();
  child.stdout.on('data', (chunk: Buffer) => {
    const parts = (partial + chunk.toString()).split('\n');
    partial = parts.pop()!;
    lines.push(...parts);
    for (const listener of listeners) listener();
  });
  child.stderr.on('data', (chunk: Buffer) => {
    errors = `${errors}${chunk}`.slice(-4_000);
  });
  const closed = new Promise<void>((resolve) => child.once('close', () => resolve()));
  return {
    process: child,
    lines,
    said(pattern, timeoutMs = 20_000) {
      return new Promise((resolve, reject) => {
        let timer: NodeJS.Timeout;
        const end = (settle: () => void): void => {
          clearTimeout(timer);
          listeners.delete(look);
          settle();
        };
        const look = (): void => {
          const line = lines.find((said) => pattern.test(said));
          if (line !== undefined) end(() => resolve(line));
        };
        timer = setTimeout(() => end(() => reject(new Error(`never printed ${pattern}: ${errors}`))), timeoutMs);
        void closed.then(() => end(() => reject(new Error(`ended without ${pattern}: ${errors}`))));
        listeners.add(look);
        look();
      });
    },
    async kill() {
      child.kill('SIGKILL');
      await closed;
    },
  };
}
