import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, expect, it } from 'vitest';
import {
  beginStream,
  type LooseServer,
  type Posted,
  sendJson,
  startLoose,
} from '../../../../test/support/counting-server.js';
import { GATEWAY } from '../../../core/caller.js';
import { revisionOf } from '../../../protocol/mcp/revisions/index.js';
import { httpTarget } from '../../http/index.js';
import { gatewayCall } from '../gateway-call.js';
import type { UpstreamContext } from '../upstream-context.js';
import { HttpChannel } from './http-channel.js';
import { LegacySession } from './legacy-session.js';

type Answer = (message: Posted, res: ServerResponse, req: IncomingMessage) => void;

let server: LooseServer | undefined;
let session: LegacySession | undefined;
afterEach(async () => {
  await session?.close();
  await server?.close();
});

const plainly: Answer = (message, res, req) => {
  if (req.method === 'DELETE') res.writeHead(200).end();
  else if (req.method === 'GET') res.writeHead(405).end();
  else if (message.id === undefined) res.writeHead(202).end();
  else if (message.method === 'initialize') {
    const result = { protocolVersion: '2025-11-25', capabilities: {}, serverInfo: { name: 'loose', version: '1' } };
    sendJson(res, { jsonrpc: '2.0', id: message.id, result }, { 'mcp-session-id': 's1' });
  } else sendJson(res, answerTo(message));
};

const answerTo = ({ id }: Posted): object => ({ jsonrpc: '2.0', id, result: {} });
const eventFor = (message: Posted): string => `data: ${JSON.stringify(answerTo(message))}\n\n`;
const patiently = { timeout: 20_000 };

/** Opens a session with a correct server. `special` returns true for requests that it answers itself. */
async function open(
  special: (...heard: Parameters<Answer>) => boolean | undefined,
  { listen = false, ...timeouts }: Partial<UpstreamContext['timeouts']> & { listen?: boolean } = {},
): Promise<LegacySession> {
  server = await startLoose((...heard) => {
    if (special(...heard) !== true) plainly(...heard);
  });
  const context = server.context(timeouts);
  session = await LegacySession.open({
    context,
    channel: new HttpChannel(context, httpTarget(server.url), { caller: GATEWAY, key: '' }),
    capabilities: {},
    offer: revisionOf('2025-11-25')!,
    listen,
    events: { changed: () => {}, gap: () => {}, ended: () => {} },
  });
  return session;
}

it('closes a reply stream that stays open after its answer', async () => {
  const legacy = await open((message, res) => message.method === 'slack' && beginStream(res, eventFor(message)));
  for (let i = 0; i < 5; i++)
    expect(await legacy.request(GATEWAY, gatewayCall('slack'))).toMatchObject({ kind: 'complete' });
  expect(server!.connections.size).toBeGreaterThanOrEqual(5);
  // The connection of the handshake is idle.
  await expect.poll(() => server!.connections.size, patiently).toBeLessThanOrEqual(2);
});

it('closes a reply stream whose answer came on another stream', async () => {
  let unsolicited: ServerResponse | undefined;
  const legacy = await open(
    (message, res, req) => {
      if (req.method === 'GET') unsolicited = res;
      if (req.method === 'GET') return beginStream(res, ': hello\n\n');
      if (message.method === 'slack') unsolicited!.write(eventFor(message));
      return message.method === 'slack';
    },
    { listen: true },
  );
  await expect.poll(() => unsolicited, patiently).toBeDefined();
  for (let i = 0; i < 5; i++)
    expect(await legacy.request(GATEWAY, gatewayCall('slack'))).toMatchObject({ kind: 'complete' });
  // The connection of the handshake and the GET stream stay open.
  await expect.poll(() => server!.connections.size, patiently).toBeLessThanOrEqual(3);
  expect(unsolicited!.destroyed).toBe(false);
});

it('keeps the connection of a reply stream that ends soon after its answer', async () => {
  const legacy = await open((message, res) => {
    if (message.method !== 'soon') return false;
    setTimeout(() => res.end(), 100);
    return beginStream(res, eventFor(message));
  });
  await sleep(200);
  const { opened } = server!;
  await legacy.request(GATEWAY, gatewayCall('soon'));
  // Longer than the time after which an open reply stream is closed.
  await sleep(1_500);
  await legacy.request(GATEWAY, gatewayCall('soon'));
  expect(server!.opened).toBe(opened);
});

