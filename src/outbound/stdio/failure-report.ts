import { hideTokens, hiding, maskArguments, secretsIn } from '../../identity/mask-secrets.js';
import type { StdioCommand } from './command.js';
import { diagnose } from './crash-diagnosis.js';

/** A failure in two texts: `problem` with commands, paths and output for operators, `summary` for callers (S25). */
export interface Failure {
  readonly problem: string;
  readonly summary: string;
  /** Whether the program could not run at all, independent of the messages it got. */
  readonly unrunnable: boolean;
}

/** The output of a child that explains its failure. */
export interface FailureOutput {
  readonly stderrTail: string;
  /** The last lines on stdout that were not messages. */
  readonly strayLines: readonly string[];
}

export interface Ending {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

const MAX_COMMAND = 200;

/**
 * Explains failures of the processes of one command. Hides the values of its environment and texts that look like
 * tokens.
 */
export class FailureReport {
  readonly #command: string;
  readonly #args: readonly string[];
  readonly #hide: (text: string) => string;

  constructor({ command, args = [], env = {} }: StdioCommand) {
    const hideOwn = hiding(secretsIn(env));
    this.#hide = (text) => hideTokens(hideOwn(text));
    this.#args = args;
    const written = [command, ...maskArguments(args)].map((word) => this.#hide(quote(word))).join(' ');
    this.#command = `\`${written.length > MAX_COMMAND ? `${written.slice(0, MAX_COMMAND)}…` : written}\``;
  }

  /** The command line without secrets. */
  get command(): string {
    return this.#command;
  }

  /** Hides secrets in a line. */
  hide(line: string): string {
    return this.#hide(line);
  }

  /** Describes the end of a process. */
  ended(output: FailureOutput, { code, signal }: Ending, starting: boolean): Failure {
    const how = signal === null ? `exited with code ${code ?? 'unknown'}` : `was killed by ${signal}`;
    const when = starting ? 'while it was starting' : 'while it was serving';
    // Programs explain a failed start on stdout. Later, stdout has only messages, or parts of them.
    const { stderrTail } = output;
    const { lines, cause, advice, unrunnable } = this.#diagnose(starting ? output : { stderrTail, strayLines: [] });
    const wrote = written(lines);
    const todo = advice ?? adviceFor(code, signal, starting, lines.length > 0);
    return {
      problem: `${this.#command} ${how} ${when}${wrote}${todo === undefined ? '' : `; ${todo}`}`,
      summary: `its process ${how} ${when}${cause === undefined ? '' : `: ${cause}`}`,
      unrunnable: unrunnable && starting,
    };
  }

  /** Describes a process that runs and was not ready in time. */
  silent(output: FailureOutput | undefined, milliseconds: number): Failure {
    const summary = `its process did not answer within ${milliseconds / 1000} s of its start`;
    const problem = `${this.#command} did not answer within ${milliseconds / 1000} s of its start`;
    const stray = output?.strayLines.at(-1);
    if (stray !== undefined) {
      const quoted = JSON.stringify(this.#hide(stray));
      const todo =
        'check that the command starts a stdio server, which writes its log to stderr and only messages to stdout';
      return {
        problem: `${problem}, and wrote to stdout a line that is not an MCP message: ${quoted}; ${todo}`,
        summary: `${summary}, and wrote to stdout a line that is not an MCP message`,
        unrunnable: false,
      };
    }
    const { lines } = output ? this.#diagnose(output) : { lines: [] };
    const wrote = written(lines);
    const todo =
      'check that it is an MCP server on stdio; if its first start takes longer because npx or uvx downloads it, ' +
      'raise "timeouts.connect"';
    return { problem: `${problem}${wrote}; ${todo}`, summary, unrunnable: false };
  }

  #diagnose({ stderrTail, strayLines }: FailureOutput) {
    const found = diagnose({ stderr: stderrTail, stdout: strayLines, args: this.#args });
    return { ...found, lines: found.lines.map((line) => this.#hide(line)) };
  }
}

function adviceFor(
  code: number | null,
  signal: NodeJS.Signals | null,
  starting: boolean,
  wrote: boolean,
): string | undefined {
  if (signal === 'SIGKILL' || code === 137)
    return 'it may have run out of memory: check the limits of this machine or container';
  if (signal === 'SIGTERM' || signal === 'SIGINT' || signal === 'SIGHUP') return 'another process ended it';
  if (signal !== null) return 'the program itself crashed: install it again, for this machine and its architecture';
  if (!starting) return undefined;
  if (code === 0) return 'check that it is an MCP server on stdio and keeps running';
  return wrote ? undefined : 'run the command in a terminal to see why';
}

function written(lines: readonly string[]): string {
  return lines.length > 0 ? `: ${lines.join(' | ').replace(/\.$/, '')}` : ' and wrote nothing to stderr';
}

function quote(word: string): string {
  return /^[\w@%+=:,./\\*-]+$/.test(word) ? word : JSON.stringify(word);
}
