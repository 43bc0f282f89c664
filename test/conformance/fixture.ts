/** Starts each fixture server as a separate process. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const SERVER = fileURLToPath(new URL('../fixtures/everything/server.mjs', import.meta.url));

/** The eras that a fixture supports; `tasks` is a modern server with the tasks extension. */
export type Variant = 'dual' | 'legacy' | 'modern' | 'tasks';

export interface Fixture {
  url: string;
  close(): Promise<void>;
}

export async function startFixture(variant: Variant): Promise<Fixture> {
  const child = spawn(process.execPath, [SERVER, variant], { stdio: ['pipe', 'pipe', 'inherit'] });
  const exited = once(child, 'exit');
  const firstLine = once(createInterface(child.stdout), 'line');
  const [line] = await Promise.race([firstLine, exited.then(([code]) => [`exited with code ${code}`])]);
  const url = /^listening (\S+)$/.exec(String(line))?.[1];
  if (!url) throw new Error(`Fixture ${variant}: ${line}`);
  return {
    url,
    close: async () => {
      child.stdin.end();
      await exited;
    },
  };
}
