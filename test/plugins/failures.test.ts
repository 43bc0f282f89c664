/**
 * Plugins that throw, hang, block the event loop or return garbage: the call ends as the policy of the plugin says, and
 * other calls continue.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type EchoServer, startEcho } from '../input/support/echo.js';
import { modernCall } from '../input/support/speak.js';
import { ask } from '../input/support/wire.js';
import { type RunningGateway, startGateway } from '../support/gateway.js';
import { card, json, Stage } from '../support/remote-agents.js';

const CANARY = 'canary-6f1d0c2b9a';
const fixture = (name: string): string => fileURLToPath(new URL(`./fixtures/${name}.mjs`, import.meta.url));

const stage = new Stage();
let echo: EchoServer;
let gateway: RunningGateway;
/** Everything that a client received. */
const received: string[] = [];

beforeAll(async () => {
  echo = await startEcho();
  const agent = await stage.server(({ path, body }, response, { url }) => {
    if (path.includes('/.well-known/')) json(response, card([{ url }]));
    else
      json(response, {
        jsonrpc: '2.0',
        id: body['id'],
        result: { message: { messageId: 'm', role: 'ROLE_AGENT', parts: [{ text: 'hello' }] } },
      });
  });
  const plugin = (name: string, onFailure: string, more: object = {}) => ({
    ...{ name, use: fixture(name), servers: [name], onFailure, timeout: '200ms', blockLimit: '500ms' },
    ...more,
  });
  const names = ['closed', 'open', 'blocking-closed', 'blocking-open', 'later', 'free'];
  const endless = ['endless-closed', 'endless-open', 'endless-timer'];
  gateway = await startGateway({
    servers: Object.fromEntries([...names, ...endless].map((name) => [name, { url: echo.url }])),
    agents: { helper: { url: agent.url } },
    log: { level: 'debug', format: 'json' },
    plugins: [
      plugin('closed', 'closed', { servers: ['closed', 'helper'] }),
      plugin('open', 'open'),
      plugin('blocking-closed', 'closed'),
      plugin('blocking-open', 'open'),
      plugin('later', 'closed', { timeout: '100s' }),
      // Only the block can end these calls: on a busy machine a short timeout may come first.
      ...endless.map((name) => plugin(name, name === 'endless-open' ? 'open' : 'closed', { timeout: '100s' })),
    ],
  });
});
afterAll(async () => {
  await gateway?.close();
  await echo?.close();
  await stage.close();
});

/** Calls the tool with a text that contains the canary; the text names the failure. */
async function say(server: string, text: string) {
  const reply = await modernCall(`${gateway.url}/mcp`, `${server}__echo`, { text: `${text} ${CANARY}` });
  const { error, result } = reply.json;
  if (error) received.push(reply.body);
  const { reason, problem } = (error?.data ?? {}) as { reason?: string; problem?: string };
  return { reason, problem, content: result?.content };
}

const echoed = (text: string) => [{ type: 'text', text: `${text} ${CANARY}` }];
const ended = (text: string): number => echo.calls.filter(({ args }) => args['text'] === `${text} ${CANARY}`).length;

describe.each([
  ['throw', 'threw'],
  ['reject', 'threw'],
  ['hang', 'timeout'],
  ['garbage', 'invalid'],
  ['cycle', 'invalid'],
  ['wrong-result', 'invalid'],
])('a plugin with the failure "%s"', (how, problem) => {
  it('refuses the call before its server sees it, if it is closed', async () => {
    const before = ended(how);
    expect(await say('closed', how)).toMatchObject({ reason: 'plugin_failed', problem });
    expect(ended(how)).toBe(before);
  });

  it('is skipped, if it is open', async () => {
    expect((await say('open', how)).content).toEqual(echoed(how));
  });

  it('withholds the result, if it is closed and fails after the call', async () => {
    expect(await say('closed', `after ${how}`)).toMatchObject({ reason: 'plugin_failed', problem });
    expect(ended(`after ${how}`)).toBe(1);
    expect((await say('open', `after ${how}`)).content).toEqual(echoed(`after ${how}`));
  });

  it('does not affect calls of other servers', async () => {
    const [, free] = await Promise.all([say('closed', how), say('free', how)]);
    expect(free.content).toEqual(echoed(how));
  });
});

it('a plugin that fails outside of its hooks does not end the process', async () => {
  expect((await say('open', 'detached')).content).toEqual(echoed('detached'));
  await expect.poll(() => gateway.log(), { timeout: 30_000 }).toContain('a plugin failed outside of its hooks');
  expect((await say('free', 'fine')).content).toEqual(echoed('fine'));
});

