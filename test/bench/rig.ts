/** Starts the processes of the bench, each on its core, and reads their CPU and memory use. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Era, Figures, Job } from './wire.js';

const has = (command: string, ...args: string[]): boolean => spawnSync(command, args).error === undefined;

export const canPin = availableParallelism() > 1 && has('taskset', '--version');
export const hasNginx = has('nginx', '-v');

/** The core of the process under test, and the core of the other processes. */
export const TESTED = 0;
export const HELPING = 1;

export const on = (core: number): string[] => (canPin ? ['taskset', '-c', String(core)] : []);

const TS = fileURLToPath(new URL('../support/ts.mjs', import.meta.url));
const here = (file: string): string => fileURLToPath(new URL(file, import.meta.url));

function start(core: number, file: string, ...args: string[]): ChildProcess {
  const [command, ...rest] = [...on(core), process.execPath, '--import', TS, here(file), ...args];
  return spawn(command!, rest, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
}

export interface Running {
  readonly url: string;
  readonly pid: number;
  close(): Promise<unknown>;
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, 'exit');
  child.kill();
  await exit;
}

async function startServer(core: number, path: string, file: string, ...args: string[]): Promise<Running> {
  const child = start(core, file, ...args);
  const [port] = (await once(child, 'message')) as [number];
  return { url: `http://127.0.0.1:${port}${path}`, pid: child.pid!, close: () => stop(child) };
}

export const startUpstream = (core: number, era: Era): Promise<Running> =>
  startServer(core, '/mcp', 'upstream.ts', era);

/** A proxy made only of `node:http` and `undici`; serves /modern and /legacy as nginx does. */
export const startLibraryProxy = (core: number, upstreams: Readonly<Record<Era, string>>): Promise<Running> =>
  startServer(core, '', 'library-proxy.ts', upstreams.modern, upstreams.legacy);

/** nginx as a plain proxy with keep-alive on both sides, one worker, nothing written to disk. */
export async function startNginx(core: number, upstreams: Readonly<Record<Era, string>>): Promise<Running> {
  const folder = await mkdtemp(join(tmpdir(), 'parley-bench-nginx-'));
  const port = await freePort();
  const backend = (era: Era): string =>
    `upstream ${era} { server ${new URL(upstreams[era]).host}; keepalive 64; keepalive_requests 100000000; }`;
  const location = (era: Era): string => `location = /${era} { proxy_pass http://${era}/mcp; }`;
  const file = join(folder, 'nginx.conf');
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((name) => `${name}_temp_path ${folder}/${name};`)
    .join(' ');
  await writeFile(
    file,
    `worker_processes 1; daemon off; master_process off; pid ${folder}/pid; error_log stderr warn;
events { worker_connections 1024; }
http {
  access_log off; ${temporary} keepalive_requests 100000000;
  ${backend('modern')} ${backend('legacy')}
  proxy_http_version 1.1; proxy_set_header Connection ""; proxy_max_temp_file_size 0;
  proxy_buffers 64 16k; proxy_busy_buffers_size 64k;
  server { listen 127.0.0.1:${port}; ${location('modern')} ${location('legacy')} }
}
`,
  );
  const [command, ...args] = [...on(core), 'nginx', '-p', folder, '-c', file];
  const child = spawn(command!, args, { stdio: ['ignore', 'inherit', 'inherit'] });
  return {
    url: `http://127.0.0.1:${port}`,
    pid: child.pid!,
    close: async () => {
      await stop(child);
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

/** Clock ticks per second of /proc, which Linux fixes for user space. */
const TICKS = 100;

/** CPU microseconds of a process over all its threads; undefined without /proc. */
export function cpuOf(pid: number): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return ((Number(fields[11]) + Number(fields[12])) * 1_000_000) / TICKS;
  } catch {
    return undefined;
  }
}

/** Resident megabytes of a process. */
export function rssOf(pid: number): number | undefined {
  try {
    return Number(/VmRSS:\s*(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1]) / 1_024;
  } catch {
    return undefined;
  }
}

export interface Measured extends Figures {
  /** CPU microseconds of the measured process per call. */
  readonly cpu: number | undefined;
}

/** The load generator's process. */
export class Generator {
  private constructor(private readonly child: ChildProcess) {}

  static async start(core: number): Promise<Generator> {
    const child = start(core, 'load.ts');
    await once(child, 'message');
    return new Generator(child);
  }

  /** Runs one job against the process `pid`; `during` is called periodically while it runs. */
  async run(job: Job, pid: number, during?: () => void): Promise<Measured> {
    this.child.send(job);
    await this.next();
    const before = cpuOf(pid);
    const timer = during && setInterval(during, 50);
    this.child.send('go');
    const figures = (await this.next()) as Figures;
    clearInterval(timer);
    const after = cpuOf(pid);
    const cpu = before === undefined || after === undefined ? undefined : (after - before) / Math.max(1, figures.calls);
    return { ...figures, cpu };
  }

  private async next(): Promise<unknown> {
    const [message] = (await once(this.child, 'message')) as [unknown];
    if (typeof message === 'object' && message !== null && 'failed' in message)
      throw new Error(`the load generator gave up: ${message.failed}`);
    return message;
  }

  close(): Promise<void> {
    return stop(this.child);
  }
}
