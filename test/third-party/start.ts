/** Starts the processes of a run: the web servers, a page, and a gateway in front of all servers. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import { type AddressInfo, connect, createServer as createTcpServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type RunningGateway, startGateway } from '../support/gateway.js';
import { executable } from './packages.js';
import { createFiles, type Server, type Workplace } from './servers.js';

/** How the gateway, or a direct client, reaches a server. */
export type Place =
  | { readonly url: string; readonly transport: 'http' | 'sse' }
  | {
      readonly command: string;
      readonly args: readonly string[];
      readonly env: Readonly<Record<string, string>>;
      readonly cwd: string;
    };

export interface World {
  readonly gateway: RunningGateway;
  readonly workplace: Workplace;
  /** The direct address of each server. */
  readonly direct: ReadonlyMap<string, Place>;
  close(): Promise<void>;
}

/** Time limit for the start of a Python program on a busy machine. */
const START_TIME = 180_000;

export async function openWorld(servers: readonly Server[], settings: object = {}): Promise<World> {
  const closers: (() => Promise<unknown>)[] = [];
  const close = async (): Promise<void> => {
    for (const end of closers.reverse()) await end();
  };
  try {
    const folder = await mkdtemp(join(tmpdir(), 'parley-third-party-'));
    closers.push(() => rm(folder, { recursive: true, force: true, maxRetries: 3 }));
    await createFiles(folder);
    const page = createServer((req, res) => {
      const known = req.url === '/ferries.txt';
      res.writeHead(known ? 200 : 404, { 'content-type': 'text/plain' });
      res.end(known ? 'Fjord ferries leave at noon.\n' : '');
    });
    await once(page.listen(0, '127.0.0.1'), 'listening');
    closers.push(async () => {
      page.closeAllConnections();
      page.close();
    });
    const { port } = page.address() as AddressInfo;
    const workplace = { folder, page: `http://127.0.0.1:${port}/ferries.txt` };
    const direct = new Map<string, Place>();
    for (const server of servers) {
      const place = await placeOf(server, workplace, closers);
      direct.set(server.name, place);
    }
    const gateway = await startGateway({
      // The gateway detects the transport of a URL.
      servers: Object.fromEntries(
        [...direct].map(([name, place]) => [name, 'url' in place ? { url: place.url } : place]),
      ),
      ...settings,
    });
    closers.push(() => gateway.close());
    return { gateway, workplace, direct, close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function placeOf(server: Server, workplace: Workplace, closers: (() => Promise<unknown>)[]): Promise<Place> {
  const port = server.http ? await freePort() : 0;
  const wrapped = server.wraps ? [executable(server.wraps.package, server.wraps.command)] : [];
  const command = executable(server.package, server.command);
  const args = [...(server.args?.(workplace, port) ?? []), ...wrapped];
  const env = { ...server.env?.(workplace, port) };
  if (!server.http) return { command, args, env, cwd: workplace.folder };
  const child = spawn(command, args, {
    cwd: workplace.folder,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  closers.push(() => end(child));
  await listening(child, server.name, port);
  return { url: `http://127.0.0.1:${port}${server.http.path}`, transport: server.http.transport };
}

/** Waits until a program listens on a port; throws with the end of its output if it exits first. */
export async function listening(child: ChildProcess, name: string, port: number): Promise<void> {
  let output = '';
  const keep = (chunk: Buffer): void => {
    output = (output + chunk.toString()).slice(-2_000);
  };
  child.stdout?.on('data', keep);
  child.stderr?.on('data', keep);
  let failed: string | undefined;
  child.once('error', (error) => {
    failed = error.message;
  });
  const until = Date.now() + START_TIME;
  while (Date.now() < until) {
    if (failed !== undefined || child.exitCode !== null || child.signalCode !== null)
      throw new Error(`${name} ended before it listened: ${failed ?? output}`);
    if (await accepts(port)) return;
    await sleep(200);
  }
  throw new Error(`${name} does not listen on port ${port}: ${output}`);
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}

export async function freePort(): Promise<number> {
  const server = createTcpServer();
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

export async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
  const exit = once(child, 'exit');
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), 10_000);
  await exit;
  clearTimeout(timer);
}
