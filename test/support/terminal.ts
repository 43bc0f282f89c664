/** Runs a program in a pseudo-terminal, which `script` of util-linux opens. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';

export interface TerminalOptions {
  readonly cwd: string;
  readonly columns: number;
  readonly env: Readonly<Record<string, string>>;
}

export class Terminal {
  private text = '';
  private readonly listeners = new Set<() => void>();
  private readonly ended: Promise<unknown>;

  private constructor(private readonly process: ChildProcess) {
    const take = (chunk: Buffer): void => {
      this.text += chunk.toString();
      for (const listener of [...this.listeners]) listener();
    };
    process.stdout!.on('data', take);
    process.stderr!.on('data', take);
    // The program may have ended before a key reaches it.
    process.stdin!.on('error', () => {});
    this.ended = once(process, 'close').then(() => {
      for (const listener of [...this.listeners]) listener();
    });
  }

  /** `command` is a shell command line. */
  static run(command: string, { cwd, columns, env }: TerminalOptions): Terminal {
    const line = `stty rows 24 cols ${columns} && exec ${command}`;
    return new Terminal(spawn('script', ['-qfec', line, '/dev/null'], { cwd, env, stdio: 'pipe' }));
  }

  /** All output so far, with line ends converted to `\n`. */
  get output(): string {
    return this.text.replaceAll('\r\n', '\n');
  }

  /** Waits until the output matches; fails when the program ends before. */
  async shows(pattern: RegExp): Promise<string> {
    for (;;) {
      const found = pattern.exec(this.output);
      if (found) return found[0];
      if (this.process.exitCode !== null || this.process.signalCode !== null)
        throw new Error(`the program ended before it showed ${pattern}:\n${this.output}`);
      await new Promise<void>((resolve) => {
        const listener = (): void => {
          this.listeners.delete(listener);
          resolve();
        };
        this.listeners.add(listener);
      });
    }
  }

  type(text: string): void {
    this.process.stdin!.write(text);
  }

  /** Sends Ctrl-C, waits for the end and returns the exit code. */
  async interrupt(): Promise<number | null> {
    if (this.process.exitCode === null && this.process.signalCode === null) this.type('\x03');
    await this.ended;
    return this.process.exitCode;
  }
}
