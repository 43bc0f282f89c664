import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { bytesHeld } from '../../../test/support/heap.js';
import { openState, type State } from '../../state/index.js';
import { SILENT } from '../../telemetry/log.js';
import { principalOf } from '../caller.js';
import { callerKey, tenantOf } from './caller-key.js';
import { type LearnMode, SharedLearning } from './shared-learning.js';
import { termsOf } from './tokenize.js';
import { ToolRanking } from './tool-ranking.js';

const TOOLS = ['invoice', 'photo', 'ticket', 'recipe', 'parcel'];
const index = new ToolRanking();
for (const name of TOOLS)
  index.set({ name }, [
    { name: `read_${name}`, description: `read one ${name}` },
    { name: `print_${name}`, description: `print one ${name}` },
  ]);

let folder: string;
let a: State;
let b: State;
const running: SharedLearning[] = [];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'parley-learning-'));
  const open = (): Promise<State> => openState({ data: folder, pollMs: 50 });
  a = await open();
  b = await open();
});
beforeEach(() => a.routingOutcomes.forget());
afterEach(async () => {
  for (const learning of running.splice(0)) await learning.close();
});
afterAll(async () => {
  await b?.close();
  await a?.close();
  rmSync(folder, { recursive: true, force: true });
});

async function replica({ routingOutcomes: records }: State, learn: LearnMode = 'on', more: object = {}) {
  const settings = { learn, keepTexts: false, ...more };
  const learning = new SharedLearning({ settings, records, identified: true, index: () => index, log: SILENT });
  running.push(learning);
  await learning.start();
  return learning;
}

const person = (subject: string, tenant?: string) => principalOf({ subject, ...(tenant !== undefined && { tenant }) });

/** Records a search that finds the tool, and a successful call of the tool. */
function teach(learning: SharedLearning, who: ReturnType<typeof person>, text: string, tool: string): void {
  const hits = index.search(text, { limit: 5 }).map(({ server, name }) => ({ server, name }));
  const key = { server: tool.split('_')[1]!, name: tool };
  const shown = [...hits, key];
  learning.searched(who, { text, terms: termsOf(text), shown, plain: hits, learned: undefined });
  learning.called(who, key, () => true);
}

const top = (learning: SharedLearning, who: ReturnType<typeof person>, text: string): string | undefined =>
  index.search(text, { limit: 1, learned: learning.for(who) })[0]?.name;

const SLANG = ['blurb', 'glimmer', 'nugget', 'morsel', 'bundle'];
function teachSlang(learning: SharedLearning, who: ReturnType<typeof person>): void {
  for (const [number, word] of SLANG.entries())
    for (const when of ['quickly', 'tomorrow', 'again'])
      teach(learning, who, `read ${word} ${when}`, `read_${TOOLS[number]}`);
}

test('outcomes and weights of one replica reach the other replica', async () => {
  const [one, two] = [await replica(a), await replica(b)];
  for (const name of ['ann', 'ben', 'cid', 'dan']) teachSlang(one, person(name));
  await expect.poll(() => two.stats().outcomes, { timeout: 20_000 }).toBe(60);
  await expect.poll(() => two.weights.terms + two.weights.votes, { timeout: 20_000 }).toBeGreaterThan(0);
  await expect.poll(() => one.weights, { timeout: 20_000 }).toEqual(two.weights);
  for (const learning of [one, two]) expect(top(learning, person('eve'), 'read glimmer now')).toBe('read_photo');
  expect(two.stats()).toMatchObject({ mode: 'on', callers: 4, loudCallers: 0 });
  await a.routingOutcomes.forget({ caller: callerKey('ann') });
  await expect.poll(() => two.stats().callers, { timeout: 20_000 }).toBe(3);
  const fresh = await replica(b);
  expect(fresh.stats()).toMatchObject({ outcomes: 45, callers: 3, weights: two.weights });
});

test('an outcome that a caller repeats after an hour becomes the latest outcome of that caller again', async () => {
  let now = 1_000;
  const records = a.routingOutcomes;
  const added: number[] = [];
  const counting = {
    since: (version: number) => records.since(version),
    add: (outcomes: Parameters<typeof records.add>[0]) => {
      added.push(outcomes.length);
      return records.add(outcomes);
    },
    choose: records.choose.bind(records),
    watch: records.watch.bind(records),
  };
  const settings = { learn: 'on', keepTexts: false } as const;
  const options = { settings, records: counting, identified: true, index: () => index, log: SILENT };
  const one = new SharedLearning({ ...options, now: () => now });
  running.push(one);
  await one.start();
  for (const text of ['read old', 'read new']) teach(one, person('ann'), text, 'read_photo');
  await expect.poll(() => one.stats().outcomes).toBe(2);
  // A repetition soon after the first time is not stored.
  teach(one, person('ann'), 'read old', 'read_photo');
  now += 3_600_001;
  await a.db.q('UPDATE routing_outcomes SET at = at - 3700000');
  teach(one, person('ann'), 'read old', 'read_photo');
  await expect.poll(() => added).toEqual([2, 1]);
  const order = async () => (await records.since(0)).outcomes.map(({ terms }) => terms);
  await expect.poll(order).toEqual([termsOf('read new'), termsOf('read old')]);
});

