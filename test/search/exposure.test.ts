/** Exposure modes: clients of every era find and call tools through `search_tools` and `call_tool`. */
import { readFile, writeFile } from 'node:fs/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { namesIn, type ShownServer, startShown } from '../catalog/support.js';
import { startFixture } from '../conformance/fixture.js';
import { connectClient, type EraClient, type Json, type Revision } from '../eras/peers.js';
import { modern } from '../eras/raw.js';
import { eventually } from '../support/eventually.js';
import { type RunningGateway, startGateway } from '../support/gateway.js';

const CLIENTS: readonly Revision[] = ['2025-03-26', '2025-11-25', '2026-07-28'];
const FORM = { elicitation: {} };
const TASKS = { elicitation: { form: {} }, extensions: { 'io.modelcontextprotocol/tasks': {} } };
const ANSWER = { action: 'accept', content: { name: 'Ada' } };

const servers = new Map<string, ShownServer>();
const gateways = new Map<string, RunningGateway>();
const clients: EraClient[] = [];

beforeAll(async () => {
  for (const era of ['legacy', 'modern'] as const) servers.set(era, await startShown(era, 'http'));
  const settings = Object.fromEntries([...servers].map(([name, server]) => [name, server.settings]));
  const routings: Readonly<Record<string, object>> = {
    search: { exposure: 'search' },
    hybrid: { exposure: 'hybrid', pinned: ['modern__plain'] },
    auto: { exposure: 'auto' },
    reloaded: { exposure: 'full' },
  };
  const views = {
    whole: { servers: ['modern'], routing: { exposure: 'full' } },
    found: { servers: ['modern'], routing: { exposure: 'search' } },
    some: { servers: ['modern', 'legacy'], tools: { deny: ['modern__plain'] }, routing: { exposure: 'search' } },
  };
  for (const [mode, routing] of Object.entries(routings)) {
    const policy = mode === 'hybrid' ? { policy: { approve: { tools: ['legacy__plain'] } } } : {};
    gateways.set(mode, await startGateway({ log: { level: 'warn' }, servers: settings, routing, views, ...policy }));
  }
});
afterEach(async () => {
  for (const client of clients.splice(0)) await client.close();
});
afterAll(async () => {
  for (const gateway of gateways.values()) await gateway.close();
  for (const server of servers.values()) await server.close();
});

async function connect(mode: string, revision: Revision, capabilities: Json = {}, path = '/mcp'): Promise<EraClient> {
  const endpoint = { transport: 'http', url: `${gateways.get(mode)!.url}${path}`, config: '' } as const;
  const client = await connectClient(revision, endpoint, { capabilities, answer: () => ANSWER });
  clients.push(client);
  return client;
}

const textIn = (result: Json): string => (result['content'] as { text: string }[])[0]!.text;
const search = async (client: EraClient, query: string, more: Json = {}): Promise<string> =>
  textIn(await client.call('search_tools', { query, ...more }));
/** Repeats the search while a server has not answered yet. */
const found = async (client: EraClient, query: string, more: Json = {}): Promise<Json[]> => {
  const text = await eventually(
    () => search(client, query, more),
    (said) => said.startsWith('{') && !said.includes('"missing"'),
  );
  return (JSON.parse(text) as { tools: Json[] }).tools;
};
const listed = async (client: EraClient): Promise<string[]> => namesIn(await client.request('tools/list')).sort();

describe.each(CLIENTS)('a client of %s', (revision) => {
  // Revisions before 2025-06-18 have no elicitation.
  const capabilities: Json = revision === '2025-03-26' ? {} : FORM;
  const tool = revision === '2025-03-26' ? 'plain' : 'form';

  test('sees two tools, finds another and calls it, with a question on the way', async () => {
    const client = await connect('search', revision, capabilities);
    expect(await listed(client)).toEqual(['call_tool', 'search_tools']);
    for (const server of servers.keys()) {
      const [first] = await found(client, `a ${tool}`, { server });
      expect(first).toMatchObject({ name: `${server}__${tool}`, server, inputSchema: { type: 'object' } });
      const result = await client.call('call_tool', { name: first!['name'], arguments: {} });
      const said = JSON.parse(textIn(result)) as unknown;
      if (tool === 'form') expect(said).toMatchObject(ANSWER);
      else expect(said).toBe('plain');
    }
  });
});

test('a client with the tasks extension finds a tool and runs it as a task, with a question on the way', async () => {
  const fixture = await startFixture('tasks');
  const gateway = await startGateway({ servers: { files: { url: fixture.url } }, routing: { exposure: 'search' } });
  const ask = async (method: string, params: Json): Promise<Json> => {
    const { answer } = await modern(`${gateway.url}/mcp`, method, params, { capabilities: TASKS });
    return answer!.result!;
  };
  try {
    const searching = { name: 'search_tools', arguments: { query: 'delete a file after confirmation' } };
    const text = await eventually(
      async () => textIn(await ask('tools/call', searching)),
      (said) => said.includes('files__confirm_delete'),
    );
    const [{ name }] = (JSON.parse(text) as { tools: [Json] }).tools;
    expect(name).toBe('files__confirm_delete');
    const calling = { name: 'call_tool', arguments: { name, arguments: { filename: 'old.txt' } } };
    const task = await ask('tools/call', calling);
    expect(task).toMatchObject({ resultType: 'task' });
    const { taskId } = task;
    const reach = (status: string): Promise<Json> =>
      eventually(
        () => ask('tasks/get', { taskId }),
        (state) => state['status'] === status,
      );
    const { inputRequests } = (await reach('input_required')) as { inputRequests: Json };
    const answer = { action: 'accept', content: { confirm: true } };
    await ask('tasks/update', { taskId, inputResponses: { [Object.keys(inputRequests)[0]!]: answer } });
    expect(textIn((await reach('completed'))['result'] as Json)).toBe('Deleted old.txt');
  } finally {
    await gateway.close();
    await fixture.close();
  }
});

