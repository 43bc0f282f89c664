import { mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { sleep } from '../../core/timing.js';
import { Child, type ChildOptions, type ExitInfo, type StdioCommand, stopAllChildren } from './child-process.js';
import { guard } from './guard-process.js';
import { StdioError } from './stdio-error.js';

const MAX_LINE = 4 * 1024 * 1024;
const folder = mkdtempSync(join(realpathSync(tmpdir()), 'parley-stdio-'));

const ECHO = `require('readline').createInterface({ input: process.stdin }).on('line', (l) => console.log(l));`;
const READY = `console.log('{"ready":' + process.pid + '}');`;

function node(code: string, more: Partial<StdioCommand> = {}): StdioCommand {
  return { command: process.execPath, args: ['-e', code], ...more };
}

function start(command: StdioCommand, options: Partial<ChildOptions> = {}) {
  const messages: string[] = [];
  const exits: ExitInfo[] = [];
  let drains = 0;
  const events = {
    message: (line: Buffer) => void messages.push(line.toString()),
    exit: (info: ExitInfo) => void exits.push(info),
    drain: () => void drains++,
  };
  const child = Child.start(command, events, { maxLine: MAX_LINE, ...options });
  return { child, messages, exits, drains: () => drains };
}

async function until(test: () => boolean): Promise<void> {
  const end = Date.now() + 20_000;
  while (!test()) {
    if (Date.now() > end) throw new Error(`timed out waiting for: ${test}`);
    await sleep(10);
  }
}

/** A zombie does not count as running. */
function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  if (process.platform !== 'linux') return true;
  try {
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'latin1'));
  } catch {
    return false;
  }
}

function startError(command: StdioCommand): StdioError {
  try {
    start(command);
  } catch (error) {
    if (error instanceof StdioError) return error;
    throw error;
  }
  throw new Error('the command started');
}

afterEach(async () => {
  await stopAllChildren();
});

afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

describe('Child: messages', () => {
  it('sends and receives one message per line', async () => {
    const { child, messages, exits } = start(node(ECHO));
    expect(child.alive).toBe(true);
    expect(isRunning(child.pid)).toBe(true);
    child.send('{"id":1}');
    child.send(Buffer.from('{"id":2,"text":"ü€😀"}'));
    await until(() => messages.length === 2);
    expect(messages).toEqual(['{"id":1}', '{"id":2,"text":"ü€😀"}']);
    const info = await child.stop();
    expect(info).toMatchObject({ code: 0, signal: null, expected: true });
    expect(exits).toEqual([info]);
    expect(child.alive).toBe(false);
  });

  it('STD-01: a message with raw line breaks goes out as one line', async () => {
    const { child, messages } = start(node(ECHO));
    child.send(JSON.stringify({ id: 1, params: { a: [1, 2] } }, null, 2));
    child.send(Buffer.from('{\r\n"id":2}'));
    await until(() => messages.length === 2);
    expect(messages.map((m) => JSON.parse(m))).toEqual([{ id: 1, params: { a: [1, 2] } }, { id: 2 }]);
  });

  it('keeps order and content over many and large messages, both ways', async () => {
    const { child, messages, drains } = start(node('process.stdin.pipe(process.stdout)'));
    const sent: string[] = [];
    let waited = false;
    for (let id = 0; id < 300; id++) {
      const text = JSON.stringify({ id, text: 'x'.repeat(id % 10 === 0 ? 200_000 : 50) });
      sent.push(text);
      if (!child.send(id % 2 === 0 ? text : Buffer.from(text))) waited = true;
    }
    await until(() => messages.length === 300);
    expect(messages).toEqual(sent);
    expect(waited).toBe(true);
    expect(drains()).toBeGreaterThan(0);
  });

  it('limits the queue for a child that does not read', async () => {
    const { child } = start(node('setInterval(() => {}, 1000)'), {
      maxQueue: 1_000_000,
      grace: { eofMs: 10, termMs: 500 },
    });
    const message = `{"text":"${'x'.repeat(100_000)}"}`;
    const fill = () => {
      for (let i = 0; i < 50; i++) child.send(message);
    };
    expect(fill).toThrow(expect.objectContaining({ reason: 'busy' }));
    expect(child.alive).toBe(true);
  });

  it('counts and skips lines that are not messages, and continues', async () => {
    const garbage = `console.log('Listening...\\n[info] [x]\\n\\u0000\\u0001\\n\\n{half'); console.log('\\ufeff{"a":1}\\r');`;
    const { child, messages } = start(node(garbage + ECHO));
    child.send('{"id":1}');
    await until(() => messages.length === 2);
    expect(messages).toEqual(['{"a":1}', '{"id":1}']);
    expect(child.badLines).toBe(4);
    child.countBadLine();
    expect(child.badLines).toBe(5);
  });

  it('skips a line over the limit and continues', async () => {
    const { child, messages } = start(node(`console.log('{"a":"' + 'x'.repeat(5000) + '"}'); console.log('{"b":1}')`), {
      maxLine: 1000,
    });
    await until(() => messages.length === 1);
    expect(messages).toEqual(['{"b":1}']);
    expect([child.badLines, child.longLines]).toEqual([1, 1]);
  });

  it('keeps the last 64 kB of stderr', async () => {
    const { child } = start(node(`for (let i = 0; i < 20000; i++) console.error('line ' + i + ' é');`));
    await until(() => child.stderrTail.endsWith('line 19999 é\n'));
    const tail = child.stderrTail;
    expect(Buffer.byteLength(tail)).toBeLessThanOrEqual(65_536);
    expect(Buffer.byteLength(tail)).toBeGreaterThan(65_000);
    expect(tail).not.toContain('\ufffd');
  });

  it('survives a listener that throws', async () => {
    let seen = 0;
    const events = {
      message: () => {
        seen++;
        throw new Error('listener');
      },
      exit: () => {},
    };
    const child = Child.start(node(ECHO), events, { maxLine: MAX_LINE });
    child.send('{"id":1}');
    child.send('{"id":2}');
    await until(() => seen === 2);
  });
});

