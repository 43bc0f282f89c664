/** An approval is valid once, over all replicas and after a restart of the replica that issued it. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { accept, asked, FORM, ModernClient, textOf } from '../era-bridge/support/clients.js';
import type { Message } from '../era-bridge/support/wire.js';
import { HttpFixture } from '../fixtures/era-bridge/http.mjs';
import { startGateway } from '../support/gateway.js';
import { ALICE, CLUSTERS, type Replica, type Replicas, startEngines } from './support/replicas.js';

const KEY = 'parley/approval';
const ARGS = { path: '/srv/data' };
const policy = { approve: { tools: ['files__wipe'] } };

let files: HttpFixture;
beforeAll(async () => {
  files = await new HttpFixture({ revision: '2025-11-25' }).start();
});
beforeEach(() => files.entries.splice(0));
afterAll(() => files?.close());

const servers = (): Record<string, object> => ({ files: { url: files.url, revision: '2025-11-25' } });
const runs = (): number => files.entries.filter(({ kind, tool }) => kind === 'run' && tool === 'wipe').length;

/** Requests an approval and returns a function that uses it at any address. */
async function approved(mcp: string, token?: string): Promise<(at: string) => Promise<Message>> {
  const question = await new ModernClient(mcp, FORM, token).call('files__wipe', ARGS);
  expect(Object.keys(asked(question))).toEqual([KEY]);
  const { requestState } = question.result;
  const inputResponses = { [KEY]: accept({ approve: true }) };
  return (at) => new ModernClient(at, FORM, token).call('files__wipe', ARGS, { requestState, inputResponses });
}

function expectRefused({ error }: Message): void {
  expect(error).toMatchObject({ code: -32602, message: expect.stringContaining('used already') });
}

describe.each(CLUSTERS)('two replicas over %s', (engine) => {
  let engines: Replicas;
  let a: Replica;
  let b: Replica;

  beforeAll(async () => {
    engines = await startEngines(engine);
    [a, b] = (await engines.start(2, { servers: servers(), policy })) as [Replica, Replica];
  });
  afterAll(() => engines?.stop());

  test('an approval of A that was used at A is refused at B', async () => {
    const use = await approved(a.mcp, ALICE);
    expect(textOf(await use(a.mcp))).toContain('wiped');
    expectRefused(await use(b.mcp));
    expectRefused(await use(a.mcp));
    expect(runs()).toBe(1);
  });

  test('of many concurrent uses of one approval, at both replicas, only one runs the call', async () => {
    const use = await approved(a.mcp, ALICE);
    const answers = await Promise.all(Array.from({ length: 20 }, (_, i) => use(i % 2 ? a.mcp : b.mcp)));
    const [ran, refused] = [answers.filter(({ error }) => !error), answers.filter(({ error }) => error)];
    expect(ran).toHaveLength(1);
    for (const answer of refused) expectRefused(answer);
    expect(runs()).toBe(1);
  });
});

test('a used approval is refused after a restart', async () => {
  const data = await mkdtemp(join(tmpdir(), 'parley-approval-'));
  const start = () => startGateway({ servers: servers(), policy, log: { level: 'warn' } }, { data });
  let gateway = await start();
  try {
    const mcp = () => `${gateway.url}/mcp`;
    const [used, unused] = [await approved(mcp()), await approved(mcp())];
    expect(textOf(await used(mcp()))).toContain('wiped');
    await gateway.close();
    gateway = await start();
    expectRefused(await used(mcp()));
    expect(runs()).toBe(1);
    expect(textOf(await unused(mcp()))).toContain('wiped');
    expect(runs()).toBe(2);
  } finally {
    await gateway.close();
    await rm(data, { recursive: true, force: true });
  }
});
