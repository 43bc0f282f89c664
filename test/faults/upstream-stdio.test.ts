/** Servers on pipes that fail in every way they can (case 22). */
import { readFileSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { textOf } from '../input/support/message.js';
import { modern, modernCall, Session } from '../input/support/speak.js';
import { eventually, type Reply } from '../input/support/wire.js';
import { startWorld, type World } from '../input/support/world.js';

/** Behaves until one of its tools is called. Arguments: the file to note its starts in, then the way to start. */
const SERVER = `
import { appendFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
const [starts, how] = process.argv.slice(2);
appendFileSync(starts, process.pid + '\\n');
if (how === 'dies') { process.stderr.write('cannot open /srv/secret/config.json\\n'); process.exit(3); }
if (how === 'stubborn') { process.on('SIGTERM', () => {}); process.stdin.on('end', () => {}); setInterval(() => {}, 1000); }
const say = (message) => process.stdout.write(JSON.stringify(message) + '\\n');
const tools = ['fine', 'die', 'kill', 'noise', 'chatter', 'long-line', 'half-line', 'wrong-id'].map((name) => ({ name, inputSchema: { type: 'object' } }));
const answer = (id, text) => say({ jsonrpc: '2.0', id, result: { content: [{ type: 'text', text }] } });
const called = {
  fine: (id, args) => answer(id, args.text ?? 'fine'),
  die: () => process.exit(7),
  kill: () => process.kill(process.pid, 'SIGKILL'),
  noise: async (id) => {
    const line = 'n'.repeat(1023) + '\\n';
    for (let i = 0; i < 1600; i++) if (!process.stderr.write(line.repeat(64))) await new Promise((resolve) => process.stderr.once('drain', resolve));
    answer(id, 'noisy');
  },
  chatter: (id) => {
    process.stdout.write('Server started!\\n\\n   \\n{"half": \\n[1,2\\n<html>\\n"text"\\n42\\nnull\\n{}\\n\\u0000\\u0001\\n{"jsonrpc":"2.0"}\\n{"jsonrpc":"2.0","id":"x"}\\n');
    answer(id, 'chatty');
  },
  'long-line': (id) => { process.stdout.write('x'.repeat(6 * 1024 * 1024) + '\\n'); answer(id, 'after the long line'); },
  'half-line': () => { process.stdout.write('{"jsonrpc":"2.0","id":'); setTimeout(() => process.exit(0), 50); },
  'wrong-id': (id) => { answer('nobody', 'not yours'); answer(id + 1, 'not yours'); answer(id, 'yours'); answer(id, 'again'); },
};
createInterface(process.stdin).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined || method === undefined) return;
  if (method === 'initialize') say({ jsonrpc: '2.0', id, result: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'rogue', version: '1' } } });
  else if (method === 'tools/list') say({ jsonrpc: '2.0', id, result: { tools } });
  else if (method === 'tools/call') called[params.name](id, params.arguments ?? {});
  else say({ jsonrpc: '2.0', id, error: { code: -32601, message: 'Method not found' } });
});
`;

let folder: string;
let world: World;
const starts = (name: string): string => join(folder, `${name}.starts`);
const startsOf = async (name: string): Promise<number[]> =>
  (await readFile(starts(name), 'utf8').catch(() => '')).split('\n').filter(Boolean).map(Number);

const alive = (pid: number): boolean => {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
};

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'parley-rogue-'));
  const file = join(folder, 'rogue.mjs');
  await writeFile(file, SERVER);
  const server = (name: string, how = ''): object => ({
    command: process.execPath,
    args: [file, starts(name), how],
    revision: 'legacy',
  });
  world = await startWorld({
    timeouts: { call: '20s' },
    servers: {
      rogue: server('rogue'),
      probed: { ...server('probed'), revision: 'auto' },
      dies: server('dies', 'dies'),
      stubborn: server('stubborn', 'stubborn'),
      missing: { command: join(folder, 'no-such-program'), revision: 'legacy' },
    },
  });
});
afterAll(async () => {
  await world?.close();
  await rm(folder, { recursive: true, force: true });
});
afterEach(() => world.wellBehaved());