it('a plugin that never stops its work does not prevent the gateway from stopping', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'parley-plugin-'));
  const file = join(folder, 'ticking.mjs');
  await writeFile(file, 'setInterval(() => {}, 1_000); export default { apiVersion: 1, onAudit() {} };');
  const stopped = await startGateway({ servers: { echo: { url: echo.url } }, plugins: [{ use: file }] });
  // The exit code 0 means that no signal was needed.
  expect(await stopped.close()).toBe(0);
  await rm(folder, { recursive: true });
});

it('calls of agents end by the same policy', async () => {
  const send = (text: string) =>
    ask(`${gateway.url}/a2a/helper`, {
      headers: { 'a2a-version': '1.0' },
      body: {
        jsonrpc: '2.0',
        id: 1,
        method: 'SendMessage',
        params: {
          message: { messageId: crypto.randomUUID(), role: 'ROLE_USER', parts: [{ text: `${text} ${CANARY}` }] },
        },
      },
    });
  const failed = await send('throw');
  received.push(failed.body);
  expect(failed.body).toContain('plugin_failed'.toUpperCase());
  expect((await send('fine')).json.result).toMatchObject({ message: { parts: [{ text: 'hello' }] } });
});

describe('a plugin that blocks the event loop', () => {
  it('is stopped and named, and its calls are refused if it is closed', async () => {
    expect(await say('blocking-closed', 'block')).toMatchObject({ reason: 'plugin_failed', problem: 'blocked' });
    expect(await say('blocking-closed', 'fine')).toMatchObject({ reason: 'plugin_failed', problem: 'disabled' });
    const named = (line: string): boolean => line.includes('plugin.disabled') && line.includes('"blocking-closed"');
    await expect.poll(() => gateway.log().split('\n').some(named), { timeout: 30_000 }).toBe(true);
  });

  it('is skipped from then on if it is open', async () => {
    expect((await say('blocking-open', 'block')).content).toEqual(echoed('block'));
    expect((await say('blocking-open', 'throw')).content).toEqual(echoed('throw'));
  });

  it('is noticed when it blocks after its first await', async () => {
    await say('later', 'block-later');
    expect(await say('later', 'fine')).toMatchObject({ reason: 'plugin_failed', problem: 'disabled' });
  });

  it('is stopped and named when it never ends after its first wait', async () => {
    const [closed, opened, free, other] = await Promise.all([
      say('endless-closed', 'endless-later'),
      say('endless-open', 'endless-later'),
      say('free', 'beside'),
      say('closed', 'beside'),
    ]);
    expect(closed).toMatchObject({ reason: 'plugin_failed', problem: 'blocked' });
    expect(ended('endless-later')).toBe(1);
    expect(opened.content).toEqual(echoed('endless-later'));
    for (const { content } of [free, other]) expect(content).toEqual(echoed('beside'));
    expect(await say('endless-closed', 'fine')).toMatchObject({ reason: 'plugin_failed', problem: 'disabled' });
    expect((await say('endless-open', 'throw')).content).toEqual(echoed('throw'));
  });

  it('is stopped and named when a timer never ends, without any call', async () => {
    await say('endless-timer', 'endless-timer');
    for (const name of ['endless-closed', 'endless-open', 'endless-timer']) {
      const named = (line: string): boolean => line.includes('plugin.disabled') && line.includes(`"${name}"`);
      await expect.poll(() => gateway.log().split('\n').some(named), { timeout: 30_000 }).toBe(true);
    }
  });

  it('does not stop other calls', async () => {
    expect((await say('free', 'fine')).content).toEqual(echoed('fine'));
    expect((await say('closed', 'fine')).content).toEqual(echoed('fine'));
  });

  it('shows in the health and in the metrics', async () => {
    const health = JSON.parse((await ask(`${gateway.url}/health`, { method: 'GET' })).body) as { plugins: object };
    expect(health.plugins).toEqual({
      closed: 'enabled',
      open: 'enabled',
      'blocking-closed': 'disabled',
      'blocking-open': 'disabled',
      later: 'disabled',
      'endless-closed': 'disabled',
      'endless-open': 'disabled',
      'endless-timer': 'disabled',
    });
    const { body } = await ask(`${gateway.url}/metrics`, { method: 'GET' });
    expect(body).toContain('parley_plugin_disabled{plugin="later"} 1');
    expect(body).toContain('parley_plugin_disabled{plugin="closed"} 0');
    expect(body).toMatch(/^parley_plugin_runs_total\{plugin="closed",hook="onRequest",outcome="timeout"\} [1-9]/m);
    expect(body).not.toContain(CANARY);
  });
});

it('neither errors nor log lines contain anything of the call', () => {
  expect(received.length).toBeGreaterThan(10);
  for (const body of received) expect(body).not.toContain(CANARY);
  const log = gateway.log();
  expect(log).toContain('"event":"plugin.failed"');
  expect(log).toContain('faulty.mjs:');
  expect(log).not.toContain(CANARY);
});
