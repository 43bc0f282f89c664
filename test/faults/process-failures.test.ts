/** Unhandled rejections and uncaught exceptions in a real process: the log line, and whether the process ends. */
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { sleep } from '../../src/core/timing.js';
import { type RunningGateway, startGateway } from '../support/gateway.js';

/** Fails in the gateway's process on a signal, as background work would. */
const SABOTAGE = `
  import { isMainThread } from 'node:worker_threads';
  const fail = {
    rejection: () => void Promise.reject(new Error('an upstream went away')),
    flood: () => { for (let i = 0; i < 1000; i++) void Promise.reject(new Error('once more')); },
    defect: () => void (async () => undefined.nowhere)(),
    exception: () => setImmediate(() => { throw new Error('thrown in a callback'); }),
  };
  if (isMainThread) process.on('SIGWINCH', fail[process.env.SABOTAGE]);
`;

let folder: string;
let gateway: RunningGateway | undefined;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'parley-failures-'));
  await writeFile(join(folder, 'sabotage.mjs'), SABOTAGE);
});
afterEach(async () => {
  await gateway?.close();
  gateway = undefined;
});
afterAll(() => rm(folder, { recursive: true, force: true }));

async function sabotaged(how: string, log: object = { format: 'json' }): Promise<RunningGateway> {
  const program = pathToFileURL(join(folder, 'sabotage.mjs')).href;
  gateway = await startGateway({ log }, { env: { SABOTAGE: how, NODE_OPTIONS: `--import ${program}` } });
  return gateway;
}

async function logged(text: string): Promise<Record<string, unknown>> {
  for (;;) {
    const line = gateway!
      .log()
      .split('\n')
      .find((one) => one.includes(text));
    if (line !== undefined) return JSON.parse(line);
    await sleep(20);
  }
}

const alive = async ({ url }: RunningGateway): Promise<number> => (await fetch(`${url}/_health/live`)).status;

test('a rejection with an expected error is logged with its stack, and the gateway keeps running', async () => {
  const running = await sabotaged('rejection');
  running.process.kill('SIGWINCH');
  expect(await logged('process.failure')).toMatchObject({
    level: 50,
    err: { message: 'an upstream went away', stack: expect.stringMatching(/\n {4}at .*sabotage\.mjs/) },
    msg: 'unhandled rejection; the gateway keeps running',
  });
  expect(await alive(running)).toBe(200);
  expect(await running.close()).toBe(0);
});

test('a flood of rejections is throttled in the log', async () => {
  const running = await sabotaged('flood');
  running.process.kill('SIGWINCH');
  await logged('process.failure');
  expect(await alive(running)).toBe(200);
  expect(running.log().split('process.failure')).toHaveLength(2);
});

test.each([
  ['defect', 'unhandled rejection caused by a defect; the process ends', 'nowhere'],
  ['exception', 'uncaught exception; the process ends', 'thrown in a callback'],
])('a %s is logged with its stack and ends the process', async (how, msg, message) => {
  const running = await sabotaged(how);
  const ended = once(running.process, 'close');
  running.process.kill('SIGWINCH');
  expect(await ended).toEqual([1, null]);
  expect(await logged('process.failure')).toMatchObject({
    msg,
    err: { message: expect.stringContaining(message), stack: expect.stringContaining('sabotage.mjs') },
  });
});

test.each([{ format: 'text' }, { format: 'json', level: 'silent' }])(
  'a process logs the reason for its end: %o',
  async (log) => {
    const running = await sabotaged('defect', log);
    const ended = once(running.process, 'close');
    running.process.kill('SIGWINCH');
    expect(await ended).toEqual([1, null]);
    expect(running.log()).toMatch(/the process ends[\s\S]*nowhere[\s\S]*\n +at .*sabotage\.mjs/);
  },
);
