/**
 * MCP tools as A2A agents (a2a.md 4.2): SDK servers of both eras behind an agent, called in every version and binding.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import type { Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import express from 'express';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { accept, answersTo, asked, FORM, ModernClient } from '../era-bridge/support/clients.js';
import { type FixtureServer, type Json, startServer } from '../eras/peers.js';
import { closeHttp, listen } from '../fixtures/a2a/agent.js';
import type { Client, Row } from '../fixtures/a2a/client.js';
import { ROWS } from '../fixtures/a2a/clients.js';
import { type Part, type Task, TERMINAL, textOf } from '../fixtures/a2a/views.js';
import { startGateway } from '../support/gateway.js';
import { all, finished, idOf, mark, say, taskOf, until } from './case.js';
import { ADA, BOB, openTestbed, type Testbed } from './testbed.js';

const ROUTE = 'https://parley.dev/a2a/route/v1';
const EXTENSION = 'https://parley.dev/a2a/ext/mcp-tools/v1';
const NOTE = 'https://parley.dev/a2a/note';
const ERAS = ['old', 'new'] as const;

let testbed: Testbed;
let weather: { server: Server; url: string };
let old: FixtureServer;
let modern: FixtureServer;
let data: string;

/** Tools with required arguments, on the official SDK. */
async function startWeather(): Promise<typeof weather> {
  const app = express();
  app.use(express.json());
  app.post('/mcp', async (request, response) => {
    const server = new McpServer({ name: 'weather', version: '1' });
    server.registerTool(
      'forecast',
      {
        title: 'Forecast',
        description: 'Tells the weather.',
        annotations: { readOnlyHint: true },
        inputSchema: { city: z.string(), days: z.number().int() },
        outputSchema: { city: z.string(), degrees: z.number() },
      },
      ({ city, days }) => ({
        content: [{ type: 'text', text: `${days} days of sun in ${city}` }],
        structuredContent: { city, degrees: 20 + days },
      }),
    );
    server.registerTool('moon', { inputSchema: { night: z.string() } }, ({ night }) => ({
      content: [{ type: 'text', text: `full on ${night}` }],
    }));
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
    await server.connect(transport as Parameters<typeof server.connect>[0]);
    await transport.handleRequest(request, response, request.body);
  });
  const { server, url } = await listen(app);
  return { server, url: `${url}/mcp` };
}

beforeAll(async () => {
  data = await mkdtemp(join(tmpdir(), 'parley-desk-'));
  [weather, old, modern] = await Promise.all([
    startWeather(),
    startServer('2025-11-25', 'http'),
    startServer('2026-07-28', 'http'),
  ]);
  const settings = {
    servers: { weather: { url: weather.url }, old: old.settings, new: modern.settings },
    agents: {
      desk: { tools: ['weather__*', 'old__*', 'new__*'], description: 'A desk.' },
      oracle: { tools: ['weather__moon'] },
    },
    policy: { approve: { tools: ['new__described'] } },
  };
  testbed = await openTestbed([], settings, { data });
});
afterAll(async () => {
  await testbed?.close();
  await Promise.all([old?.close(), modern?.close()]);
  if (weather) await closeHttp(weather.server);
  await rm(data, { recursive: true, force: true });
});

const call = (tool: string, args: Json = {}): { parts: Part[] } => ({ parts: [{ data: { tool, arguments: args } }] });
const partsOf = (task: Task): readonly Part[] => task.artifacts.flatMap(({ parts }) => parts);
const datas = (parts: readonly Part[] | undefined): Json[] =>
  (parts ?? []).flatMap((part) => (part.data === undefined ? [] : [part.data as Json]));
const said = (task: Task): string => textOf(task.message?.parts);
/** Starts a call and returns its task id. Uses a stream, because not every version has sends that return at once. */
async function begin(client: Client, tool: string, args: Json): Promise<string> {
  for await (const event of client.stream(call(tool, args))) {
    const id = idOf(event);
    if (id !== undefined) return id;
  }
  throw new Error('no event of the stream has a task id');
}
const serverOf = (era: (typeof ERAS)[number]): FixtureServer => (era === 'old' ? old : modern);

