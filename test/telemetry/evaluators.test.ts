/** Evaluators of a real gateway: their scores in metrics, spans and the management API, and evaluators that fail. */
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { configFrom } from '../../src/config/load.js';
import { ModernClient, textOf } from '../era-bridge/support/clients.js';
import { type Recording, startRecording } from '../security/recording-upstreams.js';
import { type RunningGateway, startGateway } from '../support/gateway.js';
import { type Collector, startCollector } from './otlp-collector.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const [ADMIN, ADA] = ['61646d696e61646d696e61646d696e31', '61646161646161646161646161646131'];
const SECRET = 'hush-5e0c8c1f';

/** The example of the documentation. */
const PAGE = readFileSync(path.join(ROOT, 'docs/evaluators.md'), 'utf8');
const EXAMPLE = /```js answers\.mjs\n([\s\S]*?)```/.exec(PAGE)![1]!;

let folder: string;
let collector: Collector;
let upstreams: Recording;
let service: Server;
let gateway: RunningGateway;
/** Calls that the service got. */
const judged: Record<string, unknown>[] = [];

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'parley-evaluators-'));
  const module = async (name: string, source: string): Promise<{ module: string }> => {
    const file = path.join(folder, name);
    await writeFile(file, source);
    return { module: file };
  };
  service = createServer(async (req, res) => {
    if (req.url === '/silent') return;
    judged.push(JSON.parse(Buffer.concat(await req.toArray()).toString()));
    res.writeHead(200, { 'content-type': 'application/json' }).end('{"score":0.25,"label":"poor"}');
  });
  await new Promise<void>((resolve) => service.listen(0, '127.0.0.1', resolve));
  [collector, upstreams] = await Promise.all([startCollector(), startRecording()]);
  gateway = await startGateway(
    {
      log: { level: 'debug', format: 'json' },
      servers: {
        clock: { command: process.execPath, args: [path.join(ROOT, 'examples/clock.mjs'), '--stdio'] },
        units: { command: process.execPath, args: [path.join(ROOT, 'examples/units.mjs')] },
      },
      agents: { planner: { url: `${upstreams.url}/jsonrpc` } },
      auth: {
        tokens: [
          { name: 'ada', token: ADA },
          { name: 'root', token: ADMIN, admin: true },
        ],
      },
      evaluators: {
        schema: { builtin: 'schema' },
        latency: { builtin: 'latency', objective: '10m' },
        answers: { ...(await module('answers.mjs', EXAMPLE)), servers: ['units'] },
        judge: { url: `http://127.0.0.1:${(service.address() as AddressInfo).port}/`, tools: ['convert'] },
        silent: {
          url: `http://127.0.0.1:${(service.address() as AddressInfo).port}/silent`,
          tools: ['list_units'],
          timeout: '1h',
        },
        messages: { url: `http://127.0.0.1:${(service.address() as AddressInfo).port}/`, servers: ['planner'] },
        never: { builtin: 'latency', samplePercent: 0 },
        throws: await module(
          'throws.mjs',
          'export const evaluate = (call) => { throw new Error(JSON.stringify(call)); };',
        ),
        blocks: { ...(await module('blocks.mjs', 'export const evaluate = () => { for (;;); };')), timeout: '100ms' },
        crashes: await module('crashes.mjs', 'export const evaluate = () => process.exit(3);'),
        garbage: await module('garbage.mjs', 'export const evaluate = () => ({ score: "very good" });'),
        away: { url: 'http://127.0.0.1:9/' },
      },
    },
    {
      env: {
        OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${collector.url}/v1/traces`,
        OTEL_TRACES_SAMPLER: 'always_on',
        OTEL_BSP_SCHEDULE_DELAY: '50',
      },
    },
  );
  const message = { messageId: 'm1', role: 'ROLE_USER', parts: [{ text: 'hello' }] };
  const sent = await fetch(`${gateway.url}/a2a/planner`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'a2a-version': '1.0', authorization: `Bearer ${ADA}` },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SendMessage', params: { message } }),
  });
  expect(await sent.text()).toContain('"task"');
  const client = new ModernClient(`${gateway.url}/mcp`, {}, ADA);
  for (let i = 0; i < 3; i++) {
    expect((await client.call('clock__now', { timeZone: 'UTC', [SECRET]: SECRET })).error).toBeUndefined();
    expect(textOf(await client.call('units__convert', { value: 1, from: 'km', to: 'm', note: SECRET }))).toContain(
      '1000 m',
    );
  }
});
afterAll(async () => {
  await gateway?.close();
  await Promise.all([collector?.close(), upstreams?.close()]);
  service?.closeAllConnections();
  service?.close();
  await rm(folder, { recursive: true, force: true });
});

const get = async (where: string, token = ADMIN) => {
  const reply = await fetch(`${gateway.url}${where}`, { headers: { authorization: `Bearer ${token}` } });
  return { status: reply.status, text: await reply.text() };
};
interface Score {
  evaluator: string;
  server: string;
  tool: string;
  count: number;
  mean: number;
  lowestRequestId: string;
}
const scores = async (query = ''): Promise<Score[]> =>
  (JSON.parse((await get(`/api/v1/scores${query}`)).text) as { items: Score[] }).items;

describe('scores', () => {
  test('are in the management API for each evaluator, server and tool', async () => {
    const shown = async () =>
      (await scores()).map(
        ({ evaluator, server, tool, count, mean }) => `${evaluator} ${server}/${tool} ${count} ${mean}`,
      );
    await expect
      .poll(shown, { timeout: 20_000 })
      .toEqual([
        'answers units/convert 3 1',
        'judge units/convert 3 0.25',
        'latency clock/now 3 1',
        'latency planner/planner 1 1',
        'latency units/convert 3 1',
        'messages planner/planner 1 0.25',
        'schema clock/now 3 1',
      ]);
    expect(await scores('?evaluator=judge&server=units&tool=convert')).toHaveLength(1);
    expect(await scores('?server=nobody')).toEqual([]);
    const pages: Score[] = [];
    for (let cursor = ''; ; ) {
      const page = JSON.parse((await get(`/api/v1/scores?limit=2${cursor}`)).text) as { items: Score[]; next?: string };
      pages.push(...page.items);
      if (page.next === undefined) break;
      cursor = `&cursor=${page.next}`;
    }
    expect(pages).toEqual(await scores());
    for (const wrong of ['?hours=0', '?hours=many', '?cursor=YQ', '?everything=1'])
      expect((await get(`/api/v1/scores${wrong}`)).status).toBe(400);
  });

  test('are for administrators', async () => {
    expect((await get('/api/v1/scores', ADA)).status).toBe(403);
    expect((await fetch(`${gateway.url}/api/v1/scores`)).status).toBe(401);
  });

  test('are in the metrics, with the results of every evaluator', async () => {
    const metrics = async () => (await get('/metrics')).text;
    await expect.poll(metrics, { timeout: 20_000 }).toMatch(/^parley_evaluations_waiting 0$/m);
    const text = await metrics();
    for (const line of [
      /^parley_evaluations_total\{evaluator="judge",result="scored"\} 3$/m,
      /^parley_evaluations_total\{evaluator="schema",result="scored"\} 3$/m,
      /^parley_evaluations_total\{evaluator="schema",result="skipped"\} 4$/m,
      /^parley_evaluation_score_bucket\{evaluator="judge",upstream="units",le="0.3"\} 3$/m,
      /^parley_evaluation_score_sum\{evaluator="latency",upstream="clock"\} 3$/m,
    ])
      expect(text).toMatch(line);
    expect(text).not.toContain('evaluator="never"');
    // Every failure is that of its evaluator alone; after five the evaluator pauses.
    for (const evaluator of ['throws', 'crashes', 'garbage', 'away', 'blocks'])
      expect(text).toMatch(
        new RegExp(`^parley_evaluations_total\\{evaluator="${evaluator}",result="failed"\\} [1-7]$`, 'm'),
      );
  });

  test('S1-68: are on spans below the spans of their calls, for both protocols', async () => {
    const evaluations = () => collector.spans.filter(({ name }) => name === 'evaluate judge');
    await expect.poll(() => evaluations().length, { timeout: 20_000 }).toBe(3);
    for (const { parent, traceId, attributes } of evaluations()) {
      const call = collector.spans.find(({ spanId }) => spanId === parent);
      expect(call).toMatchObject({ traceId, kind: 'server', name: 'tools/call convert' });
      expect(attributes).toMatchObject({ 'eval.plugin': 'judge', 'eval.status': 'success' });
      expect(attributes['gen_ai.evaluation.score.label']).toBe('poor');
    }
    const message = () => collector.spans.find(({ name }) => name === 'evaluate messages');
    await expect.poll(message, { timeout: 20_000 }).toBeDefined();
    expect(message()!.attributes).toMatchObject({ 'eval.plugin': 'messages', 'eval.invocation_type': 'a2a' });
    expect(collector.spans.find(({ spanId }) => spanId === message()!.parent)?.name).toBe('SendMessage planner');
  });
});

test('the configuration of the documentation is valid', () => {
  const written = parse(/```yaml\n([\s\S]*?)```/.exec(PAGE)![1]!) as { evaluators: { answers: { module: string } } };
  written.evaluators.answers.module = path.join(folder, 'answers.mjs');
  const { config, warnings } = configFrom(written, { env: { JUDGE_TOKEN: 'x' } });
  expect([Object.keys(config.evaluators), warnings]).toEqual([
    ['schema', 'quick', 'answers', 'judge'],
    expect.any(Array),
  ]);
});

test('S1-68: the service gets call, result and time, for both protocols', () => {
  const judgedAt = (name: string) => judged.find(({ server, agent }) => (server ?? agent) === name);
  expect(judgedAt('planner')).toMatchObject({
    ...{ method: 'SendMessage', caller: 'ada', outcome: 'ok', ms: expect.any(Number) },
    arguments: { message: { parts: [{ text: 'hello' }] } },
    result: { task: expect.any(Object) },
  });
  expect(judgedAt('units')).toMatchObject({
    ...{ method: 'tools/call', server: 'units', tool: 'convert', caller: 'ada', outcome: 'ok', ms: expect.any(Number) },
    arguments: { value: 1, from: 'km', to: 'm', note: SECRET },
    result: { content: [{ type: 'text' }] },
  });
});

test('arguments and results are in no log line, also if an evaluator repeats them in its error', async () => {
  await expect.poll(() => gateway.log(), { timeout: 20_000 }).toContain('an evaluator failed');
  expect(gateway.log()).toMatch(/"evaluator":"throws","reason":"Error at throws.mjs:1:\d+"/);
  expect(gateway.log()).not.toContain(SECRET);
  expect(collector.text()).not.toContain(SECRET);
});

test('the gateway stops although an evaluator does not answer', async () => {
  await new ModernClient(`${gateway.url}/mcp`, {}, ADA).call('units__list_units', { kind: 'mass' });
  await expect
    .poll(async () => (await get('/metrics')).text, { timeout: 20_000 })
    .toMatch(/^parley_evaluations_waiting [1-9]/m);
  expect(await gateway.close()).toBe(0);
});
