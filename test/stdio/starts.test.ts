/**
 * The number of starts of a stdio server: one for both eras. Only a server that exits on the probe of its era is
 * started again, and the gateway remembers that.
 */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { textOf } from '../input/support/message.js';
import { LEGACY, MODERN, modern, modernCall } from '../input/support/speak.js';
import { ask } from '../input/support/wire.js';
import { type RunningGateway, startGateway } from '../support/gateway.js';

const path = (file: string): string => fileURLToPath(new URL(`../fixtures/${file}`, import.meta.url));

let folder: string;
let gateway: RunningGateway;
const file = (name: string): string => join(folder, name);
const lines = async (name: string): Promise<string[]> =>
  (await readFile(file(name), 'utf8').catch(() => '')).split('\n').filter(Boolean);

/** A server on the SDK of its revision. */
const onSdk = (revision: string): object => ({
  command: process.execPath,
  args: ['--import', path('stdio/count.mjs'), path('eras/server.mjs'), revision, 'stdio'],
  env: { COUNT_FILE: file(`sdk-${revision}`) },
});
const byHand = (name: string, ...args: string[]): object => ({
  command: process.execPath,
  args: [path('stdio/server.mjs'), `count=${file(name)}`, `record=${file(`${name}.heard`)}`, ...args],
});

/** Longer than the delay before the handshake: a slow server finds both the probe and the handshake on its input. */
const SLOW = 'delay=4000';

const servers = (): Record<string, object> => ({
  ...Object.fromEntries([...LEGACY, MODERN].map((revision) => [`sdk-${revision}`, onSdk(revision)])),
  refuses: byHand('refuses', 'unknown=error'),
  ignores: byHand('ignores', 'unknown=ignore'),
  exits: byHand('exits', 'unknown=exit'),
  throws: byHand('throws', 'unknown=throw'),
  hangs: { ...byHand('hangs', 'unknown=hang'), timeouts: { connect: '15s' } },
  slow: byHand('slow', 'unknown=error', SLOW),
  modern: byHand('modern', 'era=modern'),
  'slow-modern': byHand('slow-modern', 'era=modern', SLOW),
  // Its first start takes longer than a start may take. The second gets the handshake first, and refuses it.
  'late-modern': {
    ...byHand('late-modern', 'era=modern', 'delay=60000', 'delays=1'),
    timeouts: { connect: '15s' },
  },
  dual: byHand('dual', 'era=dual'),
  'slow-dual': byHand('slow-dual', 'era=dual', SLOW),
});
const TWICE = ['exits', 'throws', 'hangs'];
/** Its first process times out, the second shows that it is modern, the third serves. */
const THRICE = ['late-modern'];
const NAMES = [...['refuses', 'ignores', 'slow', 'modern', 'slow-modern', 'dual', 'slow-dual'], ...TWICE, ...THRICE];
/** The first start of these servers times out. */
const FAIL_FIRST = ['hangs', 'late-modern'];

const started = async (): Promise<Record<string, number>> => {
  const names = [...[...LEGACY, MODERN].map((revision) => `sdk-${revision}`), ...NAMES];
  return Object.fromEntries(await Promise.all(names.map(async (name) => [name, (await lines(name)).length])));
};

async function begin(): Promise<void> {
  gateway = await startGateway({ servers: servers() }, { data: file('data') });
}
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'parley-starts-'));
  await begin();
});
afterAll(async () => {
  await gateway?.close();
  await rm(folder, { recursive: true, force: true });
});

/** Calls each server through its own endpoint, which waits for the server. */
async function useAll(): Promise<void> {
  const listed = async (name: string) => {
    const { json } = await modern(`${gateway.url}/mcp/${name}`, 'tools/list');
    return (json.result.tools as unknown[]).length;
  };
  const said = async (name: string): Promise<string> => {
    for (;;) {
      const { json } = await modernCall(`${gateway.url}/mcp/${name}`, 'say');
      if (!FAIL_FIRST.includes(name) || !json.error) return textOf(json);
      expect(json.error.message).toMatch(/did not answer within 15 s of its start/);
    }
  };
  await Promise.all(
    [...LEGACY, MODERN].map(async (revision) => expect(await listed(`sdk-${revision}`)).toBeGreaterThan(0)),
  );
  await Promise.all(NAMES.map(async (name) => expect([name, await said(name)]).toEqual([name, 'hello'])));
}

describe('without stored verdicts', () => {
  it('each server is started once, one that exits on the probe twice, a modern one that gets a handshake thrice', async () => {
    await useAll();
    const expected = Object.fromEntries(
      Object.keys(await started()).map((name) => [name, THRICE.includes(name) ? 3 : TWICE.includes(name) ? 2 : 1]),
    );
    expect(await started()).toEqual(expected);
  });

  it('S0-29: the probed process serves the calls', async () => {
    expect(await lines('refuses.heard')).toEqual(
      expect.arrayContaining(['server/discover', 'initialize', 'notifications/initialized', 'tools/call']),
    );
    for (const name of ['ignores', 'slow'])
      expect((await lines(`${name}.heard`)).slice(0, 2)).toEqual(['server/discover', 'initialize']);
    // The second process of a server that exited gets the handshake at once.
    for (const name of ['exits', 'throws'])
      expect((await lines(`${name}.heard`)).slice(0, 2)).toEqual(['server/discover', 'initialize']);
    expect(await lines('modern.heard')).not.toContain('initialize');
  });

  it('a slow modern server is detected as modern', async () => {
    for (const name of ['slow-modern', 'slow-dual', 'modern', 'dual'])
      expect([name, (await lines(`${name}.heard`)).includes('notifications/initialized')]).toEqual([name, false]);
    const { json } = await ask(`${gateway.url}/health`, { method: 'GET' });
    expect(json).toMatchObject({ status: 'ok' });
  });
});

describe('after a restart of the gateway', () => {
  it('each server is started once', async () => {
    const before = await started();
    await gateway.close();
    await begin();
    await useAll();
    const after = await started();
    for (const name of Object.keys(before)) expect([name, after[name]! - before[name]!]).toEqual([name, 1]);
    // The era is known, so there is no probe.
    for (const name of ['exits', 'throws', 'hangs', 'refuses'])
      expect((await lines(`${name}.heard`)).filter((method) => method === 'server/discover')).toHaveLength(1);
  });
});