test('the card has the tools as skills, with their schemas', async () => {
  const response = await fetch(`${testbed.base('desk')}/.well-known/agent-card.json`, {
    headers: { 'a2a-version': '1.0' },
  });
  const card = (await response.json()) as Json & {
    skills: Json[];
    capabilities: { extensions: { uri: string; params: Json }[] };
  };
  expect(card['description']).toBe('A desk.');
  const forecast = card.skills.find(({ id }) => id === 'weather__forecast')!;
  expect(forecast).toMatchObject({ name: 'Forecast', inputModes: ['application/json', 'text/plain'] });
  expect(forecast['tags']).toEqual(expect.arrayContaining(['mcp', 'readOnlyHint']));
  expect(forecast['description']).toContain('city (string), days (integer)');
  const { params } = card.capabilities.extensions.find(({ uri }) => uri === EXTENSION)!;
  expect(params).toMatchObject({
    tools: {
      weather__forecast: {
        inputSchema: { required: ['city', 'days'] },
        outputSchema: { properties: { degrees: { type: 'number' } } },
      },
    },
  });
  expect(card.skills.map(({ id }) => id)).toEqual(expect.arrayContaining(['old__ask_form', 'new__ask_form']));
});

describe.each(ROWS)('a client of $name', (row: Row) => {
  let desk: Client;
  beforeAll(async () => {
    desk = await testbed.connect(row, 'desk');
  });
  afterAll(() => desk?.close());

  test('chooses a tool by hint, by data, by JSON text, or because there is only one', async () => {
    const args = { city: 'Oslo', days: 2 };
    const asks = [
      { parts: [{ data: args }], messageMetadata: { [ROUTE]: { skillId: 'weather__forecast' } } },
      call('weather__forecast', args),
      call('forecast', args),
      { parts: [{ text: JSON.stringify({ skill: 'weather__forecast', arguments: args }) }] },
    ];
    for (const ask of asks) {
      const task = taskOf(await desk.send(ask));
      expect(task.state, JSON.stringify(task)).toBe('completed');
      expect(datas(partsOf(task))).toEqual([{ city: 'Oslo', degrees: 22 }]);
      expect(textOf(partsOf(task))).toBe('2 days of sun in Oslo');
    }
    const oracle = await testbed.connect(row, 'oracle');
    expect(textOf(partsOf(taskOf(await oracle.send(say('Tuesday')))))).toBe('full on Tuesday');
    oracle.close();
  });

  test('is asked for the tool and for missing arguments, and supplies them', async () => {
    const { id, ...first } = taskOf(await desk.send(say('What can you do?')));
    expect(first.state).toBe('input-required');
    expect(datas(first.message?.parts)[0]!['skills']).toContain('weather__forecast');
    const second = taskOf(await desk.send({ taskId: id, ...call('weather__forecast', { days: 'two' }) }));
    expect(second.state).toBe('input-required');
    expect(datas(second.message?.parts)[0]).toMatchObject({
      tool: 'weather__forecast',
      schema: { required: ['city', 'days'] },
      errors: ['"city" is missing', '"days" must be of type integer'],
    });
    const third = taskOf(await desk.send({ taskId: id, parts: [{ data: { days: 3 } }] }));
    expect(third.state).toBe('input-required');
    const last = taskOf(await desk.send(say('Rome', { taskId: id })));
    expect(last.state, JSON.stringify(last)).toBe('completed');
    expect(textOf(partsOf(last))).toBe('3 days of sun in Rome');
    // Answers never contain the notes of the gateway.
    expect(JSON.stringify([first, second, third, last, await desk.get(id)])).not.toContain(NOTE);
  });

  test.each(ERAS)('answers a question of a tool of an %s server', async (era) => {
    const tag = mark();
    const asked = taskOf(await desk.send(call(`${era}__ask_form`, { tag })));
    expect(asked.state, JSON.stringify(asked)).toBe('input-required');
    expect(said(asked)).toBe(`Please fill in for ${tag}`);
    expect(datas(asked.message?.parts)[0]).toMatchObject({ requestedSchema: { properties: { name: {} } } });
    const done = taskOf(await desk.send(say('Grace', { taskId: asked.id })));
    expect(done.state, JSON.stringify(done)).toBe('completed');
    expect(JSON.parse(textOf(partsOf(done)))).toMatchObject({ action: 'accept', content: { name: 'Grace' } });
    expect(serverOf(era).happened('answered', tag)).toHaveLength(1);
    const twice = taskOf(await desk.send(call(`${era}__ask_twice`)));
    const between = taskOf(await desk.send(say('one', { taskId: twice.id })));
    expect(between.state, JSON.stringify(between)).toBe('input-required');
    const both = taskOf(await desk.send({ taskId: twice.id, parts: [{ data: { second: 'two' } }] }));
    expect(JSON.parse(textOf(partsOf(both)))).toMatchObject([
      { content: { first: 'one' } },
      { content: { second: 'two' } },
    ]);
  });

  test.each(ERAS)('visits a page for a tool of an %s server, and continues', async (era) => {
    const tag = mark();
    const asked = taskOf(await desk.send(call(`${era}__ask_url`, { tag })));
    expect(asked.state, JSON.stringify(asked)).toBe(row.version === '0.1' ? 'input-required' : 'auth-required');
    expect(said(asked)).toContain(`https://example.com/sign-in?tag=${tag}`);
    const done = taskOf(await desk.send(say('done', { taskId: asked.id })));
    expect(done.state, JSON.stringify(done)).toBe('completed');
    expect(JSON.parse(textOf(partsOf(done)))).toMatchObject({ action: 'accept' });
  });

  test.each(ERAS)('gets the progress of an %s server', async (era) => {
    const events = await all(desk.stream(call(`${era}__progress`)));
    const texts = events.map((event) => (event.kind === 'status' ? textOf(event.message?.parts) : ''));
    expect(texts).toEqual(expect.arrayContaining(['step 1', 'step 2', 'step 3']));
    const last = events.at(-1);
    expect(last?.kind === 'status' && last.state).toBe('completed');
    expect(events.some((event) => event.kind === 'artifact' && textOf(event.artifact.parts) === 'done')).toBe(true);
  });

  test.each(ERAS)('gets the results and failures of a tool of an %s server', async (era) => {
    const image = taskOf(await desk.send(call(`${era}__image`)));
    expect(partsOf(image)[0]).toMatchObject({ raw: expect.stringMatching(/^iVBOR/), mediaType: 'image/png' });
    const structured = taskOf(await desk.send(call(`${era}__structured`)));
    expect(datas(partsOf(structured))).toEqual([{ answer: 42 }]);
    const link = taskOf(await desk.send(call(`${era}__link`)));
    expect(partsOf(link)[0]).toMatchObject({ url: 'era://text', mediaType: 'text/plain' });
    const failed = taskOf(await desk.send(call(`${era}__fails`)));
    expect(failed).toMatchObject({ state: 'failed', artifacts: [{ name: 'error' }] });
    expect(said(failed)).toBe('it failed');
    const threw = taskOf(await desk.send(call(`${era}__throws`)));
    expect(threw.state).toBe('failed');
    expect(said(threw)).toContain('it threw');
    const model = taskOf(await desk.send(call(`${era}__ask_model`)));
    expect(model.state).toBe('failed');
  });

  test.each(ERAS)('cancels a call at an %s server, running or waiting', async (era) => {
    const tag = mark();
    const id = await begin(desk, `${era}__slow`, { tag });
    await until('the start', () => serverOf(era).happened('started', tag)[0]);
    expect((await desk.get(id)).state).toBe('working');
    expect((await desk.cancel(id)).state).toBe('canceled');
    await until('the end', () => serverOf(era).happened('cancelled', tag)[0]);
    expect((await desk.get(id)).state).toBe('canceled');
    const asked = taskOf(await desk.send(call(`${era}__ask_form`, { tag })));
    expect((await desk.cancel(asked.id)).state).toBe('canceled');
    await until('the answer', () => serverOf(era).happened('answered', tag)[0]);
    expect((await desk.get(asked.id)).state).toBe('canceled');
  });

  test('reads, lists and subscribes to its task; another caller cannot', async () => {
    const { id } = taskOf(await desk.send({ ...call('old__pause', { ms: 150, tag: 'x' }), returnImmediately: true }));
    const done = await finished(desk, id);
    expect(textOf(partsOf(done))).toBe('paused x');
    const tag = mark();
    const other = await begin(desk, 'new__pause', { hold: true, tag });
    const events = await all(desk.subscribe(other), () => modern.release(tag));
    const last = events.at(-1);
    expect(last?.kind === 'status' && last.state).toBe('completed');
    if (desk.list) {
      const { tasks } = await desk.list({ pageSize: 100 });
      expect(tasks.map((task) => task.id)).toEqual(expect.arrayContaining([id, other]));
      expect(JSON.stringify(tasks)).not.toContain(NOTE);
    }
    const stranger = await testbed.connect(row, 'desk', { token: BOB });
    const asked = taskOf(await desk.send(call('new__ask_form', { tag: mark() })));
    await expect(stranger.get(asked.id)).rejects.toThrow();
    stranger.close();
  });

  test('is notified by webhook without an open connection', async () => {
    const path = `/${mark()}`;
    const push = { id: 'hook', url: `${testbed.webhook.url}${path}`, token: 'token-of-the-hook' };
    const asked = taskOf(await desk.send(call('new__ask_form', { tag: mark() })));
    await desk.setPush(asked.id, push);
    await desk.send(say('Grace', { taskId: asked.id, returnImmediately: true }));
    await until('the notification', () =>
      testbed.webhook.at(path).find((one) => JSON.stringify(one.body).toLowerCase().includes('completed')),
    );
    expect(JSON.stringify(testbed.webhook.at(path))).not.toContain(NOTE);
  });
});

