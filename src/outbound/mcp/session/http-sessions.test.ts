import type { ServerResponse } from 'node:http';
import { afterEach, expect, it } from 'vitest';
import { beginStream, type LooseServer, sendJson, startLoose } from '../../../../test/support/counting-server.js';
import { type Caller, Cancellation, GATEWAY, principalOf } from '../../../core/caller.js';
import type { Outcome } from '../../../core/gateway.js';
import type { ClientCapabilities } from '../../../protocol/mcp/model.js';
import { revisionOf } from '../../../protocol/mcp/revisions/index.js';
import { gatewayCall } from '../gateway-call.js';
import { HttpSessions } from './http-sessions.js';

let server: LooseServer | undefined;
let sessions: HttpSessions | undefined;
afterEach(async () => {
  await sessions?.close();
  await server?.close();
});

/** Opened and ended sessions, and the requests that the server leaves without an answer. */
const seen = { opened: 0, ended: 0, hanging: [] as ServerResponse[] };

async function start(): Promise<HttpSessions> {
  Object.assign(seen, { opened: 0, ended: 0, hanging: [] });
  server = await startLoose(({ id, method, params }, res, req) => {
    if (req.method === 'DELETE') {
      seen.ended++;
      res.writeHead(200).end();
    } else if (req.method === 'GET') beginStream(res, ': open\n\n');
    else if (id === undefined) res.writeHead(202).end();
    else if (method === 'initialize') {
      const result = { protocolVersion: '2025-11-25', capabilities: {}, serverInfo: { name: 'loose', version: '1' } };
      sendJson(res, { jsonrpc: '2.0', id, result }, { 'mcp-session-id': `s${++seen.opened}` });
    } else if (params?.['name'] === 'hang') seen.hanging.push(res);
    else sendJson(res, { jsonrpc: '2.0', id, result: { content: [] } });
  });
  sessions = new HttpSessions({
    context: server.context(),
    url: server.url,
    offer: revisionOf('2025-11-25')!,
    transport: 'http',
    pool: 4,
    idle: 600_000,
    found: () => {},
    overheard: () => {},
  });
  return sessions;
}

/** A client without a session, whose requests carry its capabilities. */
const callerWith = (capabilities: ClientCapabilities, subject = 'ada'): Caller => ({
  ...GATEWAY,
  principal: principalOf({ subject }),
  capabilities,
});
const numbered = (i: number): ClientCapabilities => ({ elicitation: { form: { [`x${i}`]: {} } } });

const call = (caller: Caller, name = 'answer', cancellation = new Cancellation()): Promise<Outcome> =>
  sessions!.request(caller, { ...gatewayCall('tools/call', { name }), cancellation });
const reasonOf = (outcome: Outcome): string | undefined =>
  outcome.kind === 'error' && 'reason' in outcome.error ? outcome.error.reason : undefined;

it('limits the sessions of a caller that declares other capabilities in each request', async () => {
  await start();
  const cancellation = new Cancellation();
  const running: Promise<Outcome>[] = [];
  for (let i = 0; i < 32; i++) running.push(call(callerWith(numbered(i)), 'hang', cancellation));
  await expect.poll(() => seen.hanging.length, { timeout: 60_000 }).toBe(32);
  expect(reasonOf(await call(callerWith(numbered(32))))).toBe('overloaded');
  // Other callers have sessions of their own, and a known set of capabilities needs no further one.
  expect((await call(callerWith(numbered(0), 'bob'))).kind).toBe('complete');
  expect((await call(callerWith(numbered(0)))).kind).toBe('complete');
  expect(seen.opened).toBe(33);
  cancellation.cancel();
  await Promise.all(running);
});

it('closes the session that was unused for longest when a caller has too many', async () => {
  await start();
  for (let i = 0; i < 32; i++) expect((await call(callerWith(numbered(i)))).kind).toBe('complete');
  const next = async (): Promise<string> => (await call(callerWith(numbered(32)))).kind;
  await expect.poll(next, { timeout: 60_000 }).toBe('complete');
  await expect.poll(() => seen.ended, { timeout: 60_000 }).toBe(1);
  expect(seen.opened).toBe(33);
});

it('refuses capabilities that are too large to keep with a session', async () => {
  await start();
  const capabilities = { elicitation: { form: { note: 'x'.repeat(20_000) } } };
  expect(reasonOf(await call(callerWith(capabilities)))).toBe('invalid_params');
  expect(seen.opened).toBe(0);
});

it('limits the pools over HTTP+SSE for callers that declare other capabilities in each request', async () => {
  const streams: ServerResponse[] = [];
  server = await startLoose(({ id, method }, res, req) => {
    if (req.method === 'GET') {
      beginStream(res, `event: endpoint\ndata: /mcp?stream=${streams.push(res) - 1}\n\n`);
      return;
    }
    res.writeHead(202).end();
    const result =
      method === 'initialize'
        ? { protocolVersion: '2024-11-05', capabilities: {}, serverInfo: { name: 'loose', version: '1' } }
        : { content: [] };
    const stream = streams[Number(req.url!.split('=')[1])]!;
    if (id !== undefined) stream.write(`event: message\ndata: ${JSON.stringify({ jsonrpc: '2.0', id, result })}\n\n`);
  });
  sessions = new HttpSessions({
    context: server.context(),
    url: server.url,
    offer: revisionOf('2024-11-05')!,
    transport: 'sse',
    pool: 4,
    idle: 600_000,
    found: () => {},
    overheard: () => {},
  });
  const open = (): number => streams.filter(({ destroyed }) => !destroyed).length;
  const withExtension = (i: number): Caller =>
    callerWith({ elicitation: { form: {} }, extensions: { [`com.e/${i}`]: {} } });
  for (let i = 0; i < 40; i++) {
    const one = async (): Promise<string> => (await call(withExtension(i))).kind;
    await expect.poll(one, { timeout: 60_000 }).toBe('complete');
  }
  await expect.poll(open, { timeout: 60_000 }).toBeLessThanOrEqual(32);
});
