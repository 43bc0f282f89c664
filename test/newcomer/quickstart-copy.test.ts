/** Follows the last hint of the quickstart: its configuration works after it is copied to another folder. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { BIN } from '../support/gateway.js';

let folder: string;
let child: ChildProcess | undefined;
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'parley copied '));
});
afterEach(async () => {
  await stop();
  rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
});

const env = () => ({ PATH: process.env['PATH'] ?? '', HOME: folder, PARLEY_LISTEN: '127.0.0.1:0' });

async function start(until: RegExp): Promise<{ url: string; output: string }> {
  const started = spawn(process.execPath, [BIN, 'serve'], {
    cwd: folder,
    env: env(),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  child = started;
  let output = '';
  await new Promise<void>((resolve, reject) => {
    for (const stream of [started.stdout, started.stderr]) {
      stream.on('data', (chunk: Buffer) => {
        output += chunk.toString();
        if (until.test(output)) resolve();
      });
    }
    started.once('exit', (code) => reject(new Error(`it ended with code ${code}:\n${output}`)));
  });
  return { url: /listening on (\S+)/.exec(output)![1]!, output };
}

async function stop(): Promise<void> {
  if (!child || child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, 'exit');
  child.kill('SIGINT');
  await exit;
}

/** Copies the file as the hint of the quickstart says. */
async function followHint(): Promise<string> {
  const { output } = await start(/Stop with Ctrl-C/);
  await stop();
  const [, from, to] = /^Your own servers: copy (.+) to (\S+), change it, and start again\./m.exec(output)!;
  copyFileSync(path.resolve(folder, from!), path.resolve(folder, to!));
  return path.resolve(folder, to!);
}

test('the copy is valid, and its tools work', async () => {
  const copy = await followHint();
  const { stdout } = await promisify(execFile)(process.execPath, [BIN, 'config', 'check'], { cwd: folder, env: env() });
  expect(stdout.split('\n')[0]).toBe(`# ${copy}: valid`);

  const { url, output } = await start(/"event":"server\.(?:up|down)"[\s\S]*"event":"server\.(?:up|down)"/);
  expect(output).not.toContain('This is the quickstart');
  expect(output).not.toContain('"event":"server.down"');
  const client = new Client({ name: 'newcomer', version: '1' });
  await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`)));
  const { tools } = await client.listTools();
  expect(tools.map(({ name }) => name)).toEqual([
    'clock__now',
    'clock__convert',
    'units__convert',
    'units__list_units',
  ]);
  expect(await client.callTool({ name: 'clock__now', arguments: { timeZone: 'Asia/Tokyo' } })).toMatchObject({
    structuredContent: { timeZone: 'Asia/Tokyo' },
  });
  expect(
    await client.callTool({ name: 'units__convert', arguments: { value: 1, from: 'mile', to: 'km' } }),
  ).toMatchObject({ content: [{ text: '1 mile = 1.609344 km' }] });
  await client.close();
  const card = (await (await fetch(`${url}/a2a/helper/.well-known/agent-card.json`)).json()) as { skills: unknown[] };
  expect(card.skills).toHaveLength(4);
});

test('the copy can be changed: one server is removed, one is added', async () => {
  const copy = await followHint();
  const server = path.join(folder, 'own.mjs');
  copyFileSync(path.join(path.dirname(BIN), '../examples/units.mjs'), server);
  const text = readFileSync(copy, 'utf8').replace(
    /^ {2}clock: .*$/m,
    '  own: { command: node, args: [own.mjs], cwd: . }',
  );
  writeFileSync(copy, text);
  const { output } = await start(/"event":"server\.(?:up|down)"[\s\S]*"event":"server\.(?:up|down)"/);
  expect(output).toContain('"event":"server.up","server":"own"');
  expect(output).not.toContain('clock');
});
