/** Servers whose tools depend on the capabilities of their clients, behind a gateway. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { sleep } from '../../src/core/timing.js';
import type { EraClient, Json } from '../eras/peers.js';
import { listening } from '../support/fixture-address.js';

const SERVER = fileURLToPath(new URL('../fixtures/catalog/server.mjs', import.meta.url));

export interface ShownServer {
  /** Its entry in the configuration. */
  readonly settings: object;
  /** The recorded events of all its processes. */
  happened(event: string): { readonly tag: unknown; readonly pid: number }[];
  close(): Promise<void>;
}

export async function startShown(era: 'legacy' | 'modern', transport: 'stdio' | 'http' | 'sse'): Promise<ShownServer> {
  const folder = await mkdtemp(join(tmpdir(), 'parley-catalogue-'));
  const file = join(folder, 'record');
  const args = [SERVER, era, transport];
  const env = { ERAS_RECORD: file };
  let child: ChildProcess | undefined;
  let settings: object = { command: process.execPath, args, env };
  if (transport !== 'stdio') {
    child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'], env: { ...process.env, ...env } });
    settings = { url: await listening(child) };
  }
  return {
    settings,
    happened: (event) => {
      if (!existsSync(file)) return [];
      const lines = readFileSync(file, 'utf8').split('\n');
      return lines.flatMap((line) => (line === '' ? [] : JSON.parse(line))).filter((entry) => entry.event === event);
    },
    close: async () => {
      if (child?.exitCode === null) {
        const exit = once(child, 'exit');
        child.kill('SIGTERM');
        await exit;
      }
      await rm(folder, { recursive: true, force: true, maxRetries: 3 });
    },
  };
}

export const namesIn = (list: Json): string[] => (list['tools'] as { name: string }[]).map(({ name }) => name);

/** The servers that a list reports as missing. */
export const missingIn = (result: Json | undefined): string[] => {
  const meta = result?.['_meta'] as Json | undefined;
  const missing = meta?.['parley/missing'] as { server: string }[] | undefined;
  return missing?.map(({ server }) => server) ?? [];
};

/** The sorted tools of a client, once no server is missing. */
export async function toolsOf(client: EraClient): Promise<string[]> {
  for (const end = Date.now() + 60_000; ; ) {
    const list = await client.request('tools/list');
    if (missingIn(list).length === 0) return namesIn(list).sort();
    if (Date.now() > end) throw new Error(`some servers stay missing: ${missingIn(list).join(', ')}`);
    await sleep(50);
  }
}
