/** Runs the examples of docs/agents.md as they are written there. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { BIN, type RunningGateway, startGateway } from '../support/gateway.js';
import { CARDS, message, rpc, startAgent, task, type WireAgent } from './peers/a2a.js';
import { callTool, type Json } from './peers/wire.js';

const PAGE = readFileSync(new URL('../../docs/agents.md', import.meta.url), 'utf8');
const [HINT, CALL, MESSAGE] = [...PAGE.matchAll(/```json\n([\s\S]*?)```/g)].map(
  ([, json]) => JSON.parse(json!) as Json,
);
const V1 = { 'a2a-version': '1.0' };

let planner: WireAgent;
let weather: WireAgent;
let gateway: RunningGateway;

beforeAll(async () => {
  const skills = [{ id: 'route', name: 'Route', description: 'Finds a way.', tags: ['travel'] }];
  planner = await startAgent((url) => ({ ...CARDS['1.0'](url), skills }));
  planner.says = ({ method, params }) => {
    const { contextId = 'new' } = params['message'] as Json;
    const made = task(`planned-${planner.heard.length}`, 'COMPLETED', { contextId });
    return method === 'SendMessage' ? { result: { task: made } } : { events: [{ task: made }] };
  };
  weather = await startAgent(() => ({}), /^(server|tools)\//);
  const city = { type: 'string' };
  const tools = [{ name: 'forecast', inputSchema: { type: 'object', properties: { city }, required: ['city'] } }];
  const results: Record<string, Json> = {
    'tools/list': { tools },
    'tools/call': { content: [{ type: 'text', text: 'sun' }] },
    'server/discover': { supportedVersions: ['2026-07-28'], capabilities: { tools: {} } },
  };
  weather.says = ({ method }) => ({
    result: { resultType: 'complete', ttlMs: 60_000, cacheScope: 'public', ...results[method] },
  });
  gateway = await startGateway({
    servers: { weather: { url: weather.url, transport: 'http', revision: 'modern' } },
    agents: { planner: { url: planner.url }, desk: { tools: ['weather__*'] } },
    log: { level: 'warn' },
  });
});

afterAll(async () => {
  await gateway?.close();
  await Promise.all([planner?.close(), weather?.close()]);
});

test('the curl line shows the front card in the quickstart', async () => {
  const [line] = /(?<=`)curl [^`]+(?=`)/.exec(PAGE)!;
  const folder = mkdtempSync(join(tmpdir(), 'parley-card-'));
  const env = { PATH: process.env['PATH'] ?? '', HOME: folder, PARLEY_LISTEN: '127.0.0.1:0' };
  const child = spawn(process.execPath, [BIN, 'serve'], { cwd: folder, env, stdio: ['ignore', 'pipe', 'ignore'] });
  let output = '';
  const url = await new Promise<string>((resolve, reject) => {
    child.stdout.on('data', (chunk: Buffer) => {
      output += chunk.toString();
      const found = /listening on (\S+)/.exec(output);
      if (found) resolve(found[1]!);
    });
    child.once('exit', (code) => reject(new Error(`it ended with code ${code}: ${output}`)));
  });
  const exit = once(child, 'exit');
  try {
    const { stdout } = await promisify(execFile)('sh', ['-c', line!.replace('http://127.0.0.1:4600', url)]);
    expect(JSON.parse(stdout)).toMatchObject({
      name: 'Parley',
      url: `${url}/a2a`,
      supportedInterfaces: expect.anything(),
    });
  } finally {
    child.kill('SIGINT');
    await exit;
    rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
  }
});

test('the hint selects its agent, and the answer names it', async () => {
  const { result } = await rpc(
    `${gateway.url}/a2a`,
    'SendMessage',
    { message: message('hi', { metadata: HINT! }) },
    V1,
  );
  const [key] = Object.keys(HINT!);
  expect(result).toMatchObject({ task: { metadata: { [key!]: { agent: 'planner', why: 'hint' } } } });
});

test('S1-76: an agent is called as a tool', async () => {
  const { name, arguments: args } = CALL as { name: string; arguments: Json };
  const { result } = await callTool(`${gateway.url}/mcp`, name, args);
  expect(result).toMatchObject({ structuredContent: { state: 'completed', contextId: args['contextId'] } });
  const { params } = planner.heard.at(-1)!;
  expect(params).toMatchObject({ message: { parts: [{ text: args['message'] }], contextId: args['contextId'] } });
});

test('S1-76: a tool is called as an agent', async () => {
  const { result } = await rpc(`${gateway.url}/a2a/desk`, 'SendMessage', { message: MESSAGE! }, V1);
  expect(result).toMatchObject({
    task: { status: { state: 'TASK_STATE_COMPLETED' }, artifacts: [{ parts: [{ text: 'sun' }] }] },
  });
  expect(weather.heard.at(-1)!.params).toMatchObject({ name: 'forecast', arguments: { city: 'Oslo' } });
});
