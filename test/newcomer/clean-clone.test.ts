/** The steps of the README in a fresh clone, in its order. */
import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Client as LegacyClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { cleanCopy } from '../support/clean-copy.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const TOOLS = ['clock__now', 'clock__convert', 'units__convert', 'units__list_units'];
const run = promisify(execFile);

interface Quickstart {
  readonly process: ChildProcess;
  readonly url: string;
  readonly output: string;
  /** Sends SIGINT to the whole foreground process group, as a terminal does on Ctrl-C. */
  interrupt(): Promise<void>;
}

async function start(
  folder: string,
  command: string,
  args: string[],
  env: Record<string, string> = {},
): Promise<Quickstart> {
  const child = spawn(command, args, {
    cwd: folder,
    env: { PATH: process.env['PATH'] ?? '', HOME: process.env['HOME'] ?? folder, PARLEY_LISTEN: '127.0.0.1:0', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  let output = '';
  let errors = '';
  child.stderr.on('data', (chunk: Buffer) => {
    errors += chunk.toString();
  });
  await new Promise<void>((resolve, reject) => {
    child.stdout.on('data', (chunk: Buffer) => {
      output += chunk.toString();
      if (output.includes('Stop with Ctrl-C')) resolve();
    });
    child.once('exit', (code) => reject(new Error(`it ended with code ${code}:\n${output}\n${errors}`)));
  });
  return {
    process: child,
    url: /listening on (\S+)/.exec(output)![1]!,
    output,
    interrupt: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const exit = once(child, 'exit');
      process.kill(-child.pid!, 'SIGINT');
      await exit;
    },
  };
}

/** The processes that run a file of this folder. */
function running(folder: string): string[] {
  const all = execFileSync('ps', ['-A', '-ww', '-o', 'args=']).toString().split('\n');
  return all.filter((command) => command.includes(`${folder}/`));
}

async function nothingRuns(folder: string): Promise<void> {
  for (let left = 100; left > 0 && running(folder).length > 0; left--) await delay(100);
  expect(running(folder)).toEqual([]);
}

let folder: string;
let quickstart: Quickstart;
beforeAll(async () => {
  folder = cleanCopy();
  quickstart = await start(folder, 'npm', ['start']);
});
afterAll(async () => {
  await quickstart?.interrupt();
  rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
});

describe('npm start', () => {
  test('prints the endpoint and the tools of each server', () => {
    const { url, output } = quickstart;
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    expect(output).toContain(`all servers  ${url}/mcp\n`);
    expect(output).toContain(`${url}/mcp/clock\n`);
    expect(output).toContain(`${url}/mcp/units\n`);
    expect(output).toMatch(/^ {2}clock {2}clock__now {2}clock__convert$/m);
    expect(output).toMatch(/^ {2}units {2}units__convert {2}units__list_units$/m);
    expect(output).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f]/);
  });

  test('listens on 127.0.0.1:4600 by default', async () => {
    const env = { PATH: process.env['PATH'] };
    const { stdout } = await run(process.execPath, ['bin/parley.js', 'config', 'check'], { cwd: folder, env });
    expect(stdout).toContain('listen: 127.0.0.1:4600\n');
  });

  test('the printed client configuration for HTTP works with a real modern client', async () => {
    const [printed] = configurations();
    expect(printed).toEqual({ mcpServers: { parley: { type: 'http', url: `${quickstart.url}/mcp` } } });
    const client = new Client(
      { name: 'newcomer', version: '1' },
      { versionNegotiation: { mode: { pin: '2026-07-28' } } },
    );
    await client.connect(new StreamableHTTPClientTransport(new URL(printed!.mcpServers['parley']!.url!)));
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(TOOLS);
    const result = await client.callTool({ name: 'clock__now', arguments: { timeZone: 'Asia/Tokyo' } });
    expect(result.structuredContent).toMatchObject({ timeZone: 'Asia/Tokyo', time: expect.stringMatching(/^\d{4}-/) });
    await client.close();
  });

  test('the printed client configuration for stdio works with a real legacy client', async () => {
    const [, printed] = configurations();
    const { command, args, env } = printed!.mcpServers['parley']!;
    const client = new LegacyClient({ name: 'newcomer', version: '1' });
    await client.connect(
      new StdioClientTransport({ command: command!, args: args!, env: env!, cwd: tmpdir(), stderr: 'ignore' }),
    );
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(TOOLS);
    const call = (name: string, values: object) => client.callTool({ name, arguments: { ...values } });
    expect(await call('units__convert', { value: 1, from: 'mile', to: 'km' })).toMatchObject({
      content: [{ type: 'text', text: '1 mile = 1.609344 km' }],
    });
    expect(await call('clock__convert', { time: '2026-07-28T09:00:00Z', timeZones: ['Asia/Tokyo'] })).toMatchObject({
      structuredContent: { 'Asia/Tokyo': '2026-07-28 18:00:00' },
    });
    await client.close();
  });

  interface ClientConfiguration {
    mcpServers: Record<string, { url?: string; command?: string; args?: string[]; env?: Record<string, string> }>;
  }

  /** The printed client configurations, in order. */
  function configurations(): ClientConfiguration[] {
    const printed = quickstart.output.match(/^ {2}\{\n[\s\S]*?^ {2}\}$/gm) ?? [];
    return printed.map((text) => JSON.parse(text) as ClientConfiguration);
  }
});

