import { fileURLToPath } from 'node:url';
import { VERSION } from '../app/product-info.js';
import { ConfigError, formatProblem } from '../config/problem.js';
import { styleOf, terminalText } from '../telemetry/terminal-style.js';
import { type CliEnvironment, UsageError } from './command.js';
import { COMMANDS, firstSteps, helpText } from './commands.js';
import { parseCommandLine } from './parse-command-line.js';
import { askTerminal } from './prompt.js';
import { stdoutFlushed } from './stdout.js';

const surroundings: Omit<CliEnvironment, 'redraw'> = {
  env: process.env,
  cwd: process.cwd(),
  quickstart: fileURLToPath(new URL('../../examples/quickstart.yaml', import.meta.url)),
  stdout: (text) => process.stdout.write(text),
  stderr: (text) => process.stderr.write(text),
  flushed: () => stdoutFlushed(),
  ask: askTerminal,
  style: styleOf(process.stdout),
  terminal: process.stderr.isTTY === true,
  // Loaded on demand, so that help and checks start fast.
  starters: async () => (await import('../app/load-starters.js')).loadStarters(),
};

/** No command may let the text of another party control the terminal. */
function guarded(given: Omit<CliEnvironment, 'redraw'>): CliEnvironment {
  const { stdout, stderr, ask, style } = given;
  const safe = (text: string): string => terminalText(text, style);
  return {
    ...given,
    stdout: (text) => stdout(safe(text)),
    stderr: (text) => stderr(safe(text)),
    redraw: (text) => stderr(`\r\x1b[K${safe(text)}`),
    ...(ask && { ask: (question) => ask(safe(question)) }),
  };
}

/** Runs one command line to its end. Returns the exit code: 0, 1 for a failure, 2 for a wrong command line. */
export async function main(
  argv: readonly string[],
  given: Partial<Omit<CliEnvironment, 'redraw'>> = {},
): Promise<number> {
  const io = guarded({ ...surroundings, ...given });
  try {
    const invocation = parseCommandLine(argv);
    if (invocation.kind === 'help') {
      io.stdout(helpText(invocation.command));
      return 0;
    }
    if (invocation.kind === 'nothing') {
      io.stderr(firstSteps());
      return 2;
    }
    if (invocation.kind === 'version') {
      io.stdout(`${VERSION}\n`);
      return 0;
    }
    const { command, flags, operands } = invocation;
    const text = (flag: string): string | undefined => {
      const value = flags[flag];
      return typeof value === 'string' ? value : undefined;
    };
    return await command.run({ io, commands: COMMANDS, operands, text, given: (flag) => flags[flag] !== undefined });
  } catch (error) {
    return report(error, io);
  }
}

function report(error: unknown, io: CliEnvironment): number {
  if (error instanceof ConfigError) {
    io.stderr(error.problems.map((problem) => `${formatProblem(problem)}\n`).join(''));
    return 1;
  }
  if (error instanceof UsageError) {
    const help = error.command === undefined ? 'parley --help' : `parley ${error.command.name} --help`;
    io.stderr(`parley: ${error.message}\nSee ${help}\n`);
    return 2;
  }
  io.stderr(`parley: ${error instanceof Error ? error.message : String(error)}\n`);
  return 1;
}
