/** Stdio servers that fail in many ways (case 22). */
import { readFileSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { textOf } from '../input/support/message.js';
import { modern, modernCall, Session } from '../input/support/speak.js';
import { eventually, type Reply } from '../input/support/wire.js';
import { startWorld, type World } from '../input/support/world.js';
import { ROGUE_PROGRAM } from './rogue-program.js';

/** Callers with a token do not see the details that operators see (S25). */
const TOKEN = 'c1f0e2d3b4a5968778695a4b3c2d1e0f';
const as = { authorization: `Bearer ${TOKEN}` };

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
  await writeFile(file, ROGUE_PROGRAM);
  const server = (name: string, how = ''): object => ({
    command: process.execPath,
    args: [file, starts(name), how],
    revision: 'legacy',
  });
  world = await startWorld(
    {
      timeouts: { call: '20s' },
      auth: { tokens: [{ name: 'ada', token: TOKEN }] },
      servers: {
        rogue: server('rogue'),
        probed: { ...server('probed'), revision: 'auto' },
        dies: server('dies', 'dies'),
        stubborn: server('stubborn', 'stubborn'),
        missing: { command: join(folder, 'no-such-program'), revision: 'legacy' },
      },
    },
    { bystander: as },
  );
});
afterAll(async () => {
  await world?.close();
  await rm(folder, { recursive: true, force: true });
});
afterEach(() => world.wellBehaved());

const call = (tool: string, args: object = {}, server = 'rogue'): Promise<Reply> =>
  modernCall(world.mcp, `${server}__${tool}`, args, { id: 'one', headers: as });

describe('case 22: stdio servers', () => {
  it.each(['die', 'kill', 'half-line'])(
    'case 22: %s: the call under way fails once, outcome unknown, and the server is restarted',
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

  it('case 22: other calls to the same process fail too, each once', async () => {
    const session = await Session.open(world.mcp, '2025-06-18', as);
    const [one, two] = await Promise.all([call('noise'), session.call('rogue__die', {}, 'two')]);
    expect(two.json.error).toMatchObject({ code: -32603, data: { outcome: 'unknown' } });
    expect(one.json).toHaveProperty('id', 'one');
    expect(textOf((await call('fine')).json)).toBe('fine');
  });

  it('case 22: 100 MB on stderr are read and dropped', async () => {
    const before = world.memory();
    expect(textOf((await call('noise')).json)).toBe('noisy');
    expect(world.memory() - before).toBeLessThan(64);
    expect(world.gateway.log().length).toBeLessThanOrEqual(200_000);
  });

  it('case 22: lines on stdout that are not JSON-RPC are skipped', async () => {
    expect(textOf((await call('chatter')).json)).toBe('chatty');
    expect(textOf((await call('fine')).json)).toBe('fine');
  });

  it('case 22: a line over the limit is skipped, and the following lines are read', async () => {
    const reply = await call('long-line');
    expect(textOf(reply.json)).toBe('after the long line');
  });

  it('case 20 case 22: answers with unknown ids are dropped', async () => {
    const reply = await call('wrong-id');
    expect(textOf(reply.json)).toBe('yours');
    expect(textOf((await call('fine', { text: 'next' })).json)).toBe('next');
  });

  it('case 22: a server whose era is probed first behaves in the same way', async () => {
    expect(textOf((await call('fine', { text: 'probed' }, 'probed')).json)).toBe('probed');
    expect((await call('die', {}, 'probed')).json.error.data.outcome).toBe('unknown');
  });

  it('case 22: a missing program is not_executed, and its path is not shown', async () => {
    const reply = await call('anything', {}, 'missing');
    expect(reply.json.error).toMatchObject({
      code: -32603,
      data: { reason: 'upstream_unavailable', outcome: 'not_executed' },
    });
    expect(reply.body).not.toContain('no-such-program');
  });

  it('case 22: a process that dies at each start is restarted with growing pauses, then given up; others are listed', async () => {
    const deadline = Date.now() + 6_000;
    while (Date.now() < deadline) {
      const reply = await call('anything', {}, 'dies');
      expect(reply.json.error).toMatchObject({
        code: -32603,
        data: { reason: 'upstream_unavailable', outcome: 'not_executed' },
      });
      expect(reply.body).not.toMatch(/srv|secret/);
    }
    // The pauses between the first starts are 1, 2, 4 and 8 seconds, plus or minus 20 %, for any number of calls.
    expect((await startsOf('dies')).length).toBeLessThanOrEqual(6);
    const listed = await modern(world.mcp, 'tools/list', {}, { headers: as });
    expect(listed.json.result.tools.map(({ name }) => name)).toContain('rogue__fine');
  });

  it('case 22: a process that ignores the end of its input and SIGTERM is killed, and no child outlives the gateway', async () => {
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