const ROW = ROWS[0]!;

test('an approval policy asks the A2A client too', async () => {
  const desk = await testbed.connect(ROW, 'desk');
  const asked = taskOf(await desk.send(call('new__described')));
  expect(asked.state).toBe('input-required');
  expect(said(asked)).toContain('Allow the call of tool "described"');
  const done = taskOf(await desk.send(say('yes', { taskId: asked.id })));
  expect(textOf(partsOf(done))).toBe('described');
  const again = taskOf(await desk.send(call('new__described')));
  const refused = taskOf(await desk.send(say('no', { taskId: again.id })));
  expect(refused.state).toBe('failed');
  desk.close();
});

test('the routing agent sends a message to the tool that the message names', async () => {
  const response = await fetch(`${testbed.gateway.url}/a2a`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'a2a-version': '1.0', authorization: `Bearer ${ADA}` },
    body: JSON.stringify({
      ...{ jsonrpc: '2.0', id: 1, method: 'SendMessage' },
      params: {
        metadata: { [ROUTE]: { skillId: 'desk.weather__moon' } },
        message: { messageId: mark(), role: 'ROLE_USER', parts: [{ text: 'Friday' }] },
      },
    }),
  });
  expect(JSON.stringify(await response.json())).toContain('full on Friday');
});

