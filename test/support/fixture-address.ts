import type { ChildProcess } from 'node:child_process';

/** The address that a fixture server prints once it listens. */
export function listening(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let output = '';
    child.stdout!.on('data', (chunk: Buffer) => {
      output += chunk.toString();
      const match = /listening (\S+)/.exec(output);
      if (match) resolve(match[1]!);
    });
    child.once('exit', (code) => reject(new Error(`the fixture server ended with code ${code}`)));
  });
}