describe('Child: environment', () => {
  it('S1: inherits only the listed variables, and gets the configured ones', async () => {
    process.env['PARLEY_TEST_SECRET'] = 'secret';
    process.env['HTTPS_PROXY'] = 'http://user:pass@proxy';
    try {
      const show = node(`console.log(JSON.stringify(process.env))`, { env: { OWN: 'mine', LANG: 'xx' } });
      const { messages } = start(show);
      await until(() => messages.length === 1);
      const env = JSON.parse(messages[0] ?? '') as Record<string, string>;
      const allowed = 'PATH HOME USER LOGNAME SHELL LANG LC_ALL LC_CTYPE TERM TMPDIR TZ OWN PARLEY_CHILD'.split(' ');
      // macOS adds this variable to every process.
      expect(Object.keys(env).filter((name) => !allowed.includes(name) && !name.startsWith('__CF'))).toEqual([]);
      expect(env).toMatchObject({ PATH: process.env['PATH'], OWN: 'mine', LANG: 'xx' });
    } finally {
      delete process.env['PARLEY_TEST_SECRET'];
      delete process.env['HTTPS_PROXY'];
    }
  });

  it('S1: no shell interprets the arguments', async () => {
    const args = [
      '-e',
      'console.log(JSON.stringify({ args: process.argv.slice(1) }))',
      '--',
      '$(id)',
      '; rm x',
      '*',
      '`a`',
    ];
    const { messages } = start({ command: process.execPath, args });
    await until(() => messages.length === 1);
    expect(JSON.parse(messages[0] ?? '')).toEqual({ args: ['$(id)', '; rm x', '*', '`a`'] });
  });

  it('runs in the given directory', async () => {
    const { messages } = start(node('console.log(JSON.stringify({ cwd: process.cwd() }))', { cwd: folder }));
    await until(() => messages.length === 1);
    expect(JSON.parse(messages[0] ?? '')).toEqual({ cwd: folder });
  });

  it('explains why a command cannot start', () => {
    const plain = join(folder, 'plain.txt');
    writeFileSync(plain, 'hello');
    const missing = startError({ command: 'no-such-command-x' });
    expect(missing.reason).toBe('not_found');
    expect(missing.message).toMatch(/"no-such-command-x".*not on the PATH; install it/);
    expect(startError({ command: '/no/such/file' })).toMatchObject({
      reason: 'not_found',
      message: expect.stringMatching(/"\/no\/such\/file".*correct the path/),
    });
    expect(startError({ command: './nothing', cwd: folder }).reason).toBe('not_found');
    expect(startError(node('', { cwd: '/no/such/folder' }))).toMatchObject({
      reason: 'bad_cwd',
      message: expect.stringMatching(/"\/no\/such\/folder" does not exist.*`cwd`/),
    });
    expect(startError({ command: process.execPath, cwd: plain }).reason).toBe('bad_cwd');
    expect(startError({ command: plain })).toMatchObject({
      reason: 'not_executable',
      message: expect.stringContaining('chmod +x'),
    });
    expect(startError({ command: '' }).reason).toBe('invalid');
    expect(startError(node('', { env: { A: 'nul\0' } })).reason).toBe('invalid');
    const script = join(folder, 'script');
    writeFileSync(script, '#!/no/such/interpreter\n', { mode: 0o755 });
    expect(startError({ command: script })).toMatchObject({
      reason: 'resources',
      message: expect.stringContaining('interpreter'),
    });
  });
});

