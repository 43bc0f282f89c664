import { type ChildProcess, spawn as nodeSpawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { backoff, sleep, within } from '../../core/timing.js';
import { LineReader, oneLine } from '../../protocol/stdio/lines.js';
import type { Log } from '../../telemetry/log.js';
import { childEnvironment } from './child-environment.js';
import type { StdioCommand } from './command.js';
import { startFailure } from './command-not-started.js';
import type { ExitInfo } from './exit-info.js';
import { guard } from './guard-process.js';
import { Tail } from './last-bytes.js';
import { TextLines } from './last-output-lines.js';
import { ProcessGroup } from './process-group.js';
import { StdioError } from './stdio-error.js';

export type { StdioCommand } from './command.js';
export type { ExitInfo } from './exit-info.js';

export interface ChildEvents {
  /** One JSON text as bytes, without its newline. */
  message(line: Buffer): void;
  /** Called once, after the child ended and all its messages were delivered. */
  exit(info: ExitInfo): void;
  /** The queue is empty again after `send` had returned false. */
  drain?(): void;
}

export interface ChildOptions {
  /** A longer line on stdout is skipped and counted. */
  maxLine: number;
  /** Maximum number of queued bytes for a child that does not read its stdin. Beyond it, `send` throws. */
  maxQueue?: number | undefined;
  /** Time for a child to exit after the end of its stdin, and again after SIGTERM (STD-07). */
  grace?: { eofMs: number; termMs: number } | undefined;
  /** Receives each line on stderr, and each line on stdout that is not a message. */
  output?: ((stream: 'stderr' | 'stdout', line: string) => void) | undefined;
  log?: Log | undefined;
  /** The name of the server, for log lines. */
  server?: string | undefined;
}

const GRACE = { eofMs: 2000, termMs: 5000 };
const STDERR_TAIL = 64 * 1024;
const STRAY_LINES = 5;
/** Time to wait for the last output after the exit. A descendant that inherited the pipe may keep it open. */
const DRAIN_MS = 500;
/** Time to wait after SIGKILL. A process that is blocked in the kernel, for example by a dead file system, stays. */
const KILL_MS = 5000;
/** Pauses between two checks whether the processes of a group have ended. */
const GROUP_CHECKS = { first: 2, longest: 50 };

// On Windows `npx` is a script for cmd.exe. cross-spawn finds such scripts and quotes their arguments.
const spawn: typeof nodeSpawn =
  process.platform === 'win32' ? createRequire(import.meta.url)('cross-spawn') : nodeSpawn;

const running = new Set<Child>();

/** A child process with newline-delimited JSON on stdin and stdout. It handles lines and knows no protocol. */
export class Child {
  readonly pid: number;
  readonly #process: ChildProcess;
  readonly #group: ProcessGroup;
  readonly #events: ChildEvents;
  readonly #log: Log | undefined;
  readonly #server: string | undefined;
  readonly #grace: { eofMs: number; termMs: number };
  readonly #maxQueue: number;
  readonly #lines: LineReader;
  readonly #stderr = new Tail(STDERR_TAIL);
  readonly #output: ChildOptions['output'];
  readonly #strayLines: string[] = [];
  readonly #startedAt = performance.now();
  readonly #exited: Promise<void>;
  #resolveExited!: () => void;
  readonly #reported: Promise<ExitInfo>;
  #badLines = 0;
  #longLines = 0;
  #exit: ExitInfo | undefined;
  #expected = false;
  #windingDown: Promise<ExitInfo> | undefined;

  /** Starts the command without a shell, in a new process group. Throws a `StdioError` if the start fails. */
  static start(command: StdioCommand, events: ChildEvents, options: ChildOptions): Child {
    const tag = guard.prepare(options.log);
    const env = childEnvironment(command.env, tag);
    let child: ChildProcess;
    try {
      child = spawn(command.command, [...(command.args ?? [])], {
        cwd: command.cwd,
        env,
        stdio: ['pipe', 'pipe', 'pipe'],
        shell: false,
        windowsHide: true,
        // Makes the child the leader of a group, to which signals are sent. On Windows, this option would open a
        // console window.
        detached: process.platform !== 'win32',
      });
    } catch (error) {
      throw startFailure(command, env, error);
    }
    if (child.pid === undefined) {
      child.on('error', () => {});
      for (const stream of child.stdio ?? []) stream?.on('error', () => {}).destroy();
      // Without file descriptors Node creates no streams. Its error event would come too late to be thrown here.
      const error = child.stdio ? undefined : Object.assign(new Error('too many files are open'), { code: 'EMFILE' });
      throw startFailure(command, env, error);
    }
    guard.watch(child.pid, tag);
    return new Child(child, child.pid, events, options);
  }

  private constructor(child: ChildProcess, pid: number, events: ChildEvents, options: ChildOptions) {
    this.#process = child;
    this.pid = pid;
    this.#group = new ProcessGroup(pid);
    this.#events = events;
    this.#log = options.log;
    this.#server = options.server;
    this.#output = options.output;
    this.#grace = options.grace ?? GRACE;
    this.#maxQueue = options.maxQueue ?? Math.max(4 * options.maxLine, 1024 * 1024);
    this.#lines = new LineReader(options.maxLine, {
      message: (line) => this.#call(() => this.#events.message(line)),
      bad: (preview) => this.#stray(preview.toString('utf8')),
      tooLong: () => {
        this.#longLines++;
        this.#bad(`(over ${options.maxLine} bytes)`);
      },
    });
    running.add(this);

    this.#exited = new Promise((resolve) => {
      this.#resolveExited = resolve;
    });
    child.once('exit', (code, signal) => {
      this.#gone(code, signal);
      void this.#windDown();
    });
    this.#reported = this.#readUntilExit();
    child.on('error', (error) =>
      this.#log?.warn({ server: this.#server, pid, error: error.message }, 'a child process reported an error'),
    );
    child.stdin?.on('error', () => {});
    child.stdin?.on('close', () => this.#disconnected('it closed its stdin'));
    child.stdin?.on('drain', () => this.#call(() => this.#events.drain?.()));
  }

  /** Whether messages can be sent: the process runs, and it is not being stopped. */
  get alive(): boolean {
    return this.#exit === undefined && this.#windingDown === undefined && this.#process.stdin?.writable === true;
  }

  /** The last 64 kB of stderr. For operators only, because it may contain secrets. */
  get stderrTail(): string {
    return this.#stderr.toString();
  }

  /** The beginnings of the last lines on stdout that were not messages. */
  get strayLines(): readonly string[] {
    return this.#strayLines;
  }

  /** Number of lines on stdout that were not messages, including lines over the limit. */
  get badLines(): number {
    return this.#badLines;
  }

  /** Number of lines that were skipped because of their length. */
  get longLines(): number {
    return this.#longLines;
  }

  get uptimeMs(): number {
    return this.#exit?.uptimeMs ?? performance.now() - this.#startedAt;
  }

  /** Counts a delivered line that the listener could not parse as JSON. */
  countBadLine(): void {
    this.#bad('(not JSON)');
  }

  /**
   * Sends one message and adds its newline. Returns false if the message is queued because the child does not read:
   * wait for `drain` then. Throws `closed` after the end of the process, and `busy` when the queue is full.
   */
  send(message: Buffer | string): boolean {
    const stdin = this.#process.stdin;
    if (!this.alive || stdin === null) {
      throw new StdioError('closed', `process ${this.pid} is no longer running`, { exit: this.#exit });
    }
    if (stdin.writableLength > 0 && stdin.writableLength + message.length > this.#maxQueue) {
      throw new StdioError(
        'busy',
        `process ${this.pid} does not read its stdin: ${stdin.writableLength} bytes are queued`,
      );
    }
    const line = oneLine(message);
    if (typeof line === 'string') return stdin.write(`${line}\n`);
    stdin.cork();
    stdin.write(line);
    const more = stdin.write('\n');
    stdin.uncork();
    return more;
  }

  /**
   * Ends the child and its group: end of stdin, SIGTERM, SIGKILL, with a pause before each of the last two (STD-07).
   * Resolves when the child is reaped and its group is empty. Repeated calls return the same promise.
   */
  stop(): Promise<ExitInfo> {
    if (this.#exit === undefined) this.#expected = true;
    return this.#windDown();
  }

  /** Ends a child that misbehaves. The supervisor counts this as a crash. */
  giveUp(why: string): void {
    if (this.#windingDown !== undefined) return;
    this.#log?.warn({ server: this.#server, pid: this.pid, why }, 'ending a child process');
    void this.#windDown();
  }

  #windDown(): Promise<ExitInfo> {
    this.#windingDown ??= this.#end();
    return this.#windingDown;
  }

  async #end(): Promise<ExitInfo> {
    const { pid } = this;
    this.#process.stdin?.end();
    await within(this.#exited, this.#grace.eofMs);
    // Wait for the whole group: a launcher such as npx may end while the server that it started still cleans up.
    if (this.#group.alive()) {
      this.#group.signal('SIGTERM');
      if (!(await this.#groupGone(this.#grace.termMs))) {
        this.#log?.warn({ server: this.#server, pid }, 'killing a child process that ignored SIGTERM');
        this.#group.signal('SIGKILL');
        await within(this.#exited, KILL_MS);
        await this.#groupGone(1000);
      }
    }
    if (this.#exit === undefined) {
      this.#log?.warn({ server: this.#server, pid }, 'a child process could not be killed');
      this.#gone(null, null);
    }
    guard.forget(pid);
    running.delete(this);
    return this.#reported;
  }

  async #groupGone(ms: number): Promise<boolean> {
    const deadline = performance.now() + ms;
    for (let looks = 1; ; looks++) {
      if (this.#exit !== undefined && !this.#group.alive()) return true;
      const left = deadline - performance.now();
      if (left <= 0) return false;
      await sleep(Math.min(backoff(looks, GROUP_CHECKS), left));
    }
  }

  async #readUntilExit(): Promise<ExitInfo> {
    const { stdout, stderr } = this.#process;
    stdout?.on('data', (chunk: Buffer) => this.#lines.push(chunk));
    stdout?.on('error', () => {});
    stdout?.on('end', () => this.#disconnected('it closed its stdout'));
    const errors = new TextLines((line) => this.#call(() => this.#output?.('stderr', line)));
    stderr?.on('data', (chunk: Buffer) => {
      this.#stderr.push(chunk);
      errors.push(chunk);
    });
    stderr?.on('error', () => {});
    const closed = new Promise<void>((resolve) => this.#process.once('close', () => resolve()));
    await this.#exited;
    await within(closed, DRAIN_MS);
    // After a blocked event loop, the timer may fire before available output was read. This allows one more read.
    await new Promise((resolve) => setImmediate(resolve));
    stdout?.removeAllListeners('data').destroy();
    stderr?.removeAllListeners('data').destroy();
    this.#lines.end();
    errors.end();
    const info = this.#exit!;
    this.#log?.debug(
      { server: this.#server, pid: this.pid, code: info.code, signal: info.signal },
      'child process ended',
    );
    this.#call(() => this.#events.exit(info));
    return info;
  }

  /** Ends a child that closed its stdin or stdout, because it can serve no request. No effect on a child that exits. */
  #disconnected(why: string): void {
    if (this.#windingDown !== undefined) return;
    this.#log?.debug(
      { server: this.#server, pid: this.pid, why },
      'ending a child process that closed its stdin or stdout',
    );
    void this.#windDown();
  }

  #stray(line: string): void {
    this.#strayLines.push(line);
    if (this.#strayLines.length > STRAY_LINES) this.#strayLines.shift();
    this.#call(() => this.#output?.('stdout', line));
    this.#bad(line);
  }

  #bad(line: string): void {
    const count = ++this.#badLines;
    // Logs the lines 1, 2, 4, 8 …: a server that logs to stdout must not fill the gateway's log (STD-02).
    if ((count & (count - 1)) !== 0) return;
    this.#log?.warn(
      { server: this.#server, pid: this.pid, count, line },
      'skipped a line on stdout that is not a message',
    );
  }

  #gone(code: number | null, signal: NodeJS.Signals | null): void {
    const uptimeMs = performance.now() - this.#startedAt;
    this.#exit ??= { code, signal, expected: this.#expected, uptimeMs, at: new Date() };
    this.#resolveExited();
  }

  #call(listener: () => void): void {
    try {
      listener();
    } catch (error) {
      this.#log?.warn({ server: this.#server, pid: this.pid, error }, 'a listener of a child process failed');
    }
  }
}

/** Stops all children of this process, for an orderly exit. */
export async function stopAllChildren(): Promise<void> {
  await Promise.all([...running].map((child) => child.stop()));
}
