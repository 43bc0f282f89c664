import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

const MODULE = new URL('./heap-limits.ts', import.meta.url);
const LOADER = new URL('../../test/support/ts.mjs', import.meta.url).href;

/** Allocates many objects that survive one collection and few that stay; prints the young generation's size in MiB. */
const WORK = `
  import { getHeapSpaceStatistics } from 'node:v8';
  const size = () => getHeapSpaceStatistics().find((space) => space.space_name === 'new_space').space_size;
  const load = (kept) => {
    for (let i = 0; i < 20_000; i++) kept[i % kept.length] = { text: 'x' + i, list: new Array(20).fill(i) };
  };
  const turns = async (count, kept) => {
    for (let i = 0; i < count; i++) {
      load(kept);
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  // Grows the young generation to the limit, as loading the gateway does.
  while (size() < 16 * 1024 * 1024) await turns(1, new Array(2_000));
  if (process.argv[1] === 'bounded') (await import(process.argv[2])).boundYoungGeneration();
  await turns(200, new Array(20_000));
  console.log(size() / 1024 / 1024);
`;

const youngAfter = async (how: 'bounded' | 'free'): Promise<number> => {
  const args = ['--import', LOADER, '--input-type=module', '-e', WORK, how, MODULE.href];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: fileURLToPath(new URL('.', MODULE)) });
  return Number(stdout);
};

test('the young generation stops growing at the limit', async () => {
  expect(await youngAfter('free')).toBeGreaterThan(16);
  expect(await youngAfter('bounded')).toBe(16);
}, 120_000);
