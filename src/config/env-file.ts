/** Reads the environment variables of a server from the file that its key `envFile` names. */
import { readFileSync } from 'node:fs';
import { parseEnv } from 'node:util';
import { show } from './problem.js';

/** The file cannot be read. */
export class EnvFileProblem extends Error {
  override readonly name = 'EnvFileProblem';
}

/** Throws `EnvFileProblem`. */
export function readEnvFile(file: string): Record<string, string> {
  try {
    return parseEnv(readFileSync(file, 'utf8')) as Record<string, string>;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new EnvFileProblem(`${show(file)} cannot be read (${code ?? 'unknown'})`);
  }
}