const call = (tool: string, args: object = {}, server = 'rogue'): Promise<Reply> =>
  modernCall(world.mcp, `${server}__${tool}`, args, { id: 'one' });

describe('case 22: stdio servers', () => {
  it.each(['die', 'kill', 'half-line'])(
    'case 22: %s: the call under way is told once, unknown, and the server is started again',
    async (tool) => {
      const reply = await call(tool);
      expect(reply.json).toMatchObject({
        id: 'one',
        error: { code: -32603, data: { reason: 'upstream_error', outcome: 'unknown' } },
      });
      expect(reply.body).not.toContain(folder);
      // The next call waits for the new process instead of failing.
      expect(textOf((await call('fine', { text: `after ${tool}` })).json)).toBe(`after ${tool}`);
    },
  );

  it('case 22: others who were waiting on the same process are told too, each once', async () => {
    const session = await Session.open(world.mcp, '2025-06-18');
    const [one, two] = await Promise.all([call('noise'), session.call('rogue__die', {}, 'two')]);
    expect(two.json.error).toMatchObject({ code: -32603, data: { outcome: 'unknown' } });
    expect(one.json).toHaveProperty('id', 'one');
    expect(textOf((await call('fine')).json)).toBe('fine');
  });

  it('case 22: 100 MB on stderr are read and forgotten', async () => {
    const before = world.memory();
    expect(textOf((await call('noise')).json)).toBe('noisy');
    expect(world.memory() - before).toBeLessThan(64);
    expect(world.gateway.log().length).toBeLessThanOrEqual(200_000);
  });

  it('case 22: lines on stdout that are not JSON-RPC are skipped', async () => {
    expect(textOf((await call('chatter')).json)).toBe('chatty');
    expect(textOf((await call('fine')).json)).toBe('fine');
  });

  it('case 22: a line over the limit is skipped, and what follows is read', async () => {
    const reply = await call('long-line');
    expect(textOf(reply.json)).toBe('after the long line');
  });

  it('case 20 case 22: answers to nobody are dropped', async () => {
    const reply = await call('wrong-id');
    expect(textOf(reply.json)).toBe('yours');
    expect(textOf((await call('fine', { text: 'next' })).json)).toBe('next');
  });

  it('case 22: a server that is probed first behaves the same', async () => {
    expect(textOf((await call('fine', { text: 'probed' }, 'probed')).json)).toBe('probed');
    expect((await call('die', {}, 'probed')).json.error.data.outcome).toBe('unknown');
  });

  it('case 22: a program that is not there is not_executed, and its path is not told', async () => {
    const reply = await call('anything', {}, 'missing');
    expect(reply.json.error).toMatchObject({
      code: -32603,
      data: { reason: 'upstream_unavailable', outcome: 'not_executed' },
    });
    expect(reply.body).not.toContain('no-such-program');
  });

  it('case 22: one that dies at each start is started ever more rarely, then given up; the others are listed', async () => {
    const deadline = Date.now() + 6_000;
    while (Date.now() < deadline) {
      const reply = await call('anything', {}, 'dies');
      expect(reply.json.error).toMatchObject({
        code: -32603,
        data: { reason: 'upstream_unavailable', outcome: 'not_executed' },
      });
      expect(reply.body).not.toMatch(/srv|secret/);
    }
    // 1, 2, 4 and 8 seconds lie between the first starts, give or take a fifth, whoever asks.
    expect((await startsOf('dies')).length).toBeLessThanOrEqual(6);
    const listed = await modern(world.mcp, 'tools/list');
    expect(listed.json.result.tools.map(({ name }) => name)).toContain('rogue__fine');
  });

  it('case 22: one that ignores the end of its input and SIGTERM is killed, and no child outlives the gateway', async () => {
    expect(textOf((await call('fine', { text: 'here' }, 'stubborn')).json)).toBe('here');
    const pids = [...(await startsOf('stubborn')), ...(await startsOf('rogue')), ...(await startsOf('probed'))];
    expect(pids.some(alive)).toBe(true);
    const other = world;
    await other.wellBehaved();
    const exit = await other.gateway.close();
    expect(exit).toBe(0);
    await eventually(
      () => pids.filter(alive),
      (left) => left.length === 0,
    );
    await other.close();
    world = await startWorld();
  });
});
