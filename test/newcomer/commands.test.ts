/** The commands for people talk to a running gateway: states, tools, calls, agents, messages, and the preview of a reload. */
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { main } from '../../src/cli/main.js';
import { PLAIN } from '../../src/telemetry/style.js';
import { type RunningGateway, startGateway } from '../support/gateway.js';

const FIXTURE = fileURLToPath(new URL('../fixtures/stdio/server.mjs', import.meta.url));
let gateway: RunningGateway;
beforeAll(async () => {
  gateway = await startGateway({
    servers: { one: { command: process.execPath, args: [FIXTURE, 'say=hello'], revision: 'legacy' } },
    agents: { helper: { tools: ['one__say'] } },
  });
}, 60_000);
afterAll(() => gateway?.close());

async function run(...words: string[]) {
  const out: string[] = [];
  const err: string[] = [];
  const code = await main([...words, '--url', gateway.url], {
    cwd: '/',
    env: {},
    style: PLAIN,
    terminal: false,
    stdout: (text) => void out.push(text),
    stderr: (text) => void err.push(text),
    ask: async () => undefined,
  });
  return { code, stdout: out.join(''), stderr: err.join('') };
}

test('status and servers show the state of the gateway', async () => {
  expect(await run('status')).toMatchObject({ code: 0, stdout: expect.stringMatching(/State\s+ok/) });
  expect(JSON.parse((await run('status', '--json')).stdout)).toMatchObject({ status: 'ok', url: gateway.url });
  expect(JSON.parse((await run('servers', '--json')).stdout).servers).toMatchObject([{ name: 'one' }]);
  expect((await run('servers')).stdout).toMatch(/one\s+(up|unknown)/);
});

test('tools lists names that call takes', async () => {
  expect((await run('tools')).stdout).toContain('one__say');
  const { tools } = JSON.parse((await run('tools', 'one', '--json')).stdout) as { tools: { name: string }[] };
  expect(tools.map(({ name }) => name)).toContain('say');
  expect(await run('call', 'one__say')).toMatchObject({ code: 0, stdout: 'hello\n' });
  expect(JSON.parse((await run('call', 'one__say', '--json')).stdout)).toMatchObject({ content: [{ text: 'hello' }] });
  expect(await run('call', 'one__sya')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('did you mean one__say?'),
  });
});

test('agents lists names that send takes', async () => {
  expect((await run('agents')).stdout).toContain('helper');
  const { code, stdout, stderr } = await run('send', 'helper', 'say it');
  expect({ code, text: stdout, stderr }).toMatchObject({ code: 0, text: expect.stringContaining('hello') });
  expect(await run('send', 'nobody', 'x')).toMatchObject({ code: 1 });
});

test('a gateway that does not run is named with the fix', async () => {
  const errors: string[] = [];
  const code = await main(['status', '--url', 'http://127.0.0.1:9'], {
    env: {},
    stderr: (text) => void errors.push(text),
  });
  expect([code, errors.join('')]).toEqual([1, expect.stringContaining('start one with parley serve')]);
});
