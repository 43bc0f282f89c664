/**
 * Registrations, changes and removals of a server at one replica are in effect at the other replica, on every surface.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { RunningGateway } from '../../src/app/running-gateway.js';
import { startServe } from '../../src/app/serve.js';
import { configFrom } from '../../src/config/load.js';
import { SILENT } from '../../src/telemetry/log.js';
import { Session, SseClient } from '../input/support/speak.js';
import type { EventStream } from '../input/support/wire.js';
import type { CountedUpstream } from '../pipeline/upstreams.js';
import { modern, startItems } from '../policy/world.js';
import { eventually } from '../support/eventually.js';
import { ADA, rest } from './world.js';

let folder: string;
let a: RunningGateway;
let b: RunningGateway;
let server: CountedUpstream;
let sse: SseClient;
let session: Session;
let stream: EventStream;

const AS_ADA = { authorization: `Bearer ${ADA}` };

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'parley-surfaces-'));
  server = await startItems('made');
  const start = (): Promise<RunningGateway> =>
    startServe(
      configFrom(
        {
          listen: '127.0.0.1:0',
          data: join(folder, 'data'),
          egress: { allowPrivate: true },
          timeouts: { drain: '1s' },
          mcp: { rawProxy: true },
          auth: { tokens: [{ name: 'ada', token: ADA, admin: true }] },
        },
        { env: {} },
      ).config,
      { log: SILENT },
    );
  a = await start();
  b = await start();
  sse = await SseClient.connect(`${b.url}/mcp/sse`, AS_ADA);
  await sse.initialize('2024-11-05');
  session = await Session.open(`${b.url}/mcp`, '2025-06-18', AS_ADA);
  stream = await session.listen();
});
afterAll(async () => {
  stream?.close();
  sse?.close();
  await b?.close();
  await a?.close();
  await server?.close();
  await rm(folder, { recursive: true, force: true });
});

/** The tools of the server on each surface of the second replica; the raw proxy shows whether the server is there. */
async function surfaces(): Promise<Record<string, readonly string[]>> {
  const names = (tools: readonly { name: string }[]): string[] =>
    tools.map(({ name }) => name.replace('made__', '')).sort();
  const listed = JSON.parse((await modern(b.url, 'tools/list', {}, { token: ADA })).text);
  const over = await sse.request('tools/list', {}, `list ${Math.random()}`);
  const plain = await rest(b, '/mcp-rest/tools/list?server_id=made', { token: ADA });
  const parity = await rest(b, '/v1/mcp/server/made', { token: ADA });
  const proxied = await fetch(`${b.url}/mcp-proxy/made`, {
    method: 'POST',
    headers: { ...AS_ADA, 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} }),
  });
  const raw = (await proxied.json()) as { result?: { tools: { name: string }[] } };
  return {
    '/mcp': names(listed.result.tools),
    '/mcp/sse': names(over.result.tools),
    '/mcp-rest': plain.status === 200 ? names(plain.body.tools) : [],
    '/v1/mcp': parity.status === 200 ? [...parity.body.tools].sort() : [],
    '/mcp-proxy': names(raw.result?.tools ?? []),
  };
}

const everywhere = (tools: readonly string[], raw = tools): Record<string, readonly string[]> => ({
  ...{ '/mcp': tools, '/mcp/sse': tools, '/mcp-rest': tools, '/v1/mcp': tools },
  '/mcp-proxy': raw,
});
const become = async (expected: Record<string, readonly string[]>): Promise<void> => {
  await eventually(surfaces, (found) => JSON.stringify(found) === JSON.stringify(expected));
};
const changes = (messages: readonly { method?: string }[]): number =>
  messages.filter(({ method }) => method === 'notifications/tools/list_changed').length;
const change = (method: string, path: string, body?: object) =>
  rest(a, path, { token: ADA, method, ...(body && { body }) });

test('S0-01, S0-11, S0-34: on all five surfaces of the other replica, with list_changed on both kinds of stream', async () => {
  expect(await surfaces()).toEqual(everywhere([]));

  const made = await change('POST', '/v1/mcp/server', { server_id: 'made', url: server.url });
  expect(made.status).toBe(201);
  await become(everywhere(['add', 'cloaked']));
  for (const each of [sse.stream, stream]) await each.until(({ messages }) => changes(messages) > 0);

  const before = [changes(sse.stream.messages), changes(stream.messages)];
  const changed = await change('PUT', '/v1/mcp/server', { server_id: 'made', allowed_tools: ['add'] });
  expect(changed.status).toBe(202);
  // The raw proxy shows the server itself, which still has both tools.
  await become(everywhere(['add'], ['add', 'cloaked']));
  for (const [n, each] of [sse.stream, stream].entries())
    await each.until(({ messages }) => changes(messages) > before[n]!);

  expect((await change('DELETE', '/v1/mcp/server/made')).status).toBe(202);
  await become(everywhere([]));
});
