/**
 * Tests from outside of the gateway's process: its memory while children flood it, and the processes left after it is
 * killed. A small gateway, made of the compiled stdio folder, runs in a separate process.
 */

import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { sleep } from '../../core/timing.js';

const root = join(import.meta.dirname, '../../..');
const folder = mkdtempSync(join(realpathSync(tmpdir()), 'parley-compiled-'));
const started: ChildProcess[] = [];
const MB = 1024 * 1024;

beforeAll(async () => {
  const tsc = join(root, 'node_modules/typescript/bin/tsc');
  const options = '--ignoreConfig --module nodenext --target es2023 --lib es2023 --types node --skipLibCheck --strict';
  const source = join(root, 'src/outbound/stdio/supervisor.ts');
  const where = ['--rootDir', join(root, 'src'), '--outDir', folder];
  await promisify(execFile)(process.execPath, [tsc, ...options.split(' '), ...where, source], { cwd: root });
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  writeFileSync(join(folder, 'gateway.js'), GATEWAY);
}, 60_000);

afterEach(() => {
  for (const child of started.splice(0)) child.kill('SIGKILL');
});

afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** Starts one child per argument. Reports their messages and exits, one JSON text per line. */
const GATEWAY = `
import { Child } from './outbound/stdio/child-process.js';
import { guard } from './outbound/stdio/guard-process.js';
const say = (fact) => process.stdout.write(JSON.stringify(fact) + '\\n');
const before = process.resourceUsage().maxRSS;
for (const code of process.argv.slice(2)) {
  const events = {
    message: (line) => line.length < 1000 && say(JSON.parse(line.toString())),
    exit: (info) => {
      const grownBytes = (process.resourceUsage().maxRSS - before) * 1024;
      say({ exit: info.code, grownBytes, badLines: child.badLines, tail: child.stderrTail.length });
    },
  };
  const child = Child.start({ command: process.execPath, args: ['-e', code] }, events, { maxLine: 4194304 });
  say({ pid: child.pid });
}
say({ guard: guard.pid });
process.on('message', (how) => { if (how === 'exit') process.exit(0); if (how === 'throw') throw new Error('thrown'); });
process.channel.unref();
`;

interface Fact {
  pid?: number;
  pids?: number[];
  guard?: number;
  exit?: number;
  grownBytes?: number;
  badLines?: number;
  tail?: number;
  done?: boolean;
}

function gateway(...codes: string[]): { process: ChildProcess; facts: Fact[] } {
  const child = spawn(process.execPath, [join(folder, 'gateway.js'), ...codes], {
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  });
  started.push(child);
  const facts: Fact[] = [];
  let text = '';
  child.stdout?.setEncoding('utf8').on('data', (chunk: string) => {
    const lines = (text + chunk).split('\n');
    text = lines.pop() ?? '';
    for (const line of lines) facts.push(JSON.parse(line) as Fact);
  });
  child.stderr?.resume();
  return { process: child, facts };
}

/** Long, because other tests may occupy all processors meanwhile. */
const PATIENCE = 100_000;

async function until(test: () => boolean): Promise<void> {
  const end = Date.now() + PATIENCE;
  while (!test()) {
    if (Date.now() > end) throw new Error(`timed out waiting for: ${test}`);
    await sleep(20);
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    // A zombie does not count.
    return process.platform !== 'linux' || !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'latin1'));
  } catch {
    return false;
  }
}

/** Writes a buffer at once. What `console.log` writes to a full pipe comes after later writes to the descriptor. */
const writeAll = (fd: number, name: string) =>
  `for (let at = 0; at < ${name}.length; ) try { at += require('fs').writeSync(${fd}, ${name}, at) } catch {}`;
const write = (fd: number, megabytes: number) => `
  const block = Buffer.alloc(${MB}, 'x');
  for (let i = 0; i < ${megabytes}; i++) ${writeAll(fd, 'block')}
`;

