/** Runs the `parley.yaml` of the README as it is written there. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { BIN } from '../support/gateway.js';

const README = readFileSync(new URL('../../README.md', import.meta.url), 'utf8');
const [, YAML] = /\n## Your own servers\n[\s\S]*?```yaml\n([\s\S]*?)```/.exec(README)!;

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'parley own '));
  writeFileSync(path.join(folder, 'parley.yaml'), YAML!);
});
afterAll(() => rmSync(folder, { recursive: true, force: true, maxRetries: 3 }));

const env = () => ({ PATH: process.env['PATH'] ?? '', HOME: folder, PARLEY_LISTEN: '127.0.0.1:0' });

test('parley config check accepts it', async () => {
  const { PARLEY_LISTEN: _, ...plain } = env();
  const run = promisify(execFile)(process.execPath, [BIN, 'config', 'check'], { cwd: folder, env: plain });
  const { stdout, stderr } = await run;
  expect(stdout.split('\n')[0]).toMatch(/parley\.yaml: valid$/);
  expect(stdout).toContain('listen: 127.0.0.1:4600\n');
  expect(stderr).toBe('');
});

test('parley serve serves its server and its agent', async () => {
  const child = spawn(process.execPath, [BIN, 'serve'], { cwd: folder, env: env(), stdio: ['ignore', 'pipe', 'pipe'] });
  const exit = once(child, 'exit');
  let output = '';
  try {
    await new Promise<void>((resolve, reject) => {
      for (const stream of [child.stdout, child.stderr]) {
        stream.on('data', (chunk: Buffer) => {
          output += chunk.toString();
          if (/"event":"server\.(?:up|down)"/.test(output) && /listening on \S+/.test(output)) resolve();
        });
      }
      child.once('exit', (code) => reject(new Error(`parley ended with code ${code}:\n${output}`)));
    });
    const [, url] = /listening on (\S+)/.exec(output)!;
    for (const [endpoint, name] of [
      ['mcp', 'units__convert'],
      ['mcp/units', 'convert'],
    ] as const) {
      const client = new Client({ name: 'newcomer', version: '1' });
      await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/${endpoint}`)));
      const { tools } = await client.listTools();
      expect(tools.map((tool) => tool.name)).toEqual([name]);
      expect(await client.callTool({ name, arguments: { value: 1, from: 'mile', to: 'km' } })).toMatchObject({
        content: [{ text: '1 mile = 1.609344 km' }],
      });
      await client.close();
    }
    const card = await fetch(`${url}/a2a/helper/.well-known/agent-card.json`);
    expect(await card.json()).toMatchObject({ description: 'Converts units', skills: [{}] });
  } finally {
    child.kill('SIGINT');
    await exit;
  }
});
