import { expect, test } from 'vitest';
import { Embeddings } from './embeddings.js';

const endpoint = (status: number, answer: unknown, key?: string) => {
  const sent: { headers: readonly string[]; body: string }[] = [];
  const text = typeof answer === 'string' ? answer : JSON.stringify(answer);
  const post = async (_url: string, headers: readonly string[], body: string) => {
    sent.push({ headers, body });
    return { status, body: Buffer.from(text) };
  };
  return { sent, embeddings: new Embeddings({ url: 'http://127.0.0.1:1/v1/embeddings', model: 'm', key, post }) };
};

test('asks an OpenAI-compatible endpoint and returns unit vectors in the order of the texts', async () => {
  const data = [
    { index: 1, embedding: [0, 5] },
    { index: 0, embedding: [3, 4] },
  ];
  const { sent, embeddings } = endpoint(200, { data }, 'secret');
  const vectors = await embeddings.embed(['a', 'b']);
  expect(vectors.map((vector) => [...vector].map((value) => Math.round(value * 10) / 10))).toEqual([
    [0.6, 0.8],
    [0, 1],
  ]);
  expect(sent[0]!.headers).toContain('Bearer secret');
  expect(JSON.parse(sent[0]!.body)).toMatchObject({ model: 'm', input: ['a', 'b'] });
});

test.each([
  ['an error status', 500, {}],
  ['text', 200, 'nothing'],
  ['too few vectors', 200, { data: [] }],
  ['no numbers', 200, { data: [{ embedding: ['x'] }] }],
  ['a vector without a length', 200, { data: [{ embedding: [0, 0] }] }],
  ['too many dimensions', 200, { data: [{ embedding: new Array(5_000).fill(1) }] }],
  ['a foreign index', 200, { data: [{ index: 7, embedding: [1] }] }],
])('refuses %s', async (_, status, answer) => {
  await expect(endpoint(status, answer).embeddings.embed(['a'])).rejects.toThrow('embeddings endpoint');
});
