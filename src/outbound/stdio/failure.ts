import { hideTokens, hiding, maskArguments, secretsIn } from '../../identity/secrets.js';
import type { StdioCommand } from './command.js';
import { diagnose } from './diagnosis.js';

/** A failure in two forms: for operators with commands, paths and output, for callers in fixed words (S25). */
export interface Failure {
  readonly problem: string;
  readonly summary: string;
  /** The program could not run at all, whatever it would have been asked. */
  readonly unrunnable: boolean;
}

/** The part of a child that says how it fared. */
export interface Witness {
  readonly stderrTail: string;
  /** The last lines on stdout that were no messages. */
  readonly strayLines: readonly string[];
}

export interface Ending {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

const MAX_COMMAND = 200;

/** Explains how the processes of one command fail. Values of its environment and what looks like a token are hidden. */
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

  /** The command as it may be shown. */
  get command(): string {
    return this.#command;
  }

  /** Hides secrets in a line of bounded length. */
  hide(line: string): string {
    return this.#hide(line);
  }

  /** The process is gone. */
  ended(witness: Witness, { code, signal }: Ending, starting: boolean): Failure {
    const how = signal === null ? `exited with code ${code ?? 'unknown'}` : `was killed by ${signal}`;
    const when = starting ? 'while it was starting' : 'while it was serving';
    // A program that explains itself on stdout does so at its start; later there are only messages, or halves of them.
    const { stderrTail } = witness;
    const { lines, cause, advice, unrunnable } = this.#diagnose(starting ? witness : { stderrTail, strayLines: [] });
    const wrote = written(lines);
    const todo = advice ?? adviceFor(code, signal, starting, lines.length > 0);
    return {
      problem: `${this.#command} ${how} ${when}${wrote}${todo === undefined ? '' : `; ${todo}`}`,
      summary: `its process ${how} ${when}${cause === undefined ? '' : `: ${cause}`}`,
      unrunnable: unrunnable && starting,
    };
  }

  /** The process runs, and was not ready in time. */
  silent(witness: Witness | undefined, milliseconds: number): Failure {
    const summary = `its process did not answer within ${milliseconds / 1000} s of its start`;
    const problem = `${this.#command} did not answer within ${milliseconds / 1000} s of its start`;
    const stray = witness?.strayLines.at(-1);
    if (stray !== undefined) {
      const quoted = JSON.stringify(this.#hide(stray));
      const todo =
        'check that the command starts a server for stdio: it writes its log to stderr and nothing else to stdout';
      return {
        problem: `${problem}, and wrote to stdout what is no MCP message: ${quoted}; ${todo}`,
        summary: `${summary}, and wrote to stdout what is no MCP message`,
        unrunnable: false,
      };
    }
    const { lines } = witness ? this.#diagnose(witness) : { lines: [] };
    const wrote = written(lines);
    const todo =
      'check that it is an MCP server on stdio; where its first start takes longer, because npx or uvx fetches it, ' +
      'raise "timeouts.connect"';
    return { problem: `${problem}${wrote}; ${todo}`, summary, unrunnable: false };
  }

  #diagnose({ stderrTail, strayLines }: Witness) {
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
    return 'it may have run out of memory: look at the limits of this machine or container';
  if (signal === 'SIGTERM' || signal === 'SIGINT' || signal === 'SIGHUP') return 'another process ended it';
  if (signal !== null) return 'the program itself crashed: install it again, for this machine and its architecture';
  if (!starting) return undefined;
  if (code === 0) return 'check that it is an MCP server on stdio, and not a program that does its work and ends';
  return wrote ? undefined : 'run the command in a terminal to see why';
}

function written(lines: readonly string[]): string {
  return lines.length > 0 ? `: ${lines.join(' | ').replace(/\.$/, '')}` : ' and wrote nothing to stderr';
}

function quote(word: string): string {
  return /^[\w@%+=:,./\\*-]+$/.test(word) ? word : JSON.stringify(word);
}
