import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, expect, it } from 'vitest';
import {
  beginStream,
  type LooseServer,
  type Posted,
  sendJson,
  startLoose,
} from '../../../test/support/counting-server.js';
import { GATEWAY } from '../../core/caller.js';
import { NEWEST } from '../../protocol/mcp/revisions/index.js';
import { httpTarget } from '../http/index.js';
import { gatewayCall } from './gateway-call.js';
import { ModernHttp } from './modern-http.js';

let server: LooseServer | undefined;
afterEach(() => server?.close());

async function against(answer: (message: Posted, res: ServerResponse) => void): Promise<ModernHttp> {
  server = await startLoose(answer);
  return new ModernHttp(server.context(), httpTarget(server.url), NEWEST);
}

const answerTo = ({ id }: Posted): object => ({ jsonrpc: '2.0', id, result: { resultType: 'complete' } });
const eventFor = (message: Posted): string => `data: ${JSON.stringify(answerTo(message))}\n\n`;
const stream = (res: ServerResponse): ServerResponse => res.writeHead(200, { 'content-type': 'text/event-stream' });
const patiently = { timeout: 20_000 };

it('closes a reply stream that stays open after its answer', async () => {
  const wire = await against((message, res) => beginStream(res, eventFor(message)));
  for (let i = 0; i < 5; i++)
    expect(await wire.send({}, gatewayCall('tools/list'), GATEWAY)).toMatchObject({ kind: 'complete' });
  await expect.poll(() => server!.connections.size, patiently).toBe(0);
});

it.each([
  ['in one body', (message: Posted, res: ServerResponse) => sendJson(res, answerTo(message))],
  ['in a stream that ends at once', (message, res) => void stream(res).end(eventFor(message))],
  [
    'in a stream that ends soon',
    (message, res) => {
      beginStream(res, eventFor(message));
      setTimeout(() => res.end(), 100);
    },
  ],
] as [string, (message: Posted, res: ServerResponse) => void][])(
  'keeps the connection of an answer that came %s',
  async (_, answer) => {
    const wire = await against(answer);
    await wire.send({}, gatewayCall('tools/list'), GATEWAY);
    // Longer than the time after which an open reply stream is closed.
    await sleep(1_500);
    await wire.send({}, gatewayCall('tools/list'), GATEWAY);
    expect(server!.opened).toBe(1);
  },
);

it('keeps a subscription open', async () => {
  const wire = await against((_, res) =>
    beginStream(res, 'data: {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{}}\n\n'),
  );
  const lost: string[] = [];
  const stream = await wire.listen(
    {},
    () => {},
    (why) => lost.push(why),
    GATEWAY,
  );
  await sleep(1_500);
  expect([lost, server!.connections.size]).toEqual([[], 1]);
  stream.close();
});
