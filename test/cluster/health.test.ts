/** C-21: health and readiness report the real state of database, bus and servers, without names to unknown callers. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ModernClient } from '../era-bridge/support/clients.js';
import { freePort } from '../support/services.js';
import { ALICE, CLUSTERS, type Replica, type Replicas, startEngines } from './support/replicas.js';
import { CountedServer } from './support/upstream.js';

const WAIT = { timeout: 30_000, interval: 200 };

describe.each(CLUSTERS)('over %s', (engine) => {
  let engines: Replicas;
  let counted: CountedServer;
  let replica: Replica;

  beforeAll(async () => {
    [engines, counted] = await Promise.all([startEngines(engine), new CountedServer().start()]);
    const servers = { counted: { url: counted.url }, misplaced: { url: `http://127.0.0.1:${await freePort()}/mcp` } };
    [replica] = (await engines.start(1, { servers })) as [Replica];
  });
  afterAll(async () => {
    await engines?.stop();
    await counted?.close();
  });

  const get = async (path: string, token?: string): Promise<{ status: number; body: Record<string, unknown> }> => {
    const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` };
    const reply = await fetch(`${replica.url}${path}`, { headers });
    return { status: reply.status, body: (await reply.json()) as Record<string, unknown> };
  };

  test('an unreachable server makes the gateway degraded, and it stays ready', async () => {
    await expect
      .poll(() => get('/health', ALICE), WAIT)
      .toMatchObject({ status: 200, body: { status: 'degraded', servers: { counted: 'up', misplaced: 'down' } } });
    expect(await get('/_health/ready')).toMatchObject({ status: 200, body: { status: 'degraded', is_degraded: true } });
  });

  test('S2-27: unidentified callers see the status, and neither numbers nor names of servers', async () => {
    const { body } = await get('/health');
    expect(body).toEqual({ status: 'degraded', transport: 'streamable-http', storage: 'ok' });
    expect(JSON.stringify([body, (await get('/_health/ready')).body])).not.toMatch(/counted|misplaced/);
  });

  const outage = (what: string, of: () => { begin(): unknown; end(): unknown }, check: string): void => {
    test(`${what}: live, not ready, and ready again after recovery`, async () => {
      const { begin, end } = of();
      await begin();
      try {
        await expect
          .poll(() => get('/_health/ready'), WAIT)
          .toMatchObject({
            status: 503,
            body: { status: 'not_ready', checks: { [check]: { status: 'unavailable' } } },
          });
        expect(await get('/health')).toMatchObject({
          status: 503,
          body: { status: 'unavailable', storage: 'unavailable' },
        });
        expect((await get('/_health/live')).status).toBe(200);
        // Calls of modern clients need no database.
        const called = await new ModernClient(replica.mcp, {}, ALICE).call('counted__quick', { key: what });
        expect(JSON.stringify(called)).toContain('done');
      } finally {
        await end();
      }
      await expect.poll(() => get('/_health/ready'), WAIT).toMatchObject({ status: 200, body: { status: 'degraded' } });
    }, 90_000);
  };
  const postgres = () => engines.postgres;
  outage(
    'a database that is killed',
    () => ({ begin: () => postgres().kill(), end: () => postgres().restart() }),
    'database',
  );
  outage(
    'a database that is frozen',
    () => ({ begin: () => postgres().freeze(), end: () => postgres().thaw() }),
    'database',
  );
  if (engine === 'postgres+redis')
    outage(
      'a bus that is killed',
      () => ({ begin: () => engines.redis!.kill(), end: () => engines.redis!.restart() }),
      'bus',
    );
});
