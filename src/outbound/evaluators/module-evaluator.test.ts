import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { EvaluatedCall } from '../../core/evaluation/evaluator.js';
import { ModuleEvaluator } from './module-evaluator.js';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'parley-evaluator-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const open: ModuleEvaluator[] = [];
afterEach(() => Promise.all(open.splice(0).map((evaluator) => evaluator.close())));

let files = 0;
async function evaluatorOf(source: string, timeout = 20_000): Promise<ModuleEvaluator> {
  const file = join(folder, `evaluator-${files++}.mjs`);
  await writeFile(file, source);
  const evaluator = new ModuleEvaluator({ module: pathToFileURL(file), timeout });
  open.push(evaluator);
  return evaluator;
}
const call = (value: object): EvaluatedCall => ({ json: Buffer.from(JSON.stringify(value)) }) as EvaluatedCall;

test('scores a call with the function of the module', async () => {
  const evaluator = await evaluatorOf(
    'export const evaluate = async ({ result }) => ({ score: result.text.length / 10, label: "length" });',
  );
  expect(await evaluator.evaluate(call({ result: { text: 'hello' } }))).toEqual({ score: 0.5, label: 'length' });
});

test('takes the default export, and a plain number or nothing as its answer', async () => {
  const evaluator = await evaluatorOf('export default ({ n }) => n;');
  expect(await evaluator.evaluate(call({ n: 1 }))).toEqual({ score: 1 });
  expect(await evaluator.evaluate(call({}))).toEqual({ score: null });
});

test('an error names its class and its place, never its message', async () => {
  const evaluator = await evaluatorOf('export function evaluate(call) {\n  throw new RangeError(call.secret);\n}');
  await expect(evaluator.evaluate(call({ secret: 'hush' }))).rejects.toThrow(
    /^RangeError at evaluator-\d+\.mjs:2:\d+$/,
  );
  // The same thread serves the next call.
  await expect(evaluator.evaluate(call({ secret: 'hush' }))).rejects.toThrow(/^RangeError/);
});

test.each(['5', '"good"', '{ score: {} }', '{ score: () => 1 }', '[1]', 'Symbol.iterator'])(
  'the answer %s is refused',
  async (answer) => {
    const evaluator = await evaluatorOf(`export const evaluate = () => (${answer});`);
    await expect(evaluator.evaluate(call({}))).rejects.toThrow();
  },
);

test('a module that blocks its thread is ended, and does not block the gateway', async () => {
  const evaluator = await evaluatorOf('export const evaluate = ({ block }) => { while (block); return 1; };', 300);
  expect(await evaluator.evaluate(call({}))).toEqual({ score: 1 });
  let turns = 0;
  const timer = setInterval(() => turns++, 10);
  await expect(evaluator.evaluate(call({ block: true }))).rejects.toThrow('no answer in time');
  clearInterval(timer);
  expect(turns).toBeGreaterThan(3);
  expect(await evaluator.evaluate(call({}))).toEqual({ score: 1 });
});

test('a module that ends its thread or fills its heap does not affect later calls', async () => {
  const evaluator = await evaluatorOf('export const evaluate = ({ end }) => (end ? process.exit(1) : 1);');
  await expect(evaluator.evaluate(call({ end: true }))).rejects.toThrow('its thread ended');
  expect(await evaluator.evaluate(call({}))).toEqual({ score: 1 });
});

test.each([
  ['export const other = 1;', 'the module exports no function "evaluate"'],
  ['throw new TypeError("secret");', 'the module cannot be loaded: TypeError'],
  ['this is not JavaScript', 'the module cannot be loaded: SyntaxError'],
])('the module %j is reported', async (source, reason) => {
  const evaluator = await evaluatorOf(source);
  await expect(evaluator.evaluate(call({}))).rejects.toThrow(reason);
});