describe('Child: ending', () => {
  it('reports an unexpected exit after all messages', async () => {
    const { child, messages, exits } = start(
      node(`console.log('{"a":1}'); process.stdout.write('{"b":2}'); process.exitCode = 3`),
    );
    await until(() => exits.length === 1);
    expect(messages).toEqual(['{"a":1}', '{"b":2}']);
    expect(exits[0]).toMatchObject({ code: 3, signal: null, expected: false });
    expect(child.alive).toBe(false);
    expect(() => child.send('{}')).toThrow(expect.objectContaining({ reason: 'closed' }));
    expect(await child.stop()).toBe(exits[0]);
  });

  it('loses no message that was sent just before the exit', async () => {
    const { messages, exits } = start(
      node(`for (let id = 0; id < 3000; id++) console.log(JSON.stringify({ id, text: 'x'.repeat(300) }))`),
    );
    await until(() => exits.length === 1);
    expect(messages.map((message) => JSON.parse(message).id)).toEqual(Array.from({ length: 3000 }, (_, id) => id));
  });

  it('never delivers a partial message', async () => {
    const { child, messages, exits } = start(node(`process.stdout.write('{"a":{"b":2}'); process.exitCode = 1`));
    await until(() => exits.length === 1);
    expect(messages).toEqual([]);
    expect(child.badLines).toBe(1);
  });

  it('reports a signal', async () => {
    const { child, exits } = start(node(ECHO));
    process.kill(child.pid, 'SIGKILL');
    await until(() => exits.length === 1);
    expect(exits[0]).toMatchObject({ code: null, signal: 'SIGKILL', expected: false });
  });

  it('STD-07: end of stdin first', async () => {
    const { child, messages } = start(node(`${READY} process.stdin.resume().on('end', () => process.exit(7))`));
    await until(() => messages.length === 1);
    expect(await child.stop()).toMatchObject({ code: 7, signal: null });
  });

  it('STD-07: then SIGTERM', async () => {
    const { child, messages } = start(
      node(`${READY} process.on('SIGTERM', () => process.exit(8)); setInterval(() => {}, 1000)`),
      {
        grace: { eofMs: 100, termMs: 5000 },
      },
    );
    await until(() => messages.length === 1);
    expect(await child.stop()).toMatchObject({ code: 8, signal: null });
  });

  it('STD-07: then SIGKILL, with the default pauses', async () => {
    const { child, messages } = start(node(`process.on('SIGTERM', () => {}); setInterval(() => {}, 1000); ${READY}`));
    await until(() => messages.length === 1);
    const before = performance.now();
    const [one, two] = await Promise.all([child.stop(), child.stop()]);
    expect(one).toMatchObject({ code: null, signal: 'SIGKILL', expected: true });
    expect(two).toBe(one);
    expect(performance.now() - before).toBeGreaterThan(6900);
    expect(isRunning(child.pid)).toBe(false);
  }, 20_000);

  const GRANDCHILDREN = `
    const { spawn } = require('child_process');
    const stubborn = "process.on('SIGTERM', () => {}); setInterval(() => {}, 1000); console.log('up')";
    const pids = [];
    const one = spawn(process.execPath, ['-e', stubborn], { stdio: ['ignore', 'pipe', 'ignore'] });
    const two = spawn('sleep', ['1000'], { stdio: 'inherit' });
    one.stdout.once('data', () => console.log(JSON.stringify([{ pids: [one.pid, two.pid] }])));
  `;

  it('ends the whole group', async () => {
    const { child, messages } = start(node(GRANDCHILDREN), { grace: { eofMs: 200, termMs: 300 } });
    await until(() => messages.length === 1);
    const [{ pids }] = JSON.parse(messages[0] ?? '') as [{ pids: number[] }];
    expect(pids.map(isRunning)).toEqual([true, true]);
    await child.stop();
    expect([child.pid, ...pids].map(isRunning)).toEqual([false, false, false]);
  });

  it('ends the group also after an unexpected exit, and reports the exit without waiting', async () => {
    const { child, messages, exits } = start(node(GRANDCHILDREN), { grace: { eofMs: 200, termMs: 1500 } });
    await until(() => messages.length === 1);
    const [{ pids }] = JSON.parse(messages[0] ?? '') as [{ pids: number[] }];
    process.kill(child.pid, 'SIGKILL');
    await until(() => exits.length === 1);
    // `one` ignores SIGTERM and has a second and a half: the exit is reported before.
    expect(isRunning(pids[0] ?? 0)).toBe(true);
    await child.stop();
    expect(pids.map(isRunning)).toEqual([false, false]);
  });

  it('lets the server behind a launcher finish its work after SIGTERM', async () => {
    const mark = join(folder, 'finished');
    const server = `process.on('SIGTERM', () => setTimeout(() => { require('fs').writeFileSync(${JSON.stringify(mark)}, 'done'); process.exit(0) }, 400)); setInterval(() => {}, 1000); console.log('{"up":1}')`;
    const launcher = `require('child_process').spawn(process.execPath, ['-e', ${JSON.stringify(server)}], { stdio: 'inherit' })`;
    const { child, messages } = start(node(launcher), { grace: { eofMs: 100, termMs: 5000 } });
    await until(() => messages.length === 1);
    await child.stop();
    expect(readFileSync(mark, 'utf8')).toBe('done');
  });

  it.each([
    ['stdout', `require('fs').closeSync(1);`],
    ['stdin', `require('fs').closeSync(0);`],
  ])('ends a child that closed its %s', async (_, code) => {
    const { child, exits } = start(node(`setInterval(() => {}, 1000); ${code}`), {
      grace: { eofMs: 200, termMs: 1000 },
    });
    const poke = setInterval(() => child.alive && child.send('{"id":1}'), 20);
    await until(() => exits.length === 1);
    clearInterval(poke);
    expect(exits[0]?.expected).toBe(false);
    expect(isRunning(child.pid)).toBe(false);
  });

  it('finds processes outside the group by their tag', async () => {
    const code = `const c = require('child_process').spawn('sleep', ['1000'], { detached: true, stdio: 'ignore' }); c.unref(); console.log(JSON.stringify({ pid: c.pid })); ${ECHO}`;
    const { child, messages } = start(node(code));
    await until(() => messages.length === 1);
    const { pid } = JSON.parse(messages[0] ?? '') as { pid: number };
    expect(isRunning(pid)).toBe(true);
    await child.stop();
    if (process.platform === 'linux') await until(() => !isRunning(pid));
    else process.kill(pid, 'SIGKILL');
  });

  it('does not end processes that another child left running', async () => {
    const first = start(node(ECHO));
    const second = start(node(`${READY}${ECHO}`));
    await until(() => second.messages.length === 1);
    await first.child.stop();
    await sleep(400);
    expect(isRunning(second.child.pid)).toBe(true);
    second.child.send('{"still":1}');
    await until(() => second.messages.length === 2);
  });

  it('replaces a guard that was killed', async () => {
    start(node(ECHO));
    const before = guard.pid ?? 0;
    process.kill(before, 'SIGKILL');
    await until(() => guard.pid !== undefined && guard.pid !== before);
    expect(isRunning(guard.pid ?? 0)).toBe(true);
  });

  it('leaks no descriptors in 40 starts and stops', async () => {
    const open = () => process.getActiveResourcesInfo().filter((kind) => /Pipe|Process|Socket/.test(kind)).length;
    await start({ command: 'cat' }).child.stop();
    const before = open();
    for (let round = 0; round < 4; round++) {
      const children = Array.from({ length: 10 }, () => start({ command: 'cat' }).child);
      await Promise.all(children.map((child) => child.stop()));
      for (const child of children) expect(isRunning(child.pid)).toBe(false);
    }
    await until(() => open() <= before);
  });
});
