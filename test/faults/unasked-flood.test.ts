/** Servers that send endless questions or unsolicited messages: the call or the stream ends, other calls are served. */
import { readdirSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type Message, textOf } from '../input/support/message.js';
import {
  answer,
  type Called,
  event,
  json,
  type Rogue,
  type Script,
  startRogue,
  stream,
} from '../input/support/rogue.js';
import { modern, modernCall, Session } from '../input/support/speak.js';
import { eventually } from '../input/support/wire.js';
import { startWorld, type World } from '../input/support/world.js';

const FORM = { elicitation: { form: {} } };
const LOG = { jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info', data: 'nobody asked' } };

const question = (n: number): object => ({
  jsonrpc: '2.0',
  id: `q${n}`,
  method: 'elicitation/create',
  params: { message: 'Which?', requestedSchema: { type: 'object', properties: { which: { type: 'string' } } } },
});

const writable = (res: ServerResponse): Promise<void> =>
  new Promise((resolve) => {
    const done = (): void => {
      res.off('drain', done).off('close', done);
      resolve();
    };
    res.on('drain', done).on('close', done);
  });

/** Writes messages as fast as the peer reads, until the peer closes the stream. */
async function endless(res: ServerResponse, message: (n: number) => object): Promise<void> {
  for (let n = 0; !res.destroyed; ) {
    let text = '';
    for (const end = n + 100; n < end; n++) text += event(message(n));
    if (!res.write(text)) await writable(res);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

const SCRIPT: Script = {
  fine: ({ res, id, era, args }) => json(res, 200, answer(id, String(args['text'] ?? 'fine'), era)),
  questions: ({ res }: Called) => void endless(stream(res), question),
  logs: ({ res }: Called) => void endless(stream(res), () => LOG),
};

/** The same server over stdio, and a server that starts to log after a call without belonging to any call. */
const PROGRAM = `
import { createInterface } from 'node:readline';
const say = (message) => process.stdout.write(JSON.stringify(message) + '\\n');
const answer = (id, text) => say({ jsonrpc: '2.0', id, result: { content: [{ type: 'text', text }] } });
const tools = ['fine', 'questions', 'storm'].map((name) => ({ name, inputSchema: { type: 'object' } }));
async function endless(message) {
  for (let n = 1; ; n++) {
    if (!say(message(n))) await new Promise((resolve) => process.stdout.once('drain', resolve));
    if (n % 500 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
}
createInterface(process.stdin).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined || method === undefined) return;
  if (method === 'initialize') say({ jsonrpc: '2.0', id, result: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'flood', version: '1' } } });
  else if (method === 'tools/list') say({ jsonrpc: '2.0', id, result: { tools } });
  else if (params.name === 'fine') answer(id, params.arguments?.text ?? 'fine');
  else if (params.name === 'questions') void endless((n) => ({ jsonrpc: '2.0', id: 'q' + n, method: 'elicitation/create', params: { message: 'Which?', requestedSchema: { type: 'object', properties: {} } } }));
  else {
    answer(id, 'here it comes');
    void endless(() => (${JSON.stringify(LOG)}));
  }
});
process.stdin.on('end', () => process.exit());
`;

let folder: string;
let rogue: Rogue;
let world: World;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'parley-unasked-'));
  await writeFile(join(folder, 'flood.mjs'), PROGRAM);
  rogue = await startRogue(SCRIPT);
  const piped = { command: process.execPath, args: [join(folder, 'flood.mjs')], revision: 'legacy' };
  world = await startWorld({
    timeouts: { call: '60s' },
    servers: {
      modern: { url: rogue.url, revision: 'modern' },
      legacy: { url: rogue.url, revision: 'legacy', transport: 'http' },
      piped,
      stormy: piped,
    },
  });
});
afterAll(async () => {
  await world?.close();
  await rogue?.close();
  await rm(folder, { recursive: true, force: true });
});
afterEach(() => world.wellBehaved());

const descriptors = (): number => readdirSync(`/proc/${world.gateway.pid}/fd`).length;

interface Asking {
  readonly inputRequests: Record<string, object>;
  readonly requestState: string;
}

