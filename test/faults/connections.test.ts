/**
 * Case 10: more idle connections than descriptors, and no descriptor left. Connected clients are served, servers can be
 * reached, other requests are refused with Retry-After, and the gateway recovers by itself.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { Program } from '../cluster/support/program.js';
import { LegacyClient, ModernClient, textOf } from '../era-bridge/support/clients.js';
import { type Exchange, eventually, sleep } from '../era-bridge/support/wire.js';
import { descendants } from '../era-bridge/support/world.js';
import { answer, json, type Rogue, startRogue } from '../input/support/rogue.js';
import { SseClient } from '../input/support/speak.js';
import { escaped } from '../input/support/world.js';
import { type FaultProxy, startFaultProxy } from '../support/fault-proxy.js';
import { type RunningGateway, startGateway } from '../support/gateway.js';
import { rounds } from './rounds.js';

const PROGRAM = fileURLToPath(new URL('./idle-clients.mjs', import.meta.url));

/** Many idle connections, held by separate processes. */
class IdleClients {
  private readonly children: { readonly process: ChildProcess; open: number; closed: number }[] = [];

  constructor(url: string, count: number, processes = 1) {
    for (let i = 0; i < processes; i++) {
      const args = [PROGRAM, new URL(url).port, String(Math.ceil(count / processes))];
      const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] });
      const entry = { process: child, open: 0, closed: 0 };
      this.children.push(entry);
      let rest = '';
      child.stdout.on('data', (chunk: Buffer) => {
        const lines = (rest + chunk.toString()).split('\n');
        rest = lines.pop()!;
        const last = lines.at(-1);
        if (last) Object.assign(entry, JSON.parse(last));
      });
    }
  }

  get open(): number {
    return this.children.reduce((sum, { open }) => sum + open, 0);
  }

  /** The number of connections that the gateway closed. */
  get closed(): number {
    return this.children.reduce((sum, { closed }) => sum + closed, 0);
  }

  async leave(): Promise<void> {
    await Promise.all(
      this.children.map(async ({ process: child }) => {
        if (child.exitCode !== null || child.signalCode !== null) return;
        const exit = once(child, 'exit');
        child.stdin!.end();
        await exit;
      }),
    );
  }
}