test('tools behind an agent are tools again at another gateway, with their own arguments', async () => {
  const far = await startGateway({
    agents: { desk: { url: testbed.base('desk'), headers: { authorization: `Bearer ${ADA}` } } },
    egress: { allowPrivate: true },
    log: { level: 'warn' },
  });
  try {
    const client = new ModernClient(`${far.url}/mcp/desk`, FORM);
    const { tools } = (await client.request('tools/list')).result as { tools: Json[] };
    const forecast = tools.find(({ name }) => name === 'weather__forecast')!;
    expect(forecast).toMatchObject({ title: 'Forecast', inputSchema: { required: ['city', 'days'] } });
    const sunny = await client.call('weather__forecast', { city: 'Oslo', days: 4 });
    expect(sunny.result.structuredContent).toMatchObject({ state: 'completed', data: [{ city: 'Oslo', degrees: 24 }] });
    const tag = mark();
    for (const era of ERAS) {
      const asks = await client.call(`${era}__ask_form`, { tag });
      // The tool's question keeps its form across two protocols.
      expect(Object.values(asked(asks))[0]!.params).toMatchObject({
        message: `Please fill in for ${tag}`,
        requestedSchema: { properties: { name: { type: 'string' } } },
      });
      const done = await client.call(
        `${era}__ask_form`,
        { tag },
        { requestState: asks.result.requestState, inputResponses: answersTo(asks, accept({ name: 'Ada' })) },
      );
      expect(JSON.parse(done.result.content[0].text)).toMatchObject({ content: { name: 'Ada' } });
    }
  } finally {
    await far.close();
  }
});