describe('memory', { timeout: 1.2 * PATIENCE }, () => {
  // Uncollected garbage of the streams takes about 40 MB up to Node 22, and 80 MB in Node 24. It must not grow with the
  // amount of output.
  const LIMIT = 96 * MB;

  it('of 100 MB on stderr, 64 kB are kept', async () => {
    const { facts } = gateway(`${write(2, 100)} console.log('{"done":true}')`);
    await until(() => facts.some((fact) => fact.exit !== undefined));
    expect(facts.some((fact) => fact.done)).toBe(true);
    expect(facts.at(-1)).toMatchObject({ exit: 0, tail: 65_536 });
    expect(facts.at(-1)?.grownBytes).toBeLessThan(LIMIT);
  });

  it('a line of 50 MB, and one of 150 MB without an end, are skipped', async () => {
    const done = `const done = Buffer.from('\\n{"done":true}\\n'); ${writeAll(1, 'done')}`;
    const code = `${write(1, 50)} ${done} { ${write(1, 150)} }`;
    const { facts } = gateway(code);
    await until(() => facts.some((fact) => fact.exit !== undefined));
    expect(facts.some((fact) => fact.done)).toBe(true);
    expect(facts.at(-1)).toMatchObject({ exit: 0, badLines: 2 });
    expect(facts.at(-1)?.grownBytes).toBeLessThan(LIMIT);
  });

  it('50 MB of garbage lines and empty lines are counted and not kept', async () => {
    const code = `
      const fs = require('fs');
      const garbage = Buffer.from('not a message, just words to skip\\n\\n'.repeat(30000));
      for (let i = 0; i < 50; i++) for (let at = 0; at < garbage.length; ) try { at += fs.writeSync(1, garbage, at) } catch {}
      console.log('{"done":true}');
    `;
    const { facts } = gateway(code);
    await until(() => facts.some((fact) => fact.exit !== undefined));
    expect(facts.some((fact) => fact.done)).toBe(true);
    expect(facts.at(-1)).toMatchObject({ exit: 0, badLines: 1_500_000 });
    expect(facts.at(-1)?.grownBytes).toBeLessThan(LIMIT);
  });
});

describe('no child outlives the gateway', () => {
  const mark = `mark-${randomUUID()}`;
  const marked = () =>
    execFileSync('ps', ['-axww', '-o', 'stat=,args='], { encoding: 'utf8', maxBuffer: 64 * MB })
      .split('\n')
      .filter((line) => line.includes(mark) && !line.startsWith('Z'));

  /** A program that ignores all signals it can ignore and starts a child that does the same. */
  const stubborn = (options: string) => `
    // ${mark}
    process.stdin.resume(); process.on('SIGTERM', () => {}); process.on('SIGHUP', () => {}); process.on('SIGINT', () => {});
    setInterval(() => {}, 1000);
    const inner = "/* ${mark} */ process.on('SIGTERM', () => {}); process.on('SIGHUP', () => {}); setInterval(() => {}, 1000); process.send(1)";
    const child = require('child_process').spawn(process.execPath, ['-e', inner], { stdio: ['ignore', 'ignore', 'ignore', 'ipc'], ${options} });
    child.once('message', () => console.log(JSON.stringify({ pids: [process.pid, child.pid] })));
  `;
  const polite = `/* ${mark} */ process.stdin.resume(); console.log(JSON.stringify({ pids: [process.pid] }))`;
  const codes = [stubborn(''), stubborn(''), polite];
  // Only on Linux can the guard recognise a process that left its group.
  if (process.platform === 'linux') codes.push(stubborn('detached: true'));

  async function running() {
    const { process: parent, facts } = gateway(...codes);
    await until(() => facts.filter((fact) => fact.pids).length === codes.length);
    const pids = facts.flatMap((fact) => fact.pids ?? []);
    const guard = facts.find((fact) => fact.guard)?.guard ?? 0;
    expect(pids.filter(isRunning)).toEqual(pids);
    expect(isRunning(guard)).toBe(true);
    return { parent, pids, guard };
  }

  it('after kill -9, and the guard ends too', async () => {
    const { parent, pids, guard } = await running();
    parent.kill('SIGKILL');
    await until(() => pids.every((pid) => !isRunning(pid)));
    await until(() => !isRunning(guard));
    expect(marked()).toEqual([]);
  }, 30_000);

  it('after kill -9 at any moment of its start', async () => {
    const deaths = [0, 1, 3, 10, 30].map(async (delay) => {
      const { process: parent, facts } = gateway(...codes);
      await once(parent.stdout as Readable, 'data');
      setTimeout(() => parent.kill('SIGKILL'), delay);
      await once(parent, 'exit');
      return facts.length;
    });
    expect(Math.min(...(await Promise.all(deaths)))).toBeGreaterThan(0);
    await sleep(300);
    await until(() => marked().length === 0);
  }, 30_000);

  it.each(['exit', 'throw'])(
    'after process.%s without stopping its children',
    async (how) => {
      const { parent, pids, guard } = await running();
      parent.send(how);
      await until(() => pids.every((pid) => !isRunning(pid)));
      await until(() => !isRunning(guard));
    },
    30_000,
  );

  it('after a signal to all processes, including the guard', async () => {
    const { parent, pids, guard } = await running();
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.kill(guard, signal);
    parent.kill('SIGTERM');
    await until(() => pids.every((pid) => !isRunning(pid)));
    await until(() => !isRunning(guard));
  }, 30_000);

  it('and neither the guard nor the children keep an idle gateway running', async () => {
    const { process: parent, facts } = gateway('');
    expect(await once(parent, 'exit')).toEqual([0, null]);
    expect(facts.at(-1)?.exit).toBe(0);
    await until(() => facts.every((fact) => fact.guard === undefined || !isRunning(fact.guard)));
  });
});
