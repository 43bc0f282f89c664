import type { ServerResponse } from 'node:http';
import { afterEach, expect, it } from 'vitest';
import { beginStream, type LooseServer, startLoose } from '../../../../test/support/counting-server.js';
import { GATEWAY } from '../../../core/caller.js';
import { revisionOf } from '../../../protocol/mcp/revisions/index.js';
import { gatewayCall } from '../gateway-call.js';
import { LegacySession } from './legacy-session.js';
import { SseChannel } from './sse-channel.js';

let server: LooseServer | undefined;
let session: LegacySession | undefined;
afterEach(async () => {
  await session?.close();
  await server?.close();
});

const patiently = { timeout: 20_000 };

/** Opens a session with a server that answers on its stream after a delay and never ends the response to a POST. */
async function open(
  call: number,
  after: (method: string | undefined) => number = () => 0,
  events: { streamClosed?(): void; told?(method: string | undefined, res: ServerResponse): void } = {},
): Promise<LegacySession> {
  let stream: ServerResponse | undefined;
  server = await startLoose(({ id, method }, res, req) => {
    if (req.method === 'GET') {
      stream = res;
      res.once('close', () => events.streamClosed?.());
      beginStream(res, 'event: endpoint\ndata: /messages\n\n');
    } else if (id !== undefined) {
      const result = { protocolVersion: '2024-11-05', capabilities: {}, serverInfo: { name: 'loose', version: '1' } };
      const text = JSON.stringify({ jsonrpc: '2.0', id, result });
      const say = (): unknown => (res.destroyed ? undefined : stream!.write(`event: message\ndata: ${text}\n\n`));
      setTimeout(say, after(method));
    } else events.told?.(method, res);
  });
  const context = server.context({ call });
  session = await LegacySession.open({
    context,
    channel: new SseChannel(context, server.url, { caller: GATEWAY, key: '' }),
    capabilities: {},
    offer: revisionOf('2024-11-05')!,
    listen: false,
    events: { changed: () => {}, gap: () => {}, ended: () => {} },
  });
  return session;
}

it('closes POST responses that do not end', async () => {
  const legacy = await open(2_000);
  for (let i = 0; i < 5; i++) legacy.tell('notifications/anything');
  await Promise.all(Array.from({ length: 5 }, () => legacy.request(GATEWAY, gatewayCall('ping'))));
  // Only the stream stays open.
  await expect.poll(() => server!.connections.size, patiently).toBe(1);
  expect(legacy.ended).toBe(false);
});

it('keeps the POST of a request that is still under way', async () => {
  const legacy = await open(1_500, (method) => (method === 'slow' ? 4_000 : 0));
  const slow = { ...gatewayCall('slow'), timeouts: { call: 30_000, callMax: 30_000 } };
  expect(await legacy.request(GATEWAY, slow)).toMatchObject({ kind: 'complete' });
});

it('closes all connections when it is closed', async () => {
  const legacy = await open(60_000);
  for (let i = 0; i < 5; i++) legacy.tell('notifications/anything');
  await expect.poll(() => server!.connections.size, patiently).toBeGreaterThanOrEqual(5);
  await legacy.close();
  await expect.poll(() => server!.connections.size, patiently).toBe(0);
});

it('keeps the stream open until the server has taken the last message', async () => {
  const order: string[] = [];
  const legacy = await open(60_000, () => 0, {
    streamClosed: () => order.push('the stream was closed'),
    told: (method, res) => {
      const last = method === 'notifications/last';
      const take = (): void => {
        if (last && !res.destroyed) order.push('the last message was taken');
        res.writeHead(202).end();
      };
      setTimeout(take, last ? 300 : 0);
    },
  });
  legacy.tell('notifications/last');
  await legacy.close();
  await expect.poll(() => order, patiently).toEqual(['the last message was taken', 'the stream was closed']);
});
