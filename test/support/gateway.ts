/** Starts a real gateway process for a test, on a free loopback port with its own data folder. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { sleep } from '../../src/core/timing.js';

export interface GatewayConfig {
  readonly servers?: Readonly<Record<string, object>>;
  readonly [key: string]: unknown;
}

export interface RunningGateway {
  readonly url: string;
  readonly pid: number;
  readonly process: ChildProcess;
  /** The configuration file. */
  readonly file: string;
  /** The output on stderr so far. */
  log(): string;
  /** Stops the gateway in an orderly way and removes its folder. Returns the exit code. */
  close(): Promise<number | null>;
}

export const BIN = fileURLToPath(new URL('../../bin/parley.js', import.meta.url));

export interface GatewayOptions {
  /** A data folder that outlives this process, for restarts. */
  readonly data?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Runs another program than that of this repository. */
  readonly bin?: string;
  /** Command and arguments that start node, such as `taskset`. */
  readonly under?: readonly string[];
  /** False to start the test before the gateway has fetched the lists of all servers. */
  readonly settled?: boolean;
}

/** How long to wait for the lists of all servers. Servers without a list after that time are part of the test. */
const SETTLING = 5_000;

/** Waits until the lists contain every server. */
async function settle(url: string, { servers, mcp_servers, agents, auth }: GatewayConfig): Promise<void> {
  if (Object.keys({ ...servers, ...(mcp_servers as object), ...(agents as object) }).length === 0) return;
  const token = (auth as { tokens?: { token: string }[] } | undefined)?.tokens?.[0]?.token;
  const prefix = 'io.modelcontextprotocol';
  const request: RequestInit = {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/list',
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/list',
      params: { _meta: { [`${prefix}/protocolVersion`]: '2026-07-28', [`${prefix}/clientCapabilities`]: {} } },
    }),
  };
  for (const end = Date.now() + SETTLING; Date.now() < end; ) {
    const reply = await fetch(`${url}/mcp`, request);
    if (!(await reply.text()).includes('"parley/missing"')) return;
    await sleep(50);
  }
}

/** Removes proxy variables: the proxies of this machine cannot reach the servers of a test. */
const withoutProxies = (env: NodeJS.ProcessEnv): NodeJS.ProcessEnv =>
  Object.fromEntries(Object.entries(env).filter(([name]) => !/^(?:https?|no)_proxy$/i.test(name)));

export async function startGateway(config: GatewayConfig, options: GatewayOptions = {}): Promise<RunningGateway> {
  const folder = await mkdtemp(join(tmpdir(), 'parley-test-'));
  const file = join(folder, 'parley.json');
  const settings = {
    listen: '127.0.0.1:0',
    data: options.data ?? join(folder, 'data'),
    // Tests count the requests at their servers.
    health: { interval: '1h' },
    ...config,
  };
  await writeFile(file, JSON.stringify(settings), { mode: 0o600 });
  const [command, ...args] = [
    ...(options.under ?? []),
    process.execPath,
    options.bin ?? BIN,
    'serve',
    '--config',
    file,
  ];
  const env = { ...withoutProxies(process.env), ...options.env };
  const child = spawn(command!, args, { stdio: ['ignore', 'pipe', 'pipe'], env });
  let errors = '';
  child.stderr.on('data', (chunk: Buffer) => {
    errors = (errors + chunk.toString()).slice(-200_000);
  });
  const url = await new Promise<string>((resolve, reject) => {
    let output = '';
    child.stdout.on('data', (chunk: Buffer) => {
      output += chunk.toString();
      const match = /listening on (\S+)/.exec(output);
      if (match) resolve(match[1]!);
    });
    child.once('exit', (code) => reject(new Error(`the gateway ended with code ${code}: ${errors}`)));
  });
  if (options.settled !== false) await settle(url, config);
  return {
    url,
    pid: child.pid!,
    process: child,
    file,
    log: () => errors,
    close: async () => {
      if (child.exitCode === null && child.signalCode === null) {
        const exit = once(child, 'exit');
        child.kill('SIGTERM');
        const timer = setTimeout(() => child.kill('SIGKILL'), 40_000);
        await exit;
        clearTimeout(timer);
      }
      await rm(folder, { recursive: true, force: true, maxRetries: 3 });
      return child.exitCode;
    },
  };
}
