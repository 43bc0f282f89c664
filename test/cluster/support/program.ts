/** The program `stdio.mjs` as a stdio server of several replicas: its owner and its record of calls. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { descendants } from '../../era-bridge/support/world.js';
import type { Entry } from '../../fixtures/era-bridge/http.mjs';
import type { Replica } from './replicas.js';

const STDIO = fileURLToPath(new URL('./stdio.mjs', import.meta.url));

export class Program {
  private readonly folder = mkdtempSync(join(tmpdir(), 'parley-ledger-'));
  private readonly ledger = join(this.folder, 'ledger');

  get settings(): object {
    return { command: process.execPath, args: [STDIO], revision: '2025-11-25', env: { LEDGER: this.ledger } };
  }

  entries(): Entry[] {
    if (!existsSync(this.ledger)) return [];
    const lines = readFileSync(this.ledger, 'utf8').split('\n');
    return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as Entry);
  }

  runs(key: string): number {
    return this.entries().filter((entry) => entry.kind === 'run' && entry.key === key).length;
  }

  get started(): number {
    return this.entries().filter(({ kind }) => kind === 'started').length;
  }

  /** The replicas that run the program now, found by their child processes. */
  async owners(replicas: readonly Replica[]): Promise<Replica[]> {
    const found: Replica[] = [];
    for (const replica of replicas) {
      if (replica.dead) continue;
      const under = await descendants(replica.pid);
      if (under.some(({ command }) => command.includes(STDIO) && !command.includes('guard'))) found.push(replica);
    }
    return found;
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}