/** Calls a tool and answers the questions of the server until the call ends. */
async function calledToEnd(server: string, tool: string, capabilities: object): Promise<Message> {
  const name = `${server}__${tool}`;
  let { json: reply } = await modernCall(world.mcp, name, {}, { capabilities });
  for (let round = 0; reply.result?.resultType === 'input_required' && round < 100; round++) {
    const { inputRequests, requestState } = reply.result as unknown as Asking;
    const inputResponses = Object.fromEntries(
      Object.keys(inputRequests).map((key) => [key, { action: 'accept', content: { which: 'this' } }]),
    );
    const params = { name, arguments: {}, requestState, inputResponses };
    reply = (await modern(world.mcp, 'tools/call', params, { capabilities })).json;
  }
  return reply;
}

const CUT = { code: -32603, data: { reason: 'upstream_error', outcome: 'unknown' } };

describe.each(['legacy', 'piped'])('a %s server with endless questions', (server) => {
  it.each([
    ['cannot be asked', {}],
    ['answers every question', FORM],
  ])('a client that %s gets a typed error, and the number of open answers is bounded', async (_, capabilities) => {
    const [memory, files] = [world.memory(), descriptors()];
    let most = 0;
    const watch = setInterval(() => {
      most = Math.max(most, descriptors());
    }, 5);
    const calls = await Promise.all([1, 2, 3].map(() => calledToEnd(server, 'questions', capabilities)));
    clearInterval(watch);
    for (const { error } of calls) expect(error).toMatchObject(CUT);
    expect(world.memory() - memory).toBeLessThan(128);
    // The number of answers under way is bounded per call.
    expect(most - files).toBeLessThan(3 * 100 + 100);
    await eventually(
      () => modernCall(world.mcp, `${server}__fine`, { text: 'still here' }).then(({ json: { result } }) => result),
      (result) => result?.content?.[0]?.text === 'still here',
      60_000,
    );
  });
});

it('a legacy client of a server with endless questions gets a typed error', async () => {
  const session = await Session.open(world.mcp, '2025-11-25', {}, {});
  const reply = await session.call('legacy__questions');
  expect(reply.body).toContain('"limit":"questions"');
  await session.end();
});

describe.each(['legacy', 'modern'])('a %s server that sends unrequested log messages', (server) => {
  it('on the stream of a call: the call ends with a typed error', async () => {
    const memory = world.memory();
    const { json: reply } = await modernCall(world.mcp, `${server}__logs`);
    expect(reply.error).toMatchObject({ ...CUT, data: { ...CUT.data, limit: 'messages' } });
    expect(world.memory() - memory).toBeLessThan(128);
    expect(textOf((await modernCall(world.mcp, `${server}__fine`, { text: 'still here' })).json)).toBe('still here');
  });
});

it('a flood on the standalone stream closes it for a while, with a log line', async () => {
  const storms: { readonly began: number; ended?: number }[] = [];
  const stormy = await startRogue(SCRIPT);
  stormy.onGet = (_, res) => {
    const storm: (typeof storms)[number] = { began: performance.now() };
    storms.push(storm);
    res.on('close', () => {
      storm.ended = performance.now();
    });
    void endless(stream(res), () => LOG);
  };
  const other = await startWorld({ servers: { storm: { url: stormy.url, revision: 'legacy', transport: 'http' } } });
  try {
    await eventually(
      () => storms[0]?.ended,
      (ended) => ended !== undefined,
      60_000,
    );
    expect(textOf((await modernCall(other.mcp, 'storm__fine', { text: 'still here' })).json)).toBe('still here');
    const closed = performance.now();
    await eventually(
      () => storms.length,
      (count) => count >= 2,
      60_000,
    );
    // The stream is not reopened at once.
    expect(performance.now() - closed).toBeGreaterThan(1_000);
    expect(other.gateway.log()).toContain('ignoring messages outside of calls for a while');
    await other.wellBehaved();
  } finally {
    await other.close();
    await stormy.close();
  }
});

it('a process that sends endless messages is ended, and restarted after a pause', async () => {
  const ended = (): number => world.gateway.log().split('ending a child process').length;
  const before = ended();
  expect(textOf((await modernCall(world.mcp, 'stormy__storm')).json)).toBe('here it comes');
  await eventually(ended, (count) => count > before, 60_000);
  await eventually(
    () => modernCall(world.mcp, 'stormy__fine', { text: 'again' }).then(({ json: { result } }) => result),
    (result) => result?.content?.[0]?.text === 'again',
    60_000,
  );
});
