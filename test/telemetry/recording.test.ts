/** Recordings of a real gateway, and their replay at another version of a server. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { main } from '../../src/cli/main.js';
import { ModernClient } from '../era-bridge/support/clients.js';
import { BIN, type RunningGateway, startGateway } from '../support/gateway.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const [ADMIN, ADA] = ['61646d696e61646d696e61646d696e31', '61646161646161646161646161646131'];
const SECRET = 'hush-5e0c8c1f';
const TIMES = { time: '2026-07-28T09:00:00Z', timeZones: ['Europe/Rome'] };

let folder: string;
let gateway: RunningGateway;

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'parley-recording-'));
  // The next version of the server, which formats dates in another way.
  const clock = await readFile(path.join(ROOT, 'examples/clock.mjs'), 'utf8');
  await writeFile(path.join(folder, 'next.mjs'), clock.replace("dateStyle: 'short'", "dateStyle: 'long'"));
  const node = (...args: string[]) => ({ command: process.execPath, args });
  gateway = await startGateway({
    servers: {
      clock: node(path.join(ROOT, 'examples/clock.mjs'), '--stdio'),
      next: node(path.join(folder, 'next.mjs'), '--stdio'),
      units: node(path.join(ROOT, 'examples/units.mjs')),
    },
    auth: {
      tokens: [
        { name: 'ada', token: ADA },
        { name: 'root', token: ADMIN, admin: true },
      ],
    },
  });
});
afterAll(async () => {
  await gateway?.close();
  await rm(folder, { recursive: true, force: true });
});

const file = (name: string): string => path.join(folder, name);
const call = (tool: string, args: Record<string, unknown>) =>
  new ModernClient(`${gateway.url}/mcp`, {}, ADA).call(tool, args);

/** Runs the command line in this process, which takes less time than a program for each test. */
function start(...args: string[]) {
  const output = { out: '', errors: '' };
  const code = main([...args, '--config', gateway.file, '--url', gateway.url], {
    cwd: folder,
    env: {},
    stdout: (text) => (output.out += text),
    stderr: (text) => (output.errors += text),
  });
  return { code, output };
}

async function run(...args: string[]): Promise<{ code: number; out: string; errors: string }> {
  const { code, output } = start(...args);
  return { code: await code, ...output };
}

/** Records while the calls are made, until the recording has the given number of them. */
async function record(args: readonly string[], calls: number, make: () => Promise<unknown>): Promise<string> {
  const { code, output } = start('record', ...args, '--calls', String(calls));
  await expect.poll(() => output.errors, { timeout: 30_000 }).toContain('Recording calls of');
  await make();
  expect(await code).toBe(0);
  expect(output.errors).toContain(`Recorded ${calls} calls.`);
  return output.out;
}

const replayed = async (...args: string[]) => {
  const { code, out, errors } = await run('replay', ...args, '--json');
  expect(errors).toBe('');
  return { code, ...(JSON.parse(out) as { same: number; differs: number; skipped: number; calls: object[] }) };
};
const entriesOf = async (name: string) =>
  (await readFile(file(name), 'utf8'))
    .trim()
    .split('\n')
    .map((each) => JSON.parse(each) as Record<string, unknown>);

describe('parley record', () => {
  test('writes the chosen calls with masked arguments and results, for the owner of the file only', async () => {
    await record(['clock.jsonl', '--server', 'clock', '--arguments', '--results'], 3, async () => {
      await call('units__convert', { value: 1, from: 'km', to: 'm' });
      await call('clock__convert', TIMES);
      await call('clock__now', {});
      await call('clock__now', { timeZone: 'UTC', password: SECRET, [SECRET + SECRET + SECRET]: 1 });
    });
    const [head, ...calls] = await entriesOf('clock.jsonl');
    expect(head).toMatchObject({ recording: 1, arguments: true, results: true, server: 'clock' });
    expect(calls).toMatchObject([
      { tool: 'convert', caller: 'ada', outcome: 'ok', arguments: TIMES, result: { structuredContent: {} } },
      { tool: 'now', arguments: {} },
      { tool: 'now', arguments: { timeZone: 'UTC', password: '********' }, masked: { arguments: 2 } },
    ]);
    expect(await readFile(file('clock.jsonl'), 'utf8')).not.toContain(SECRET);
    expect((await stat(file('clock.jsonl'))).mode & 0o777).toBe(0o600);
    expect((await run('record', 'clock.jsonl')).errors).toContain('clock.jsonl exists');
  });

  test('writes neither arguments nor results unless it is told to', async () => {
    const out = await record([], 1, () => call('units__convert', { value: 1, from: 'km', to: 'm', note: SECRET }));
    const [, entry] = out
      .trim()
      .split('\n')
      .map((each) => JSON.parse(each) as object);
    expect(entry).toMatchObject({ server: 'units', tool: 'convert', outcome: 'ok' });
    expect(Object.keys(entry!)).not.toEqual(expect.arrayContaining(['arguments']));
    expect(out).not.toContain('1000');
    expect(out).not.toContain(SECRET);
  });

  test('ends at SIGINT', async () => {
    const args = [BIN, 'record', 'until.jsonl', '--config', gateway.file, '--url', gateway.url];
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'inherit', 'pipe'], cwd: folder });
    let errors = '';
    child.stderr.on('data', (chunk: Buffer) => {
      errors += chunk.toString();
    });
    const exit = once(child, 'exit');
    await expect.poll(() => errors, { timeout: 30_000 }).toContain('Recording calls of');
    await call('clock__now', {});
    await expect.poll(() => entriesOf('until.jsonl'), { timeout: 30_000 }).toHaveLength(2);
    child.kill('SIGINT');
    expect(await exit).toEqual([0, null]);
  });

  test('is for administrators of the whole gateway, and is in the audit trail', async () => {
    const get = (token?: string, query = '') =>
      fetch(`${gateway.url}/api/v1/recording${query}`, {
        headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
      });
    expect((await get()).status).toBe(401);
    expect((await get(ADA)).status).toBe(403);
    for (const query of ['?everything=1', '?arguments=maybe', `?server=${'x'.repeat(500)}`])
      expect((await get(ADMIN, query)).status).toBe(400);
    const trail = await fetch(`${gateway.url}/api/v1/audit?limit=200`, {
      headers: { authorization: `Bearer ${ADMIN}` },
    });
    expect(await trail.text()).toMatch(/"action":"recording\.start"/);
    // A process has a bounded number of recordings.
    const streams = await Promise.all(Array.from({ length: 5 }, () => get(ADMIN)));
    expect(streams.map(({ status }) => status).sort()).toEqual([200, 200, 200, 200, 429]);
    await Promise.all(streams.map(({ body }) => body?.cancel()));
  });
});

