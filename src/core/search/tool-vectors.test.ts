import { expect, test } from 'vitest';
import { SILENT } from '../../telemetry/log.js';
import type { Item } from '../catalog/server-list-cache.js';
import { ToolRanking } from './tool-ranking.js';
import { type EmbeddedTool, type Embedder, RefusedTexts, ToolVectors } from './tool-vectors.js';

const item = (key: string, description: string): Item =>
  ({ key, value: { name: key, description } }) as unknown as Item;
const TOOLS: readonly EmbeddedTool[] = [
  { server: 'garage', name: 'repair_car', item: item('repair_car', 'repair a car') },
  { server: 'kitchen', name: 'bake_bread', item: item('bake_bread', 'bake a loaf of bread') },
];
const index = new ToolRanking();
for (const { server, name, item: tool } of TOOLS)
  index.set({ name: server }, [{ name, description: tool.value['description'] as string }]);

/** Two dimensions: vehicles and food. */
const vectorOf = (text: string): Float32Array =>
  Float32Array.from(/car|automobile/.test(text) ? [1, 0] : /bread|pastry/.test(text) ? [0, 1] : [0.7, 0.7]);
const embedder = (embed = (texts: readonly string[]) => Promise.resolve(texts.map(vectorOf))) => {
  const asked: string[][] = [];
  const made: Embedder = {
    embed: (texts) => {
      asked.push([...texts]);
      return embed(texts);
    },
  };
  return { made, asked };
};
const vectorsOf = (made: Embedder, patience = 10_000): ToolVectors =>
  new ToolVectors({ embedder: made, weight: 0.4, patience, log: SILENT });
const best = async (vectors: ToolVectors, query: string): Promise<string | undefined> =>
  index.search(query, { limit: 2, similar: await vectors.similarities(query, TOOLS) })[0]?.name;

test('finds a tool that shares no word with the query, after all tools were embedded once', async () => {
  const { made, asked } = embedder();
  const vectors = vectorsOf(made);
  expect(await vectors.similarities('automobile', TOOLS)).toBeUndefined();
  await expect.poll(() => best(vectors, 'automobile')).toBe('repair_car');
  expect(await best(vectors, 'some pastry')).toBe('bake_bread');
  expect(await best(vectors, 'bread for the automobile show')).toBe('bake_bread');
  await best(vectors, 'some pastry');
  // The tools were embedded once, and each query once.
  expect(asked.filter((texts) => texts.length === 2)).toHaveLength(1);
  expect(asked.filter(([text]) => text === 'some pastry')).toHaveLength(1);
});

test('only words are used while the service is unavailable, late or wrong', async () => {
  const { made, asked } = embedder(() => Promise.reject(new Error('away')));
  const broken = vectorsOf(made);
  expect(await best(broken, 'bake')).toBe('bake_bread');
  await expect.poll(() => asked.length).toBe(1);
  expect(await best(broken, 'bake')).toBe('bake_bread');
  expect(asked).toHaveLength(1);
  let late = false;
  const slow = embedder((texts) => (late ? new Promise(() => {}) : Promise.resolve(texts.map(vectorOf))));
  const vectors = vectorsOf(slow.made, 10);
  await vectors.similarities('x', TOOLS);
  await expect.poll(() => vectors.similarities('automobile', TOOLS)).toBeDefined();
  late = true;
  expect(await vectors.similarities('another', TOOLS)).toBeUndefined();
  expect(await best(vectors, 'bake')).toBe('bake_bread');
});

test('a match by vectors alone lists each tool once, and trust lowers its score as for words', () => {
  const tools = TOOLS.map(({ server, name }) => [{ server, name }, 1] as const);
  const hits = index.search('repair a car', { limit: 5, similar: { weight: 1, tools } });
  expect(hits.map(({ name, duplicates }) => [name, duplicates.length])).toEqual([
    ['repair_car', 0],
    ['bake_bread', 0],
  ]);
  const wary = new ToolRanking();
  wary.set({ name: 'known' }, [{ name: 'a', description: 'alpha' }]);
  wary.set({ name: 'stranger', trust: 0.5 }, [{ name: 'b', description: 'beta' }]);
  const similar = {
    weight: 0.5,
    tools: [[{ server: 'known', name: 'a' }, 0.6] as const, [{ server: 'stranger', name: 'b' }, 1] as const],
  };
  expect(wary.search('gamma', { limit: 2, similar }).map(({ name }) => name)).toEqual(['a', 'b']);
});

test('if the service refuses one text, the other tools still get their vectors', async () => {
  const { made } = embedder((texts) =>
    texts.some((text) => text.includes('poison'))
      ? Promise.reject(new RefusedTexts('too long'))
      : Promise.resolve(texts.map(vectorOf)),
  );
  const vectors = vectorsOf(made);
  const poisoned = { server: 'stranger', name: 'poison', item: item('poison', 'poison for the service') };
  const all = [...TOOLS, poisoned];
  await expect.poll(() => vectors.similarities('automobile', all)).toBeDefined();
  const similar = await vectors.similarities('automobile', all);
  expect(index.search('automobile', { limit: 2, similar })[0]?.name).toBe('repair_car');
  expect(similar!.tools.find(([{ name }]) => name === 'poison')?.[1]).toBe(0);
});