test('a search names the servers that it does not cover', async () => {
  const partial = { modern: servers.get('modern')!.settings, dead: { url: 'http://127.0.0.1:9/mcp' } };
  const gateway = await startGateway({ log: { level: 'error' }, servers: partial, routing: { exposure: 'search' } });
  gateways.set('partial', gateway);
  const client = await connect('partial', '2026-07-28');
  await eventually(
    () => search(client, 'plain'),
    (text) => text.includes('"modern__plain"') && text.endsWith('"missing":["dead"]}'),
  );
  expect(await search(client, 'plain', { server: 'modern' })).not.toContain('missing');
  expect(await search(client, 'plain', { server: 'dead' })).toContain('does not cover dead');
});

test('search shows only the tools for the capabilities of the client', async () => {
  const client = await connect('search', '2026-07-28');
  expect(JSON.stringify(await client.call('search_tools', { query: 'form' }))).not.toContain('__form');
});

test('brief results have no schemas, and a bad argument is explained to the model', async () => {
  const client = await connect('search', '2026-07-28');
  const tools = await found(client, 'plain', { detail: 'brief', limit: 1 });
  expect(tools).toHaveLength(1);
  expect(tools[0]).not.toHaveProperty('inputSchema');
  expect(await client.call('search_tools', { query: 'plain', limit: 1000 })).toMatchObject({ isError: true });
  expect(await client.call('search_tools', {})).toMatchObject({ isError: true });
});

test('an unknown name is answered with the nearest names', async () => {
  const client = await connect('search', '2026-07-28');
  await expect(client.call('call_tool', { name: 'plain_tool' })).rejects.toThrow('legacy__plain');
  await expect(client.call('call_tool', { name: 'call_tool' })).rejects.toThrow('call it directly');
  await expect(client.call('call_tool', {})).rejects.toThrow('"name" of call_tool must be a string');
});

test('the endpoint of one server lists every tool', async () => {
  expect(await listed(await connect('search', '2026-07-28', {}, '/mcp/modern'))).toContain('plain');
});

test('hybrid lists the pinned tools too; auto lists all of a short list', async () => {
  expect(await listed(await connect('hybrid', '2026-07-28'))).toEqual(['call_tool', 'modern__plain', 'search_tools']);
  expect(await listed(await connect('auto', '2026-07-28'))).toContain('legacy__grow');
});

test('approval sees the real tool, not call_tool', async () => {
  const client = await connect('hybrid', '2026-07-28', FORM);
  await client.call('call_tool', { name: 'modern__plain' });
  expect(client.questions).toHaveLength(0);
  const runs = servers.get('legacy')!.happened('run').length;
  await client.call('call_tool', { name: 'legacy__plain' }).catch(() => {});
  expect(client.questions.map(({ method }) => method)).toContain('elicitation/create');
  expect(JSON.stringify(client.questions)).toContain('plain');
  expect(servers.get('legacy')!.happened('run').length - runs).toBeLessThanOrEqual(1);
});

test('each view has a mode of its own, and its search covers only its tools', async () => {
  const whole = await connect('search', '2026-07-28', {}, '/mcp/whole');
  expect(await listed(whole)).toContain('modern__plain');
  await expect(whole.call('search_tools', { query: 'plain' })).rejects.toThrow('search_tools');
  const single = await connect('auto', '2026-07-28', {}, '/mcp/found');
  expect(await listed(single)).toEqual(['call_tool', 'search_tools']);
  expect((await found(single, 'plain', { limit: 20 })).map(({ server }) => server)).not.toContain('legacy');
  await expect(single.call('call_tool', { name: 'legacy__plain' })).rejects.toThrow('nearest');
  const some = await connect('auto', '2026-07-28', {}, '/mcp/some');
  expect((await found(some, 'plain', { limit: 20 })).map(({ name }) => name)).not.toContain('modern__plain');
  await expect(some.call('call_tool', { name: 'modern__plain' })).rejects.toThrow('nearest');
});

test('a changed mode takes effect without a restart, for connected clients too', async () => {
  const gateway = gateways.get('reloaded')!;
  const client = await connect('reloaded', '2025-11-25');
  expect(await listed(client)).toContain('modern__plain');
  const written = JSON.parse(await readFile(gateway.file, 'utf8')) as { routing: object; views: object };
  const views = { ...written.views, whole: { servers: ['modern'], routing: { exposure: 'search' } } };
  await writeFile(gateway.file, JSON.stringify({ ...written, routing: { exposure: 'search' }, views }));
  const short = ['call_tool', 'search_tools'];
  await eventually(
    () => listed(client),
    (names) => names.join() === short.join(),
  );
  expect(await listed(await connect('reloaded', '2026-07-28', {}, '/mcp/whole'))).toEqual(short);
  expect(gateway.log()).not.toContain('only after a restart');
});
