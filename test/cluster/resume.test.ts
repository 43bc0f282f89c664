/** A client resumes a broken connection at any replica: it gets its reply, or an error with the known outcome. */
import { Client as ClientV2, StreamableHTTPClientTransport as TransportV2 } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { textOf } from '../era-bridge/support/clients.js';
import { ALICE, BOB, CLUSTERS, type Replica, type Replicas, startEngines } from './support/replicas.js';
import { Session } from './support/session.js';
import { CountedServer } from './support/upstream.js';

const INFO = { name: 'genuine', version: '1' };
const requestInit = { headers: { authorization: `Bearer ${ALICE}` } };

/** The part of the interface that both official SDK lines have in common and this test uses. */
interface GenuineClient {
  callTool(params: { name: string; arguments: Record<string, unknown> }): Promise<unknown>;
  close(): Promise<void>;
}

const GENUINE: readonly [string, (url: URL, fetch: typeof globalThis.fetch) => Promise<GenuineClient>][] = [
  [
    'sdk 1',
    async (url, fetch) => {
      const client = new ClientV1(INFO);
      await client.connect(new TransportV1(url, { requestInit, fetch }) as Parameters<ClientV1['connect']>[0]);
      return client;
    },
  ],
  [
    'sdk 2',
    async (url, fetch) => {
      const client = new ClientV2(INFO);
      await client.connect(new TransportV2(url, { requestInit, fetch }));
      return client;
    },
  ],
];

/** Sends POSTs to one replica and cuts replies to calls after the first event; other requests go to another replica. */
const cutting = (to: Replica, cut: () => Promise<void> = async () => {}): typeof globalThis.fetch => {
  return async (input, init) => {
    if (init?.method !== 'POST') return fetch(to.mcp, init);
    const response = await fetch(input, init);
    if (!String(init.body).includes('tools/call')) return response;
    const text = await response.text();
    const priming = text.slice(0, text.indexOf('\n\n') + 2);
    expect(priming).toContain('id: ');
    expect(priming).not.toContain('done');
    await cut();
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(new TextEncoder().encode(priming)),
      pull: (controller) => controller.error(new Error('the connection was cut')),
    });
    return new Response(body, { status: response.status, headers: { 'content-type': 'text/event-stream' } });
  };
};

describe.each(CLUSTERS)('cut replies on replicas over %s', (engine) => {
  let engines: Replicas;
  let counted: CountedServer;
  let a: Replica;
  let b: Replica;
  let doomed: Replica[];

  beforeAll(async () => {
    [engines, counted] = await Promise.all([startEngines(engine), new CountedServer().start()]);
    [a, b, ...doomed] = (await engines.start(4, { servers: { counted: { url: counted.url } } })) as [Replica, Replica];
  });
  afterAll(async () => {
    await engines?.stop();
    await counted?.close();
  });

  const runs = (key: string): number => counted.runs.filter((run) => run === key).length;

  /** Makes a quick call at a replica; returns the id of the event before its answer. */
  const quick = async (session: Session, at: Replica, key: string): Promise<{ id: number; before: string }> => {
    const { id, exchange } = session.call(at, 'counted__quick', { key });
    expect(textOf((await exchange.ended).at(-1)!)).toBe(`${key} done`);
    return { id, before: exchange.lastEventId!.replace(/\d+$/, '0') };
  };

  test('a quick reply is resumed at another replica, by its own caller only', async () => {
    const session = await Session.open(a);
    const key = `quick ${engine}`;
    const { id, before } = await quick(session, a, key);
    const rest = session.listen(b, before);
    const messages = await rest.ended;
    expect(rest.status).toBe(200);
    expect(messages).toHaveLength(1);
    expect(messages[0]).toMatchObject({ id, result: { content: [{ text: `${key} done` }] } });
    expect(runs(key)).toBe(1);
    expect(await session.as(BOB).status(b, before)).toBe(404);
    const other = await (await Session.open(a)).listen(b, before).ended;
    expect(JSON.stringify(other)).not.toContain('done');
  });

  test('a request for a reply that is not kept gets an error at every replica, and the session continues', async () => {
    const session = await Session.open(a);
    const { id, before } = await quick(session, a, `dropped ${engine}`);
    const lost = before.replace(/s\d+\.0$/, 's999.0');
    expect(lost).not.toBe(before);
    for (const replica of [a, b]) {
      const refused = session.listen(replica, lost);
      expect(await refused.ended).toMatchObject([
        { id, error: { code: -32000, data: { reason: 'event_not_found', outcome: 'unknown' } } },
      ]);
      expect(refused.status).toBe(200);
      const unknown = session.listen(replica, 'garbage.1');
      expect(await unknown.ended).toMatchObject([{ error: { data: { reason: 'event_not_found' } } }]);
      expect(unknown.status).toBe(400);
      expect((await session.request(replica, 'ping')).result).toEqual({});
    }
  });

  test.each(GENUINE)('%s: gets the reply of a call whose connection broke from another replica', async (name, open) => {
    const key = `genuine ${name} ${engine}`;
    const client = await open(new URL(a.mcp), cutting(b));
    const answer = await client.callTool({ name: 'counted__quick', arguments: { key } });
    expect(answer).toMatchObject({ content: [{ text: `${key} done` }] });
    expect(runs(key)).toBe(1);
    await client.close();
  });

  test.each(GENUINE)(
    '%s: gets an error with unknown outcome if the replica died with the reply',
    async (name, open) => {
      const key = `died ${name} ${engine}`;
      const dying = doomed.pop()!;
      const client = await open(
        new URL(dying.mcp),
        cutting(b, () => dying.kill()),
      );
      const failure = await client.callTool({ name: 'counted__quick', arguments: { key } }).catch((error) => error);
      expect(failure).toMatchObject({ code: -32000, data: { reason: 'event_not_found', outcome: 'unknown' } });
      expect(runs(key)).toBe(1);
      await client.close();
    },
  );
});