it('stops waiting for the acceptance of a notification after a time limit', async () => {
  const legacy = await open(({ method }) => method === 'notifications/cancelled', { call: 2_000 });
  for (let i = 0; i < 5; i++) legacy.tell('notifications/cancelled', { requestId: i });
  await expect.poll(() => server!.opened, patiently).toBeGreaterThanOrEqual(5);
  await expect.poll(() => server!.connections.size, patiently).toBeLessThanOrEqual(2);
});

it('stops waiting for the deletion of a session after a time limit', async () => {
  let deleting: ServerResponse | undefined;
  const legacy = await open((_, res, req) => {
    if (req.method === 'DELETE') deleting = res;
    return req.method === 'DELETE';
  });
  await legacy.close();
  expect(deleting).toBeDefined();
  await expect.poll(() => deleting!.destroyed, patiently).toBe(true);
});

it.each(['3000000000', '0'])('limits the retry time of %s ms that a server sends', async (retry) => {
  let asked = 0;
  await open(
    (_, res, req) => {
      if (req.method !== 'GET') return false;
      asked++;
      beginStream(res, `retry: ${retry}\n\n`);
      res.end();
      return true;
    },
    { listen: true },
  );
  await expect.poll(() => asked, patiently).toBeGreaterThan(0);
  await sleep(1_000);
  expect(asked).toBeLessThanOrEqual(100);
});

it('waits before it resumes a reply that a server wants resumed at once', async () => {
  let asked = 0;
  const legacy = await open((message, res, req) => {
    if (req.method !== 'GET' && message.method !== 'slack') return false;
    asked++;
    beginStream(res, 'retry: 0\nid: a\ndata: {"jsonrpc":"2.0","method":"notifications/x"}\n\n');
    res.end();
    return true;
  });
  void legacy.request(GATEWAY, gatewayCall('slack'));
  await expect.poll(() => asked, patiently).toBeGreaterThan(1);
  await sleep(1_000);
  expect(asked).toBeLessThanOrEqual(100);
});

/** The `Last-Event-ID` header decoded as UTF-8. */
const lastEventId = ({ headers }: IncomingMessage): string | undefined => {
  const value = headers['last-event-id'];
  return typeof value === 'string' ? Buffer.from(value, 'latin1').toString() : undefined;
};

it.each([
  ['世-1', '世-1'],
  ['é', 'é'],
  ['\x01', undefined],
])('resumes the GET stream after the event %j', async (id, expected) => {
  const asked: (string | undefined)[] = [];
  await open(
    (_, res, req) => {
      if (req.method !== 'GET') return false;
      asked.push(lastEventId(req));
      beginStream(res, `retry: 100\nid: ${id}\ndata:\n\n`);
      res.end();
      return true;
    },
    { listen: true },
  );
  await expect.poll(() => asked.length, patiently).toBeGreaterThan(2);
  expect(asked.slice(0, 3)).toEqual([undefined, expected, expected]);
});

it('resumes a reply from an event whose id is not ASCII', async () => {
  const asked: (string | undefined)[] = [];
  let call: Posted | undefined;
  const legacy = await open((message, res, req) => {
    if (message.method === 'slack') {
      call = message;
      beginStream(res, 'retry: 100\nid: 世-1\ndata:\n\nid: \x01\ndata:\n\n');
      res.end();
    } else if (req.method === 'GET') {
      asked.push(lastEventId(req));
      beginStream(res, eventFor(call!));
      res.end();
    }
    return call === message || req.method === 'GET';
  });
  expect(await legacy.request(GATEWAY, gatewayCall('slack'))).toMatchObject({ kind: 'complete' });
  expect(asked).toEqual(['世-1']);
});

it('S0-18: sends no request before the server has accepted notifications/initialized', async () => {
  const heard: string[] = [];
  let initialize = (_: ServerResponse): void => {};
  const initialized = new Promise<ServerResponse>((resolve) => {
    initialize = resolve;
  });
  const opening = open((message, res) => {
    if (message.method !== undefined) heard.push(message.method);
    if (message.method !== 'notifications/initialized') return false;
    initialize(res);
    return true;
  });
  const res = await initialized;
  await sleep(100);
  expect(heard).toEqual(['initialize', 'notifications/initialized']);
  res.writeHead(202).end();
  await (await opening).own('tools/list');
  expect(heard.at(-1)).toBe('tools/list');
});

it('continues with a server that never accepts notifications/initialized', patiently, async () => {
  const opened = await open((message) => message.method === 'notifications/initialized');
  await expect(opened.own('tools/list')).resolves.toEqual({});
});