describe('parley replay', () => {
  test('the same version gives the same results', async () => {
    const { code, calls } = await replayed(
      'clock.jsonl',
      '--to',
      'clock',
      '--ignore',
      '/content/*,/structuredContent/time',
    );
    expect({ code, calls }).toMatchObject({
      code: 0,
      calls: [{ status: 'same', tool: 'convert' }, { status: 'same', tool: 'now' }, { status: 'skipped' }],
    });
  });

  test('shows the differences at another version, and ends with exit code 1', async () => {
    const { code, calls } = await replayed('clock.jsonl', '--to', 'next', '--tool', 'convert');
    expect({ code, calls }).toMatchObject({ code: 1, calls: [{ status: 'differs' }] });
    expect(JSON.stringify(calls)).toContain('"at":"/structuredContent/Europe~1Rome"');
    const { code: again, out } = await run('replay', 'clock.jsonl', '--to', 'next', '--tool', 'convert');
    expect(again).toBe(1);
    expect(out).toMatch(/^differs convert \(.* ms, now .* ms\)\n {2}\/content\/0\/text: .* -> .*\n/);
    expect(out).toContain('0 same, 1 different, 0 not sent');
  });

  test('sends to a URL, without the token of the gateway', async () => {
    const child = spawn(process.execPath, [path.join(ROOT, 'examples/clock.mjs')], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    try {
      const [line] = (await once(child.stdout, 'data')) as [Buffer];
      const [url] = /http:\/\/\S+/.exec(line.toString())!;
      expect(await replayed('clock.jsonl', '--to', url, '--tool', 'convert')).toMatchObject({ code: 0, same: 1 });
    } finally {
      child.kill();
    }
  });

  test('calls only read-only tools unless --active', async () => {
    const args = { value: 1, from: 'km', to: 'm' };
    await record(['units.jsonl', '--arguments', '--results'], 1, () => call('units__convert', args));
    expect(await replayed('units.jsonl', '--to', 'units')).toMatchObject({ code: 1, same: 0, skipped: 1 });
    expect(await replayed('units.jsonl', '--to', 'units', '--active')).toMatchObject({ code: 0, same: 1 });
  });

  test('explains errors in its arguments and its file', async () => {
    await writeFile(file('other.jsonl'), '{"a":1}\n');
    await writeFile(file('broken.jsonl'), '{"recording":1}\n{"tool"');
    const wrong = async (...args: string[]) => {
      const { code, errors } = await run('replay', ...args);
      return `${code} ${errors}`;
    };
    expect(await wrong('clock.jsonl')).toMatch(/^2 .*--to/s);
    expect(await wrong('nowhere.jsonl', '--to', 'clock')).toMatch(/^1 .*cannot be read: ENOENT/s);
    expect(await wrong('other.jsonl', '--to', 'clock')).toMatch(/^1 .*is not a recording/s);
    expect(await wrong('broken.jsonl', '--to', 'clock')).toMatch(/^1 .*line 2 .* is not a JSON object/s);
    expect(await wrong('clock.jsonl', '--to', 'clock', '--server', 'units')).toMatch(/^1 .*no such call/s);
    expect(await wrong('clock.jsonl', '--to', 'http://127.0.0.1:9/mcp')).toMatch(/^1 /);
  });
});