test('callers learn nothing from the searches of another tenant', async () => {
  const one = await replica(a);
  for (const name of ['ann', 'ben', 'cid', 'dan']) teachSlang(one, person(name, 'north'));
  await expect.poll(() => one.weights.terms + one.weights.votes, { timeout: 20_000 }).toBeGreaterThan(0);
  expect(top(one, person('eve', 'north'), 'read glimmer now')).toBe('read_photo');
  const plain = index.search('read glimmer now', { limit: 1 })[0]?.name;
  expect(top(one, person('eve', 'south'), 'read glimmer now')).toBe(plain);
  expect(top(one, person('eve'), 'read glimmer now')).toBe(plain);
  expect(tenantOf(callerKey('ann')!)).not.toBe(tenantOf(callerKey('~north#ann')!));
});

test('the database has stems and hashes, and the words of searches only if the operator allows it', async () => {
  const one = await replica(a, 'shadow');
  teach(one, person('ann'), 'Reading invoices of Melanie', 'read_invoice');
  await one.close();
  const stored = JSON.stringify(await a.db.q('SELECT * FROM routing_outcomes'));
  expect(stored).not.toMatch(/Reading|invoices|ann"/);
  const two = await replica(a, 'shadow', { keepTexts: true });
  teach(two, person('ben'), 'Reading invoices\0 of Melanie', 'read_invoice');
  await two.close();
  expect(JSON.stringify(await a.db.q('SELECT * FROM routing_outcomes'))).toContain('Reading invoices');
});

test('remembers a search without its text, and at most the first 500 characters if texts are kept', async () => {
  const one = await replica(a, 'shadow', { keepTexts: true });
  const two = await replica(b, 'shadow');
  const before = bytesHeld();
  for (let number = 0; number < 40; number += 1) {
    const text = Buffer.from(`read photo${number} ${'x'.repeat(1_000_000)}`).toString();
    for (const learning of [one, two])
      learning.searched(person(`ann${number % 5}`), {
        text,
        terms: ['read'],
        shown: [],
        plain: [],
        learned: undefined,
      });
  }
  expect(bytesHeld() - before).toBeLessThan(5_000_000);
});

test('learns nothing from failed calls or unidentified callers, nor while off; limits each caller', async () => {
  const one = await replica(a);
  const shown = [{ server: 'photo', name: 'read_photo' }];
  const search = { text: 'read', terms: ['read'], shown, plain: shown, learned: undefined };
  one.searched(person('ann'), search);
  one.called(person('ann'), shown[0]!, () => false);
  one.searched(principalOf({ subject: '' }), search);
  one.called(principalOf({ subject: '' }), shown[0]!, () => true);
  await one.configure({ learn: 'off', keepTexts: false });
  expect([one.active, one.for(person('ann'))]).toEqual([false, undefined]);
  teach(one, person('ann'), 'print photo', 'print_photo');
  await one.configure({ learn: 'on', keepTexts: false });
  for (let number = 0; number < 10_000; number += 1)
    teach(one, person('mallory'), `read word${number.toString(26).replace(/\d/g, 'x')}q`, 'print_parcel');
  await one.close();
  expect((await a.routingOutcomes.since(0)).outcomes.length).toBeLessThanOrEqual(40);
});

test('search and learning work while the database is unavailable, with one warning', async () => {
  const broken = {
    since: () => Promise.reject(new Error('away')),
    add: () => Promise.reject(new Error('away')),
    choose: () => Promise.reject(new Error('away')),
    watch: () => () => {},
  };
  const settings = { learn: 'on', keepTexts: false } as const;
  const warned: string[] = [];
  const log = { ...SILENT, warn: (_: object, text: string) => void warned.push(text) };
  const learning = new SharedLearning({ settings, records: broken, identified: true, index: () => index, log });
  await learning.start();
  teach(learning, person('ann'), 'read photo', 'read_photo');
  await learning.close();
  expect(warned).toHaveLength(1);
});
