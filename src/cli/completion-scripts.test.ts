import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { COMMANDS } from './commands.js';
import { bashScript, fishScript, zshScript } from './completion-scripts.js';

/** Asks the script of bash for completions of a line. */
function complete(line: string): string[] {
  const words = line.split(' ');
  const script = `${bashScript(COMMANDS)}\nCOMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=${words.length - 1}; _parley; printf '%s\\n' "\${COMPREPLY[@]}"`;
  return execFileSync('bash', ['-c', script], { encoding: 'utf8' }).split('\n').filter(Boolean);
}

test('bash completes commands, their second words and their options', () => {
  expect(complete('parley ser')).toEqual(['serve', 'servers']);
  expect(complete('parley config ')).toEqual(['check', 'diff', 'schema']);
  expect(complete('parley call weather --js')).toEqual(['--json']);
  expect(complete('parley keys create --')).toContain('--servers');
});

test('every script knows every command and every option', () => {
  for (const script of [bashScript(COMMANDS), zshScript(COMMANDS), fishScript(COMMANDS)]) {
    for (const { name, flags } of COMMANDS) {
      for (const word of name.split(' ')) expect(script).toContain(word);
      for (const flag of flags) expect(script).toContain(flag.name);
    }
  }
});
