/**
 * SIGHUP reloads the configuration: changes are applied, unchanged servers keep running, and the process never ends.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { sleep } from '../../src/core/timing.js';
import { textOf } from '../input/support/message.js';
import { initializeBody, modern, modernCall } from '../input/support/speak.js';
import { ask, eventually as soon } from '../input/support/wire.js';
import { BIN, type RunningGateway, startGateway } from '../support/gateway.js';

/** Polls with a long timeout for a busy machine. */
const eventually = <T>(look: () => T | Promise<T>, holds: (value: T) => boolean): Promise<T> =>
  soon(look, holds, 60_000);

const FIXTURE = fileURLToPath(new URL('../fixtures/stdio/server.mjs', import.meta.url));
const server = (...args: string[]): object => ({
  command: process.execPath,
  args: [FIXTURE, ...args],
  revision: 'legacy',
});

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'parley-reload-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

describe('parley serve at SIGHUP', () => {
  let gateway: RunningGateway;
  afterEach(() => gateway?.close());

  const say = async (name: string, tool = 'say'): Promise<string> =>
    textOf((await modernCall(`${gateway.url}/mcp`, `${name}__${tool}`)).json);
  const servers = async (): Promise<string[]> => {
    const { json } = await modern(`${gateway.url}/mcp`, 'tools/list');
    const names = (json.result.tools as { name: string }[]).map(({ name }) => name.split('__')[0]!);
    return [...new Set(names)].sort();
  };
  const rewrite = async (change: (config: Record<string, unknown>) => void): Promise<void> => {
    const config = JSON.parse(await readFile(gateway.file, 'utf8')) as Record<string, unknown>;
    change(config);
    await writeFile(gateway.file, JSON.stringify(config));
  };
  const reloads = (): number => gateway.log().split('configuration reloaded').length - 1;
  const reload = async (): Promise<void> => {
    const before = reloads();
    gateway.process.kill('SIGHUP');
    await eventually(reloads, (now) => now > before);
  };

  it('applies added, changed and removed servers, keeps the others running and names the keys that need a restart', async () => {
    gateway = await startGateway({
      servers: { kept: server('say=kept'), changed: server('say=before'), removed: server() },
      log: { format: 'json' },
    });
    const pid = await say('kept', 'pid');
    expect(await say('changed')).toBe('before');
    await rewrite((config) => {
      config['servers'] = { kept: server('say=kept'), changed: server('say=after'), added: server('say=new') };
      config['agents'] = { helper: { tools: ['kept__*'] } };
      config['limits'] = { pageSize: 7 };
      config['log'] = { format: 'json', level: 'debug' };
    });
    await reload();
    expect(await servers()).toEqual(['added', 'changed', 'kept']);
    expect(await say('changed')).toBe('after');
    expect(await say('added')).toBe('new');
    expect(await say('kept', 'pid')).toBe(pid);
    const card = await ask(`${gateway.url}/a2a/helper/.well-known/agent-card.json`, { method: 'GET' });
    expect(card.json).toMatchObject({ name: 'helper' });
    const lines = gateway
      .log()
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line) as { msg: string; keys?: string[] });
    expect(lines.find(({ msg }) => msg === 'these keys changed and take effect only after a restart')?.keys).toEqual([
      'limits.pageSize',
    ]);
    // After another reload of the same file the key still needs a restart.
    const before = gateway.log().length;
    await reload();
    expect(gateway.log().slice(before)).not.toMatch(/a server was (added|changed|removed)/);
    expect(gateway.log().slice(before)).toContain('limits.pageSize');
  });

  it('keeps the configuration in use if the file is invalid, logs the reason, and reads the file again later', async () => {
    gateway = await startGateway({ servers: { kept: server('say=kept') }, log: { format: 'json' } });
    const pid = await say('kept', 'pid');
    await rewrite((config) => {
      config['servers'] = { kept: { comand: 'node' } };
    });
    gateway.process.kill('SIGHUP');
    await eventually(gateway.log, (log) =>
      log.includes('configuration not reloaded: the file has errors; the configuration in use stays in effect'),
    );
    expect(gateway.log()).toContain('has neither url nor command');
    expect(await say('kept', 'pid')).toBe(pid);
    await writeFile(gateway.file, '{ not even JSON');
    const before = gateway.log().length;
    gateway.process.kill('SIGHUP');
    await eventually(gateway.log, (log) => log.slice(before).includes('configuration not reloaded'));
    expect(await say('kept', 'pid')).toBe(pid);
    await writeFile(
      gateway.file,
      JSON.stringify({ listen: '127.0.0.1:0', data: join(folder, 'x'), servers: { other: server('say=other') } }),
    );
    await reload();
    expect(await say('other')).toBe('other');
    expect(await servers()).toEqual(['other']);
  });

  it('applies a changed file without a signal, and keeps the configuration in use if the file has an error', async () => {
    gateway = await startGateway({ servers: { kept: server('say=kept') }, log: { format: 'json' } });
    const pid = await say('kept', 'pid');
    await rewrite((config) => {
      config['servers'] = { kept: server('say=kept'), added: server('say=new') };
    });
    await eventually(servers, (names) => names.join() === 'added,kept');
    expect(await say('kept', 'pid')).toBe(pid);
    await writeFile(gateway.file, '{ "servers": { "kept": ');
    await eventually(gateway.log, (log) => log.includes('configuration not reloaded: the file has errors'));
    expect(await servers()).toEqual(['added', 'kept']);
    expect(await say('kept', 'pid')).toBe(pid);
    expect(await gateway.close()).toBe(0);
  });

  it('survives a hundred signals, even after its output was closed', async () => {
    gateway = await startGateway({ servers: { kept: server('say=kept') } });
    gateway.process.stdout?.destroy();
    gateway.process.stderr?.destroy();
    for (let signal = 0; signal < 100; signal++) {
      gateway.process.kill('SIGHUP');
      await sleep(5);
    }
    expect(await say('kept')).toBe('kept');
    expect(gateway.process.exitCode).toBeNull();
    expect(gateway.process.signalCode).toBeNull();
    expect(await gateway.close()).toBe(0);
  });
});

