/** The live tail of a real gateway: who sees which calls, filters, and the command that follows them. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ModernClient } from '../era-bridge/support/clients.js';
import { BIN, type RunningGateway, startGateway } from '../support/gateway.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const [ADMIN, ADA, BOB] = [
  '61646d696e61646d696e61646d696e31',
  '61646161646161646161646161646131',
  '626f62626f62626f62626f62626f6231',
];

let gateway: RunningGateway;
const UNITS = { command: process.execPath, args: [path.join(ROOT, 'examples/units.mjs')] };

beforeAll(async () => {
  gateway = await startGateway({
    log: { level: 'warn', format: 'json' },
    servers: { units: UNITS, meters: UNITS },
    auth: {
      tokens: [
        { name: 'ada', token: ADA },
        { name: 'bob', token: BOB },
        { name: 'root', token: ADMIN, admin: true },
      ],
    },
  });
});
afterAll(() => gateway?.close());

/** Follows the tail in the background. */
async function follow(token: string, query = '') {
  const abort = new AbortController();
  const reply = await fetch(`${gateway.url}/api/v1/tail${query}`, {
    headers: { authorization: `Bearer ${token}` },
    signal: abort.signal,
  });
  let text = '';
  const reading = (async () => {
    for await (const chunk of reply.body ?? []) text += Buffer.from(chunk as Uint8Array).toString();
  })().catch(() => {});
  const calls = () =>
    [...text.matchAll(/^event: call\ndata: (.*)$/gm)].map(([, json]) => JSON.parse(json!) as Record<string, unknown>);
  return {
    status: reply.status,
    text: () => text,
    calls,
    tools: () => calls().map(({ caller, server, tool }) => `${caller} ${server}/${tool}`),
    stop: async () => {
      abort.abort();
      await reading;
    },
  };
}

const call = (token: string, tool: string) =>
  new ModernClient(`${gateway.url}/mcp`, {}, token).call(tool, { secret: 'x' });

describe('GET /api/v1/tail', () => {
  test('shows an administrator all calls, and a user its own', async () => {
    const [all, own] = [await follow(ADMIN), await follow(ADA)];
    await call(BOB, 'units__convert');
    await call(ADA, 'units__convert');
    await expect.poll(all.tools).toEqual(['bob units/convert', 'ada units/convert']);
    await expect.poll(own.tools).toEqual(['ada units/convert']);
    expect(all.calls()[0]).toMatchObject({
      event: 'call',
      method: 'tools/call',
      outcome: expect.any(String),
      ms: expect.any(Number),
      requestId: expect.any(String),
      time: expect.any(String),
    });
    expect(all.text()).not.toContain('secret');
    await Promise.all([all.stop(), own.stop()]);
  });

  test('passes only the calls that match its filters', async () => {
    const [meters, failed] = [await follow(ADMIN, '?server=met*&caller=bob'), await follow(ADMIN, '?outcome=error')];
    await call(ADA, 'meters__convert');
    await call(BOB, 'units__convert');
    await call(BOB, 'meters__nothing');
    await call(BOB, 'meters__convert');
    await expect.poll(meters.calls).toHaveLength(1);
    await expect.poll(failed.calls).toHaveLength(1);
    expect(failed.calls()[0]).toMatchObject({ caller: 'bob', error: 'tool_not_found' });
    await Promise.all([meters.stop(), failed.stop()]);
  });

  test('needs a caller, refuses unknown filters, and bounds the streams of a caller', async () => {
    expect((await fetch(`${gateway.url}/api/v1/tail`)).status).toBe(401);
    const odd = await follow(ADA, '?everything=yes');
    await expect.poll(odd.text).toContain('Unknown filter');
    const streams = await Promise.all(Array.from({ length: 11 }, () => follow(BOB)));
    expect(streams.map(({ status }) => status).sort()).toEqual([...Array.from({ length: 10 }, () => 200), 429]);
    await Promise.all(streams.map((stream) => stream.stop()));
  });
});

test('parley tail prints the calls, and ends at SIGINT', async () => {
  const args = (...more: string[]) => [BIN, 'tail', '--config', gateway.file, '--url', gateway.url, ...more];
  const start = (...more: string[]) => {
    const child = spawn(process.execPath, args(...more), { stdio: ['ignore', 'pipe', 'inherit'] });
    let out = '';
    child.stdout.on('data', (chunk: Buffer) => {
      out += chunk.toString();
    });
    return { child, out: () => out };
  };
  const [json, text] = [start('--json', '--server', 'meters'), start()];
  await expect.poll(json.out, { timeout: 20_000 }).toContain('"following"');
  await expect
    .poll(
      async () => {
        await call(ADA, 'meters__convert');
        return text.out();
      },
      { timeout: 20_000 },
    )
    .toMatch(/^[\d:.]+ tools\/call meters\/convert ok in .* \[ada, /m);
  await expect.poll(json.out).toMatch(/"event":"call".*"server":"meters"/);
  for (const { child } of [json, text]) {
    const exit = once(child, 'exit');
    child.kill('SIGINT');
    expect(await exit).toEqual([0, null]);
  }
});
