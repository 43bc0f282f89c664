import { expect, test } from 'vitest';
import { evaluate } from './schema-evaluator.js';

const outputSchema = { type: 'object', properties: { time: { type: 'string' } }, required: ['time'] };

test.each([
  [{ outputSchema, result: { structuredContent: { time: '12:00' } } }, { score: 1 }],
  [
    { outputSchema, result: { structuredContent: { time: 12 } } },
    { score: 0, label: 'invalid' },
  ],
  [
    { outputSchema, result: {} },
    { score: 0, label: 'missing' },
  ],
  [{ outputSchema, result: { isError: true } }, { score: null }],
  [{ outputSchema }, { score: null }],
  [{ result: { structuredContent: {} } }, { score: null }],
  [{ outputSchema: { type: {} as string }, result: { structuredContent: {} } }, { score: expect.toBeOneOf([0, null]) }],
])('S1-02: %j scores %j', (call, expected) => {
  expect(evaluate(call)).toMatchObject(expected);
});