describe('parley stdio at SIGHUP', () => {
  let parley: ChildProcess | undefined;
  afterEach(() => void parley?.kill('SIGKILL'));

  it('applies the servers of the file and runs until its input ends', async () => {
    const file = join(folder, 'parley.json');
    const write = (servers: object): Promise<void> =>
      writeFile(file, JSON.stringify({ data: join(folder, 'data'), servers, log: { format: 'json' } }));
    await write({ one: server('say=one') });
    parley = spawn(process.execPath, [BIN, 'stdio', '--config', file], { stdio: ['pipe', 'pipe', 'pipe'] });
    let log = '';
    parley.stderr!.on('data', (chunk: Buffer) => (log += chunk.toString()));
    const waiting = new Map<unknown, (message: { result?: { tools: { name: string }[] } }) => void>();
    createInterface({ input: parley.stdout! }).on('line', (line) => {
      const message = JSON.parse(line) as { id?: unknown };
      waiting.get(message.id)?.(message as object);
    });
    let last = 0;
    const request = (method: string, body?: object): Promise<{ result?: { tools: { name: string }[] } }> =>
      new Promise((resolve) => {
        const id = ++last;
        waiting.set(id, resolve);
        parley!.stdin!.write(`${JSON.stringify({ ...(body ?? { jsonrpc: '2.0', method, params: {} }), id })}\n`);
      });
    const tools = async (): Promise<string[]> =>
      (await request('tools/list')).result!.tools.map(({ name }) => name).sort();
    await request('initialize', initializeBody('2025-06-18'));
    parley.stdin!.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n');
    expect(await tools()).toEqual(['one__crash', 'one__pid', 'one__say']);
    await write({ two: server('say=two') });
    parley.kill('SIGHUP');
    await eventually(
      () => log,
      (text) => text.includes('configuration reloaded'),
    );
    await eventually(tools, (names) => names.join() === 'two__crash,two__pid,two__say');
    const exit = once(parley, 'exit');
    parley.stdin!.end();
    expect(await exit).toEqual([0, null]);
  });
});

it('a signal before the gateway listens causes a reload after its start', async () => {
  const file = join(folder, 'parley.json');
  const data = join(folder, 'data');
  await writeFile(file, JSON.stringify({ listen: '127.0.0.1:0', data, servers: {}, log: { format: 'json' } }));
  // The handler is installed before the gateway is loaded, as in the real program; the signal follows at once.
  const script = `
    const { main } = await import(${JSON.stringify(new URL('../../dist/cli/main.js', import.meta.url).href)});
    const running = main(['serve', '--config', ${JSON.stringify(file)}]);
    process.kill(process.pid, 'SIGHUP');
    process.exitCode = await running;`;
  const parley = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: ['ignore', 'pipe', 'pipe'] });
  try {
    let log = '';
    let output = '';
    parley.stderr.on('data', (chunk: Buffer) => (log += chunk.toString()));
    parley.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
    await eventually(
      () => log,
      (text) => text.includes('configuration reloaded'),
    );
    const url = /listening on (\S+)/.exec(output)?.[1];
    expect((await ask(`${url}/health`, { method: 'GET' })).status).toBe(200);
    const exit = once(parley, 'exit');
    parley.kill('SIGTERM');
    expect(await exit).toEqual([0, null]);
  } finally {
    parley.kill('SIGKILL');
  }
});