const limitsOf = (pid: number | 'self'): { soft: number; hard: number } => {
  const [, soft, hard] = /^Max open files\s+(\d+)\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/limits`, 'utf8'))!;
  return { soft: Number(soft), hard: Number(hard) };
};
const openIn = (pid: number): number => readdirSync(`/proc/${pid}/fd`).length;
const memoryOf = (pid: number): number =>
  Math.round(Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) / 1024);

describe('case 10: descriptors', () => {
  const program = new Program();
  let rogue: Rogue;
  let proxy: FaultProxy;
  let gateway: RunningGateway;
  let idle: IdleClients | undefined;

  beforeAll(async () => {
    // Each reply closes its connection, so that the next call needs a new one.
    rogue = await startRogue({
      say: ({ res, id, era, args }) => json(res, 200, answer(id, String(args['text']), era), { connection: 'close' }),
      hold: ({ res, id, era, args }) =>
        void setTimeout(
          () => json(res, 200, answer(id, String(args['text']), era), { connection: 'close' }),
          Number(args['ms']),
        ),
    });
    proxy = await startFaultProxy({ port: Number(new URL(rogue.url).port) });
  });
  afterEach(async () => {
    await idle?.leave();
    idle = undefined;
    expect(escaped(gateway.log())).toEqual([]);
    expect(await gateway.close()).toBe(0);
  });
  afterAll(async () => {
    await proxy?.close();
    await rogue?.close();
    program.remove();
  });

  const servers = (): Record<string, object> => ({
    modern: { url: `http://127.0.0.1:${proxy.port}/mcp`, revision: 'modern' },
    legacy: { url: `http://127.0.0.1:${proxy.port}/mcp`, revision: 'legacy', transport: 'http' },
    local: program.settings,
  });
  const start = async (nofile: number, config: object = {}): Promise<void> => {
    gateway = await startGateway(
      { log: { level: 'warn' }, servers: servers(), ...config },
      { under: ['prlimit', `--nofile=${nofile}:${nofile}`] },
    );
  };
  const client = (): ModernClient => new ModernClient(`${gateway.url}/mcp`, {});
  const say = (server: string, text: string): Promise<string> => client().call(`${server}__say`, { text }).then(textOf);
  const echo = (text: string): Promise<string> => client().call('local__echo', { text }).then(textOf);
  const settled = (clients: IdleClients, count: number): Promise<number> =>
    eventually(
      () => clients.open + clients.closed,
      (sum) => sum >= count,
      60_000,
    );

  test('too many idle connections: those idle for longest are closed, and a fifth of the descriptors stays free for servers', async () => {
    const limit = 300;
    await start(limit);
    expect(limitsOf(gateway.pid).soft).toBe(limit);
    // A client that connected before stays connected.
    expect(await say('modern', 'before')).toBe('before');
    idle = new IdleClients(gateway.url, 500);
    await settled(idle, 500);
    await sleep(300);
    const open = openIn(gateway.pid);
    console.log(`limit ${limit}: ${idle.open} idle connections kept, ${idle.closed} closed, ${open} descriptors open`);
    expect(idle.closed).toBeGreaterThan(200);
    expect(idle.open).toBeGreaterThan(150);
    expect(open).toBeLessThanOrEqual(limit * 0.8 + 10);
    // New connections to servers of both eras, and the start of a process.
    for (const text of ['one', 'two']) expect(await say('modern', text)).toBe(text);
    expect(await say('legacy', 'three')).toBe('three');
    expect(await echo('four')).toBe('four');

    await idle.leave();
    await eventually(
      () => openIn(gateway.pid),
      (now) => now < 80,
    );
    idle = new IdleClients(gateway.url, 100);
    await settled(idle, 100);
    expect(idle.closed).toBe(0);
    expect(await say('modern', 'after')).toBe('after');
  });

  test('no descriptor left: 503 with Retry-After at every endpoint, nothing is sent, and the gateway recovers', async () => {
    await start(1_024);
    const modern = client();
    const session = await LegacyClient.open(`${gateway.url}/mcp`, '2025-11-25', {}, { listen: false });
    const sse = await SseClient.connect(`${gateway.url}/sse`);
    await sse.initialize('2024-11-05');
    for (const server of ['modern', 'legacy']) expect(await say(server, 'warm')).toBe('warm');
    expect(await echo('warm')).toBe('warm');
    const sent = rogue.posted.length;

    const limit = (soft: number): void => {
      execFileSync('prlimit', ['--pid', String(gateway.pid), `--nofile=${soft}:1024`]);
    };
    // Only the first three descriptors are allowed, and they are in use, so every new descriptor fails.
    limit(3);
    proxy.cutAll();
    for (const { pid, command } of await descendants(gateway.pid))
      if (command.includes('stdio.mjs') && !command.includes('guard')) process.kill(pid, 'SIGKILL');
    // Wait until the gateway has noticed the death of the process.
    await sleep(500);
    const refused = async (exchange: Exchange): Promise<void> => {
      const messages = await exchange.ended;
      expect(exchange.status, JSON.stringify(messages)).toBe(503);
      expect((await exchange.opened).headers['retry-after']).toBe('1');
      expect(messages[0]?.error?.data).toMatchObject({ reason: 'overloaded', outcome: 'not_executed' });
    };
    for (let round = 0; round < 8; round++) {
      for (const server of ['modern', 'legacy'])
        await refused(modern.startCall(`${server}__say`, { text: 'no free descriptor' }));
      await refused(modern.startCall('local__echo', { text: 'no free descriptor' }));
    }
    for (const name of ['modern__say', 'legacy__say', 'local__echo']) {
      await refused(session.start('tools/call', { name, arguments: { text: 'no free descriptor' } }).exchange);
    }
    expect(rogue.posted.length).toBe(sent);
    // Requests that need no descriptor work.
    const list = await modern.request('tools/list');
    expect(list.result.tools.length).toBeGreaterThan(3);
    expect(JSON.stringify(list)).not.toContain('no free descriptor');
    limit(1_024);

    for (const server of ['modern', 'legacy']) expect(await say(server, 'again')).toBe('again');
    await eventually(
      () => echo('again'),
      (text) => text === 'again',
      3_000,
    );
    expect((await session.call('modern__say', { text: 'session' })).result.content[0].text).toBe('session');
    const late = await sse.request('tools/call', { name: 'modern__say', arguments: { text: 'sse' } }, 7);
    expect(late.result?.content[0]?.text).toBe('sse');
    sse.close();
  });

  test('calls that need more connections than are left: some are refused, none is sent twice, none is lost', async () => {
    await start(120);
    const clients = 70;
    const calls = Array.from({ length: clients }, (_, i) =>
      client().startCall('modern__hold', { text: `call ${i}`, ms: 1_000 }),
    );
    const ended = await Promise.all(calls.map(async (exchange) => ({ exchange, messages: await exchange.ended })));
    const done = ended.filter(({ messages }) => messages[0]?.result);
    const refused = ended.filter(({ exchange }) => exchange.status === 503);
    const closed = ended.filter(({ exchange }) => exchange.status === 0);
    console.log(`limit 120: ${done.length} served, ${refused.length} refused with 503, ${closed.length} not let in`);
    expect(done.length + refused.length + closed.length).toBe(clients);
    expect(done.length).toBeGreaterThan(10);
    for (const { messages } of refused)
      expect(messages[0]?.error?.data).toMatchObject({ reason: 'overloaded', outcome: 'not_executed' });
    const ran = rogue.posted.filter(({ params }) => /^call /.test(String(params?.arguments?.text)));
    expect(ran.length).toBe(done.length);
    expect(await say('modern', 'after')).toBe('after');
  });

  const many = rounds(20_000, 3_000);
  test(`${many} idle connections, as far as the machine allows: the gateway keeps serving`, async () => {
    const { hard } = limitsOf('self');
    const nofile = Math.min(hard, many + 10_000);
    await start(nofile, { limits: { connections: many + 1_000, connectionsPerAddress: many + 1_000 } });
    expect(await say('modern', 'before')).toBe('before');
    const before = memoryOf(gateway.pid);
    idle = new IdleClients(gateway.url, many, 4);
    let going = true;
    let worst = 0;
    let served = 0;
    const bystander = (async () => {
      for (; going; served++) {
        const began = performance.now();
        expect(await say('modern', `bystander ${served}`)).toBe(`bystander ${served}`);
        worst = Math.max(worst, performance.now() - began);
        await sleep(10);
      }
    })();
    await settled(idle, many);
    await sleep(1_000);
    const kept = idle.open;
    const rss = memoryOf(gateway.pid);
    going = false;
    await bystander;
    console.log(
      `${many} connections under a limit of ${nofile} descriptors: ${kept} kept idle, ${idle.closed} closed; ` +
        `memory ${before} -> ${rss} MiB (${Math.round(((rss - before) * 1024) / kept)} KiB each); ` +
        `${served} calls beside them, worst ${Math.round(worst)} ms`,
    );
    expect(kept).toBeGreaterThan(Math.min(many, Math.floor(nofile * 0.8) - 100) * 0.98);
    expect(served).toBeGreaterThan(20);
    expect(await say('legacy', 'still there')).toBe('still there');
    expect(await echo('still there')).toBe('still there');
    await idle.leave();
    await eventually(
      () => openIn(gateway.pid),
      (now) => now < 100,
      30_000,
    );
    expect(await say('modern', 'after')).toBe('after');
  });
});