test('one of two answers to a question counts; a running task accepts no answer', async () => {
  const desk = await testbed.connect(ROW, 'desk');
  const tag = mark();
  const asked = taskOf(await desk.send(call('new__ask_then_work', { tag })));
  const answers = await Promise.allSettled(
    ['one', 'two'].map((name) => desk.send(say(name, { taskId: asked.id, returnImmediately: true }))),
  );
  expect(answers.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
  expect((await finished(desk, asked.id)).state).toBe('completed');
  expect(modern.happened('answered', tag)).toHaveLength(1);
  desk.close();
});

test.each(['SIGTERM', 'SIGKILL'] as const)(
  'after a restart by %s a waiting task continues, and a running task has failed and is not repeated',
  async (signal) => {
    const before = await testbed.connect(ROW, 'desk');
    const tags = { asks: mark(), runs: mark(), followed: mark() };
    const asked = taskOf(await before.send(call('new__ask_form', { tag: tags.asks })));
    const path = `/${mark()}`;
    const push = { id: 'hook', url: `${testbed.webhook.url}${path}` };
    const pause = { ...call('new__pause', { ms: 50, tag: 'z' }), returnImmediately: true, push };
    const over = taskOf(await before.send(pause));
    const slots = taskOf(await before.send(call('weather__forecast', { city: 'Bergen' })));
    const runs = taskOf(await before.send({ ...call('old__slow', { tag: tags.runs }), returnImmediately: true }));
    const followed = all(before.stream(call('new__slow', { tag: tags.followed }))).catch(() => []);
    await until('the start', () => old.happened('started', tags.runs)[0]);
    await until('the start', () => modern.happened('started', tags.followed)[0]);
    // No client has read the task, but its end is stored, because the gateway stores it before it sends any
    // notification.
    await until('the notification of the end', () =>
      testbed.webhook.at(path).find(({ body }) => JSON.stringify(body).includes('COMPLETED')),
    );
    if (signal === 'SIGKILL') {
      testbed.gateway.process.kill(signal);
      await new Promise((resolve) => testbed.gateway.process.once('exit', resolve));
    }
    await testbed.restart();
    await followed;
    before.close();
    const desk = await testbed.connect(ROW, 'desk');
    const done = taskOf(await desk.send(say('Grace', { taskId: asked.id })));
    expect(done.state, JSON.stringify(done)).toBe('completed');
    const filled = taskOf(await desk.send({ taskId: slots.id, parts: [{ data: { days: 1 } }] }));
    expect(textOf(partsOf(filled))).toBe('1 days of sun in Bergen');
    expect(textOf(partsOf(await desk.get(over.id)))).toBe('paused z');
    const failed = await desk.get(runs.id);
    expect(failed.state).toBe('failed');
    const { tasks } = await desk.list!({ pageSize: 100 });
    const open = tasks.filter(({ state }) => state === 'working' || state === 'submitted');
    for (const task of open) expect(TERMINAL.has((await finished(desk, task.id)).state)).toBe(true);
    expect(old.happened('started', tags.runs)).toHaveLength(1);
    expect(modern.happened('started', tags.followed)).toHaveLength(1);
    desk.close();
  },
);
