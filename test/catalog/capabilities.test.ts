/**
 * Servers may show tools only to clients with certain capabilities. Each caller sees and calls the tools for its
 * capabilities.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../era-bridge/support/wire.js';
import { connectClient, type EraClient, type Json, type Revision } from '../eras/peers.js';
import { type RunningGateway, startGateway } from '../support/gateway.js';
import { type ShownServer, startShown, toolsOf } from './support.js';

const KINDS = [
  ['legacy', 'stdio'],
  ['legacy', 'http'],
  ['legacy', 'sse'],
  ['modern', 'stdio'],
  ['modern', 'http'],
] as const;
const CLIENTS: readonly Revision[] = ['2025-11-25', '2026-07-28'];

const UI = 'io.modelcontextprotocol/ui';
const ALL = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} };
/** Sets of capabilities, and the additional tools for each set. */
const SETS: readonly (readonly [string, Json, readonly string[]])[] = [
  ['nothing', {}, []],
  ['forms', { elicitation: { form: {} } }, ['form']],
  ['forms in the legacy notation', { elicitation: {} }, ['form']],
  ['sampling and roots', { sampling: {}, roots: { listChanged: true } }, ['sample', 'roots']],
  ['everything', ALL, ['form', 'page', 'sample', 'roots']],
  ['pages of tools', { extensions: { [UI]: { mimeTypes: ['text/html;profile=mcp-app'] } } }, ['app']],
];

const ANSWERS: Readonly<Record<string, Json>> = {
  'elicitation/create': { action: 'accept', content: { name: 'Ada' } },
  'sampling/createMessage': { role: 'assistant', model: 'm', content: { type: 'text', text: 'Something' } },
  'roots/list': { roots: [{ uri: 'file:///home', name: 'home' }] },
};

const servers = new Map<string, ShownServer>();
let gateway: RunningGateway;
const clients: EraClient[] = [];

beforeAll(async () => {
  for (const [era, transport] of KINDS) servers.set(`${era}-${transport}`, await startShown(era, transport));
  const settings = [...servers].map(([name, server]) => [name, server.settings]);
  gateway = await startGateway({ log: { level: 'warn' }, servers: Object.fromEntries(settings) });
});
afterEach(async () => {
  for (const client of clients.splice(0)) await client.close();
});
afterAll(async () => {
  await gateway?.close();
  for (const server of servers.values()) await server.close();
});

async function connect(revision: Revision, path: string, capabilities: Json): Promise<EraClient> {
  const endpoint = { transport: 'http', url: `${gateway.url}${path}`, config: '' } as const;
  const client = await connectClient(revision, endpoint, { capabilities, answer: (method) => ANSWERS[method]! });
  clients.push(client);
  return client;
}

const textIn = (result: Json): string => (result['content'] as { text: string }[])[0]!.text;

describe.each(CLIENTS)('a client of %s', (revision) => {
  test.each(SETS)(
    'that declares %s sees the tools for it, at the endpoint of each server and of all',
    async (_, declared, earned) => {
      const own = ['grow', 'plain', ...earned].sort();
      for (const name of servers.keys())
        expect(await toolsOf(await connect(revision, `/mcp/${name}`, declared)), name).toEqual(own);
      const all = [...servers.keys()].flatMap((name) => own.map((tool) => `${name}__${tool}`)).sort();
      expect(await toolsOf(await connect(revision, '/mcp', declared))).toEqual(all);
    },
  );

  test.each([...KINDS])('calls these tools at a %s server over %s', async (era, transport) => {
    const name = `${era}-${transport}`;
    const client = await connect(revision, '/mcp', ALL);
    for (const [tool, method] of [
      ['form', 'elicitation/create'],
      ['sample', 'sampling/createMessage'],
      ['roots', 'roots/list'],
    ] as const)
      expect(JSON.parse(textIn(await client.call(`${name}__${tool}`)))).toMatchObject(ANSWERS[method]!);
    expect(textIn(await client.call(`${name}__page`))).toBe('"page"');
  });

  test('that lacks a capability gets an error that names it, and the tool does not run', async () => {
    const able = await connect(revision, '/mcp', { roots: {} });
    await toolsOf(able);
    const unable = await connect(revision, '/mcp', {});
    for (const [name, server] of servers) {
      const runs = server.happened('run').length;
      const said = await unable.call(`${name}__roots`).then(textIn, (error: Error) => error.message);
      expect(said).toContain(`Server "${name}" offers tool "roots" to clients that declare roots`);
      expect(server.happened('run')).toHaveLength(runs);
      await expect(unable.call(`${name}__no-such-tool`)).rejects.toThrow('Unknown tool: no-such-tool');
    }
  });
});

test('callers with the same capabilities share one list', async () => {
  const declared = { elicitation: { form: {} }, sampling: {} };
  const lists = (): string => [...servers.values()].map((server) => server.happened('tools/list').length).join();
  const first = await connect('2025-11-25', '/mcp', declared);
  // Legacy servers announce tools that they register after the handshake, so their lists are read again.
  await eventually(
    async () => {
      const before = lists();
      await toolsOf(first);
      return before === lists();
    },
    (settled) => settled,
    60_000,
  );
  const before = lists();
  const others = await Promise.all(
    [1, 2, 3, 4].map((n) => connect(CLIENTS[n % 2]!, '/mcp', { ...declared, elicitation: {} })),
  );
  const seen = await Promise.all(Array.from({ length: 40 }, (_, index) => toolsOf(others[index % 4]!)));
  expect(new Set(seen.map((names) => names.join())).size).toBe(1);
  expect(lists()).toBe(before);
});

test('a stdio server is started once for all clients with the same capabilities', async () => {
  const server = servers.get('legacy-stdio')!;
  const started = (): number => server.happened('started').length;
  const declared = { elicitation: { form: {} }, roots: {} };
  const client = await connect('2025-11-25', '/mcp/legacy-stdio', { ...declared, roots: { listChanged: true } });
  const before = started();
  expect(await toolsOf(client)).toEqual(['form', 'grow', 'plain', 'roots']);
  expect(started()).toBe(before + 1);
  await client.call('form');
  await (await connect('2026-07-28', '/mcp/legacy-stdio', declared)).call('roots');
  expect(started()).toBe(before + 1);
});

// Over HTTP each client of a legacy server has its own session with its own tools.
test.each([
  ['legacy', 'stdio'],
  ['modern', 'stdio'],
  ['modern', 'http'],
])('a client with capabilities is notified of a change at a %s server over %s', async (era, transport) => {
  const client = await connect('2025-11-25', `/mcp/${era}-${transport}`, { sampling: {} });
  const before = await toolsOf(client);
  const told = (): number =>
    client.notifications.filter(({ method }) => method === 'notifications/tools/list_changed').length;
  const heard = told();
  await client.call('grow');
  await eventually(told, (count) => count > heard, 60_000);
  const after = await eventually(
    () => toolsOf(client),
    (names) => names.length > before.length,
    60_000,
  );
  const grown = after.find((tool) => tool.startsWith('grown-'))!;
  expect(textIn(await client.call(grown))).toBe(JSON.stringify(grown));
});