describe('the curl lines of docs/clients.md and the README', () => {
  const linesOf = (name: string): string[] => readFileSync(path.join(ROOT, name), 'utf8').match(/^curl .*$/gm) ?? [];
  const lines = linesOf('docs/clients.md');

  /** Runs a line as pasted, with another port, because another program may use the default one. */
  async function paste(line: string): Promise<{ result: Record<string, unknown> }> {
    expect(line).toContain('http://127.0.0.1:4600/');
    const { stdout } = await run('sh', ['-c', line.replace('http://127.0.0.1:4600', quickstart.url)]);
    return JSON.parse(stdout);
  }

  test('S3-20: are three, and the README has the second', () => {
    expect(lines).toHaveLength(3);
    expect(linesOf('README.md')).toEqual([lines[1]]);
  });

  test('list the tools', async () => {
    const { result } = await paste(lines[0]!);
    expect(result).toMatchObject({ resultType: 'complete', tools: TOOLS.map((name) => ({ name })) });
  });

  test('call a tool', async () => {
    const { result } = await paste(lines[1]!);
    expect(result).toMatchObject({ content: [{ type: 'text', text: '26.2 mile = 42.1648128 km' }] });
  });

  test('shake hands', async () => {
    const { result } = await paste(lines[2]!);
    expect(result).toMatchObject({ protocolVersion: '2025-06-18', serverInfo: { name: 'parley' } });
  });

  test('the suggested call asks its question, and the answer ends the call', async () => {
    const asking = lines[1]!
      .replace('clientCapabilities":{}', 'clientCapabilities":{"elicitation":{}}')
      .replace('"mile"', '"gallon"')
      .replace('"km"', '"l"');
    const { result } = await paste(asking);
    expect(result).toMatchObject({ resultType: 'input_required', requestState: expect.any(String) });
    const [key] = Object.keys(result['inputRequests'] as object);
    const answer = {
      requestState: result['requestState'],
      inputResponses: { [key!]: { action: 'accept', content: { gallon: 'gallon imperial' } } },
    };
    const answered = asking.replace('"params":{', `"params":{${JSON.stringify(answer).slice(1, -1)},`);
    expect((await paste(answered)).result).toMatchObject({
      resultType: 'complete',
      content: [{ text: '26.2 gallon imperial = 119.107558 l' }],
    });
  });
});

test.each(['', 'serve', 'stdio', 'config check'])('parley %s --help', async (command) => {
  const words = command.split(' ').filter(Boolean);
  const { stdout, stderr } = await run(process.execPath, ['bin/parley.js', ...words, '--help'], { cwd: folder });
  expect(stdout).toContain(`Usage: parley ${command || '<command>'} `);
  expect(stderr).toBe('');
});

describe('no process of the quickstart survives', () => {
  test('after Ctrl-C', async () => {
    expect(running(folder).some((command) => command.includes('clock.mjs'))).toBe(true);
    await quickstart.interrupt();
    await nothingRuns(folder);
  });

  test('after kill -9', async () => {
    const again = await start(folder, process.execPath, [path.join(folder, 'bin/parley.js'), 'serve']);
    expect(running(folder).some((command) => command.includes('clock.mjs'))).toBe(true);
    const exit = once(again.process, 'exit');
    again.process.kill('SIGKILL');
    await exit;
    await nothingRuns(folder);
  });
});

test('an invalid variable ends the start with a one-line error, and no process survives', async () => {
  const child = start(folder, process.execPath, [path.join(folder, 'bin/parley.js'), 'serve'], {
    PARLEY_TIMEOUTS_CALL: '5x',
  });
  await expect(child).rejects.toThrow(/it ended with code 1:\n\nerror: PARLEY_TIMEOUTS_CALL: .*5x/);
  await nothingRuns(folder);
});
