/** A gateway in front of legacy servers that record their messages. */
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Entry, HttpFixture, type HttpOptions } from '../../fixtures/era-bridge/http.mjs';
import { type GatewayConfig, type GatewayOptions, type RunningGateway, startGateway } from '../../support/gateway.js';

const STDIO = fileURLToPath(new URL('../../fixtures/era-bridge/stdio.mjs', import.meta.url));

export interface World {
  readonly gateway: RunningGateway;
  readonly mcp: string;
  /** The endpoint of one server. */
  at(server: string): string;
  readonly fixtures: Readonly<Record<string, HttpFixture>>;
  /** The recorded events of every server, including stdio servers. */
  entries(): Entry[];
  close(): Promise<void>;
}

export interface WorldOptions extends GatewayOptions {
  readonly http?: Readonly<Record<string, HttpOptions>>;
  /** Stdio servers, each with its settings. */
  readonly stdio?: Readonly<Record<string, object>>;
  readonly servers?: Readonly<Record<string, object>>;
  readonly config?: GatewayConfig;
}

/** A valid token for a caller of this name. */
export const tokenOf = (name: string): string => createHash('sha256').update(`bridge ${name}`).digest('hex');

export const tokensFor = (names: readonly string[]): object => ({
  tokens: names.map((name) => ({ name, token: tokenOf(name) })),
});

export async function startWorld(options: WorldOptions): Promise<World> {
  const folder = await mkdtemp(join(tmpdir(), 'parley-bridge-'));
  const ledger = join(folder, 'ledger');
  const fixtures: Record<string, HttpFixture> = {};
  const servers: Record<string, object> = {};
  for (const [name, settings] of Object.entries(options.http ?? {})) {
    const fixture = await new HttpFixture(settings).start();
    fixtures[name] = fixture;
    servers[name] = { url: fixture.url, revision: settings.revision ?? '2025-11-25' };
  }
  for (const [name, settings] of Object.entries(options.stdio ?? {}))
    servers[name] = {
      command: process.execPath,
      args: [STDIO],
      revision: '2025-11-25',
      env: { LEDGER: ledger },
      ...settings,
    };
  const config = { log: { level: 'warn' }, ...options.config, servers: { ...servers, ...options.servers } };
  const gateway = await startGateway(config, options);
  return {
    gateway,
    mcp: `${gateway.url}/mcp`,
    at: (server) => `${gateway.url}/mcp/${server}`,
    fixtures,
    entries: () => [...Object.values(fixtures).flatMap(({ entries }) => entries), ...readLedger(ledger)],
    close: async () => {
      await gateway.close();
      for (const fixture of Object.values(fixtures)) await fixture.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

function readLedger(file: string): Entry[] {
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, 'utf8').split('\n');
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as Entry);
}

/** All processes below this one in the process tree. */
export async function descendants(pid: number): Promise<{ pid: number; command: string }[]> {
  const parents = new Map<number, { parent: number; command: string }>();
  for (const entry of await readdir('/proc')) {
    if (!/^\d+$/.test(entry)) continue;
    try {
      const stat = await readFile(`/proc/${entry}/stat`, 'utf8');
      const command = (await readFile(`/proc/${entry}/cmdline`, 'utf8')).replaceAll('\0', ' ').trim();
      const parent = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
      parents.set(Number(entry), { parent, command });
    } catch {
      // The process has ended meanwhile.
    }
  }
  const found: { pid: number; command: string }[] = [];
  const walk = (of: number): void => {
    for (const [child, { parent, command }] of parents) {
      if (parent !== of) continue;
      found.push({ pid: child, command });
      walk(child);
    }
  };
  walk(pid);
  return found;
}

/** The number of processes of the stdio fixture. */
export const fixtureProcesses = async (pid: number): Promise<number> =>
  (await descendants(pid)).filter(
    ({ command }) => command.includes('fixtures/era-bridge/stdio.mjs') && !/guard/.test(command),
  ).length;

export const runsOf = (entries: readonly Entry[], key: string): number =>
  entries.filter((entry) => entry.kind === 'run' && entry.key === key).length;
