import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, isAbsolute, join, resolve } from 'node:path';
import type { StdioCommand } from './command.js';
import { StdioError } from './stdio-error.js';

/**
 * Explains why a command did not start, and what to do. The operating system reports ENOENT for a missing command, a
 * missing directory and a missing interpreter, so this function checks the file system to distinguish them.
 */
export function startFailure(
  command: StdioCommand,
  env: Readonly<Record<string, string>>,
  error?: unknown,
): StdioError {
  const name = JSON.stringify(command.command);
  if (command.command === '') return new StdioError('invalid', 'the command is empty: name the program to run');

  if (command.cwd !== undefined && !isDirectory(command.cwd)) {
    const cwd = JSON.stringify(command.cwd);
    const message = `cannot start ${name}: the working directory ${cwd} does not exist; create it or correct \`cwd\``;
    return new StdioError('bad_cwd', message);
  }
  if (error instanceof TypeError) {
    return new StdioError('invalid', `cannot start ${name}: ${error.message}`, { cause: error });
  }
  const found = find(command, env);
  if (found === undefined) {
    const where = /[\\/]/.test(command.command)
      ? 'there is no such file; correct the path in `command`'
      : 'it is not on the PATH; install it, give its full path in `command`, or set PATH in `env`';
    return new StdioError('not_found', `cannot start ${name}: ${where}`, { cause: error });
  }
  if (!isExecutable(found)) {
    const message = `cannot start ${name}: ${found} is not executable; run \`chmod +x\` on it or name its interpreter`;
    return new StdioError('not_executable', message, { cause: error });
  }
  const code = (error as NodeJS.ErrnoException | undefined)?.code;
  const message =
    `cannot start ${name}: ${code ?? 'the system refused'}; if ${found} is a script, its interpreter (the #! line) ` +
    'may be missing, otherwise too many processes or files are open or memory is short';
  return new StdioError('resources', message, { cause: error });
}

function find(command: StdioCommand, env: Readonly<Record<string, string>>): string | undefined {
  const base = command.cwd ?? process.cwd();
  if (isAbsolute(command.command)) return isFile(command.command) ? command.command : undefined;
  if (/[\\/]/.test(command.command)) {
    const path = resolve(base, command.command);
    return isFile(path) ? path : undefined;
  }
  let unusable: string | undefined;
  for (const folder of (env['PATH'] ?? '').split(delimiter)) {
    for (const extension of extensions(env)) {
      const path = join(folder === '' ? base : folder, command.command + extension);
      if (!isFile(path)) continue;
      if (isExecutable(path)) return path;
      unusable ??= path;
    }
  }
  return unusable;
}

function extensions(env: Readonly<Record<string, string>>): string[] {
  return process.platform === 'win32' ? ['', ...(env['PATHEXT'] ?? '.COM;.EXE;.BAT;.CMD').split(';')] : [''];
}

function isFile(path: string): boolean {
  try {
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

function isDirectory(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
