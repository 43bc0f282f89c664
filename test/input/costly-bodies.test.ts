/** P6: the largest accepted body of many small objects costs little more than its parsing, and delays no other caller. */
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { CountedServer } from '../catalog/counted-server.js';
import { ModernClient } from '../era-bridge/support/clients.js';
import { type RunningGateway, startGateway } from '../support/gateway.js';

/** The default of `limits.members`. */
const MEMBERS = 100_000;
/** Members of the rest of the request, with a margin. */
const OTHERS = 100;
/** An object with one member counts as two. */
const items = Array.from({ length: (MEMBERS - OTHERS) / 2 }, (_, i) => ({ [`key-${i}`]: 1 }));
const TEXT = JSON.stringify({ items });
const REQUESTS = 10;
const SENDERS = 4;

let server: CountedServer;
let gateway: RunningGateway;

beforeAll(async () => {
  server = await CountedServer.start({ era: 'modern', ttlMs: 600_000 });
  gateway = await startGateway({ log: { level: 'warn' }, servers: { counted: { url: server.url } } });
});
afterAll(async () => {
  await gateway?.close();
  await server?.close();
});

/** The processor time of the gateway so far, in seconds. */
function processorTime(): number {
  const fields = readFileSync(`/proc/${gateway.pid}/stat`, 'utf8')
    .replace(/^.*\) /, '')
    .split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

function parsing(): number {
  const before = process.cpuUsage();
  for (let i = 0; i < REQUESTS; i++) JSON.parse(TEXT);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1e6;
}

const client = (): ModernClient => new ModernClient(`${gateway.url}/mcp`, {});
const costly = async (from: ModernClient): Promise<void> => {
  const { error } = await from.call('counted__one', { items });
  expect(error).toBeUndefined();
};

test('a body with the most members costs at most a few times its parsing', async () => {
  const caller = client();
  await costly(caller);
  const before = processorTime();
  for (let i = 0; i < REQUESTS; i++) await costly(caller);
  const handling = processorTime() - before;
  const parse = parsing();
  expect(handling).toBeLessThan(3 * parse);
});

test('a call of another caller waits for few such bodies, however many are sent', async () => {
  const light = client();
  let done = 0;
  let running = SENDERS;
  const send = async (): Promise<void> => {
    const heavy = client();
    for (let i = 0; i < REQUESTS / 2; i++) {
      await costly(heavy);
      done++;
    }
    running--;
  };
  const floods = Array.from({ length: SENDERS }, send);
  const passed: number[] = [];
  while (running > 0) {
    const before = done;
    expect((await light.call('counted__two')).error).toBeUndefined();
    passed.push(done - before);
  }
  await Promise.all(floods);
  // One body of each sender can be before the call at the gateway, and one more at the server and in the test.
  expect(Math.max(...passed)).toBeLessThanOrEqual(3 * SENDERS);
});
