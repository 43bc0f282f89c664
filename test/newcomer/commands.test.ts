/**
 * The commands for people talk to a running gateway: states, tools, calls, agents, messages, and the preview of a
 * reload.
 */
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { main } from '../../src/cli/main.js';
import { PLAIN } from '../../src/telemetry/terminal-style.js';
import { type RunningGateway, startGateway } from '../support/gateway.js';

const FIXTURE = fileURLToPath(new URL('../fixtures/stdio/server.mjs', import.meta.url));
const TOKEN = 'Kj8sLq2vXz7mNw4pRt6yHf3dGk5bVc1n';
const ONE = { command: process.execPath, args: [FIXTURE, 'say=hello'], revision: 'legacy' };
let gateway: RunningGateway;
let searched: RunningGateway;
let closed: RunningGateway;
beforeAll(async () => {
  [gateway, searched, closed] = await Promise.all([
    startGateway({ servers: { one: ONE }, agents: { helper: { tools: ['one__say'] } } }),
    startGateway({
      servers: { one: ONE, broken: { command: 'no-such-command-anywhere' } },
      routing: { exposure: 'search' },
    }),
    startGateway({
      servers: { one: ONE },
      agents: { helper: { tools: ['one__say'] } },
      auth: { tokens: [{ name: 'ada', token: TOKEN }] },
    }),
  ]);
}, 60_000);
afterAll(() => Promise.all([gateway?.close(), searched?.close(), closed?.close()]));

const run = (...words: string[]) => runAt(gateway, ...words);

const runAt = ({ url }: RunningGateway, ...words: string[]) => runWith({}, url, ...words);

async function runWith(env: Record<string, string>, url: string, ...words: string[]) {
  const out: string[] = [];
  const err: string[] = [];
  const code = await main([...words, '--url', url], {
    cwd: '/',
    env,
    style: PLAIN,
    terminal: false,
    stdout: (text) => void out.push(text),
    stderr: (text) => void err.push(text),
    ask: async () => undefined,
  });
  return { code, stdout: out.join(''), stderr: err.join('') };
}

test('parley status and parley servers show the state of the gateway', async () => {
  expect(await run('status')).toMatchObject({ code: 0, stdout: expect.stringMatching(/State\s+ok/) });
  expect(JSON.parse((await run('status', '--json')).stdout)).toMatchObject({
    status: 'ok',
    url: gateway.url,
    servers: { one: 'up' },
    serverCounts: { up: 1 },
    agents: { up: 1, down: 0, starting: 0 },
  });
  const { stdout } = await run('status');
  expect(stdout).toMatch(/Servers\s+1 up$/m);
  expect(stdout).toMatch(/Agents\s+1 up$/m);
  expect(JSON.parse((await run('servers', '--json')).stdout).servers).toMatchObject([{ name: 'one' }]);
  expect((await run('servers')).stdout).toMatch(/one\s+up\s+\d+ tools?$/m);
});

test('parley servers names the problem of a server that is down', async () => {
  expect((await runAt(searched, 'servers')).stdout).toMatch(/broken\s+down\s+.*no-such-command-anywhere/);
});

test('parley call reaches tools that the list leaves out', async () => {
  const { tools } = JSON.parse((await runAt(searched, 'tools', '--json')).stdout) as { tools: { name: string }[] };
  expect(tools.map(({ name }) => name)).not.toContain('one__say');
  expect(await runAt(searched, 'call', 'one__say')).toMatchObject({ code: 0, stdout: 'hello\n' });
  expect(await runAt(searched, 'call', 'one__sya')).toMatchObject({ code: 1 });
});

test('parley tools lists the names that parley call accepts', async () => {
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

test('parley agents lists the names that parley send accepts', async () => {
  expect((await run('agents')).stdout).toContain('helper');
  const { code, stdout, stderr } = await run('send', 'helper', 'say it');
  expect({ code, text: stdout, stderr }).toMatchObject({ code: 0, text: expect.stringContaining('hello') });
  expect(await run('send', 'nobody', 'x')).toMatchObject({ code: 1 });
});

test('an unknown server or agent is named, with the command that lists the known ones', async () => {
  expect(await run('tools', 'nosuch')).toEqual({
    code: 1,
    stdout: '',
    stderr: 'parley: there is no server "nosuch"; parley servers lists them\n',
  });
  expect((await run('send', 'nobody', 'x')).stderr).toBe(
    'parley: there is no agent "nobody"; parley agents lists them\n',
  );
});

test.each([['tools'], ['call', 'one__say'], ['servers'], ['agents'], ['send', 'helper', 'x'], ['tail']])(
  '%s %s without a token says how to give one, and with a wrong one that another is needed',
  async (...words) => {
    const given = words.filter((word) => word !== undefined);
    const none = await runAt(closed, ...given);
    expect([none.code, none.stderr]).toEqual([1, expect.stringContaining('; set PARLEY_TOKEN to a token')]);
    const wrong = await runWith({ PARLEY_TOKEN: 'nonsense-0123456789' }, closed.url, ...given);
    expect([wrong.code, wrong.stderr]).toEqual([1, expect.stringContaining('; use another token')]);
  },
);

test('parley status without a token shows no counts', async () => {
  const { code, stdout, stderr } = await runAt(closed, 'status');
  expect([code, stdout]).toEqual([0, expect.stringMatching(/Servers\s+\?$/m)]);
  expect(stderr).toContain('set PARLEY_TOKEN');
  const known = await runWith({ PARLEY_TOKEN: TOKEN }, closed.url, 'status');
  expect(known).toMatchObject({ stdout: expect.stringMatching(/Servers\s+1 up$/m), stderr: '' });
});

test('if no gateway runs, the error names its URL and the command that starts one', async () => {
  const errors: string[] = [];
  const code = await main(['status', '--url', 'http://127.0.0.1:9'], {
    env: {},
    stderr: (text) => void errors.push(text),
  });
  expect([code, errors.join('')]).toEqual([1, expect.stringContaining('start one with parley serve')]);
});
