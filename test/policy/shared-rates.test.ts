/** S23: two replicas on one PostgreSQL share the count of a caller. Without the database, each replica counts alone. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startChanging, toolNamed } from '../security/changing-server.js';
import { ask } from '../security/modern-client.js';
import { type RunningGateway, startGateway } from '../support/gateway.js';
import { type PostgresService, startPostgres } from '../support/services.js';

const LIMIT = 10;
const ADA = 'ada-token-with-enough-length-111';
const BOB = 'bob-token-with-enough-length-222';
const SETTLING = 'settling-token-with-enough-length';

let postgres: PostgresService;
let server: Awaited<ReturnType<typeof startChanging>>;
let replicas: readonly RunningGateway[];

beforeAll(async () => {
  [postgres, server] = await Promise.all([
    startPostgres({ fsync: false }),
    startChanging([toolNamed('read', 'Reads.')]),
  ]);
  const tokens = Object.entries({ settling: SETTLING, ada: ADA, bob: BOB }).map(([name, token]) => ({ name, token }));
  const config = {
    auth: { tokens },
    state: { db: await postgres.createDatabase(), keys: ['k'.repeat(40)] },
    limits: { rates: [{ per: ['caller'], requests: LIMIT, interval: '1h', when: 'kind == "tool"' }] },
    servers: { files: { url: server.url } },
  };
  replicas = await Promise.all([startGateway(config), startGateway(config)]);
}, 60_000);
afterAll(async () => {
  await Promise.all((replicas ?? []).map((each) => each.close()));
  await server?.close();
  await postgres?.stop();
});

const called = async (replica: RunningGateway, token: string): Promise<number> =>
  (await ask(replica.url, 'tools/call', { name: 'files__read', arguments: {} }, { token })).status;
const count = (statuses: readonly number[], wanted: number): number =>
  statuses.filter((each) => each === wanted).length;

test('a caller has one rate, whichever replica it calls', async () => {
  const statuses: number[] = [];
  for (let i = 0; i < LIMIT + 4; i++) statuses.push(await called(replicas[i % 2]!, ADA));
  expect(count(statuses, 200)).toBe(LIMIT);
  expect(count(statuses, 429)).toBe(4);
  for (const replica of replicas) expect(await called(replica, ADA)).toBe(429);
  // Another caller has its own rate.
  expect(await called(replicas[0]!, BOB)).toBe(200);
});

test('while the database does not answer, each replica limits the caller by itself', async () => {
  postgres.freeze();
  try {
    for (const replica of replicas) {
      const statuses = await Promise.all(Array.from({ length: LIMIT * 2 }, () => called(replica, BOB)));
      expect(count(statuses, 200)).toBeGreaterThanOrEqual(LIMIT - 1);
      expect(count(statuses, 200)).toBeLessThanOrEqual(LIMIT + 1);
      expect(count(statuses, 200) + count(statuses, 429)).toBe(LIMIT * 2);
      await expect.poll(() => replica.log(), { timeout: 10_000 }).toContain('the shared rate counter is unavailable');
    }
  } finally {
    postgres.thaw();
  }
}, 60_000);
