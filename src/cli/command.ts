import type { Environment } from '../config/expand-variables.js';
import type { Style } from '../telemetry/terminal-style.js';
import type { Starters } from './starters.js';

export interface Flag {
  readonly name: string;
  readonly short?: string;
  /** The placeholder of the value in the help; undefined for a flag without a value. */
  readonly value?: string;
  readonly description: string;
}

/** The surroundings of a command: files, environment variables, outputs, and the functions that start the gateway. */
export interface CliEnvironment {
  readonly env: Environment;
  readonly cwd: string;
  readonly quickstart: string;
  /** Control characters in the text are escaped, since names and descriptions come from strangers. */
  stdout(text: string): void;
  stderr(text: string): void;
  /** Writes over the current line of stderr, for progress. */
  redraw(text: string): void;
  /**
   * Resolves when stdout takes more text. Resolves with false if the reader of stdout is gone. Commands with output of
   * any length wait for this promise, so that the output does not fill the memory.
   */
  flushed?(): Promise<boolean>;
  /** Asks the person at the terminal; undefined without a terminal. */
  ask?(question: string): Promise<string | undefined>;
  /** Whether stdout is a terminal, and its style. */
  readonly style: Style;
  /** Whether stderr is a terminal. */
  readonly terminal: boolean;
  starters(): Promise<Starters>;
}

/** One run of a command: its arguments and flags. */
export interface CommandLine {
  readonly io: CliEnvironment;
  /** Every command of the program. */
  readonly commands: readonly Command[];
  /** The values of the arguments, in the order of `operands` and `optional`. */
  readonly operands: readonly string[];
  /** The value of a flag that takes one; undefined if the flag is not given. */
  text(flag: string): string | undefined;
  /** Whether the command line has this flag, which takes no value. */
  given(flag: string): boolean;
}

/** A command: the parser, the help and the suggestions for typing errors read its description. */
export interface Command {
  /** The words of the command, separated by a space. */
  readonly name: string;
  /** The required arguments after the name. */
  readonly operands?: readonly string[];
  /** The arguments that may follow the required ones. */
  readonly optional?: readonly string[];
  /** The placeholder of any number of further arguments. */
  readonly rest?: string;
  readonly summary: string;
  readonly details: string;
  readonly flags: readonly Flag[];
  readonly examples: readonly string[];
  /** Runs the command to its end. Returns the exit code: 0, 1 for a failure, 2 for a wrong command line. */
  run(line: CommandLine): number | Promise<number>;
}

/** The command line is wrong; the program ends with exit code 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError';

  constructor(
    message: string,
    readonly command?: Command,
  ) {
    super(message);
  }
}

export const CONFIG: Flag = {
  name: 'config',
  short: 'c',
  value: 'FILE',
  description: 'The YAML or JSON file. Default: parley.yaml, parley.yml or parley.json in this folder.',
};
export const HELP: Flag = { name: 'help', short: 'h', description: 'Show this help.' };
export const JSON_OUTPUT: Flag = { name: 'json', description: 'Print one JSON object.' };
