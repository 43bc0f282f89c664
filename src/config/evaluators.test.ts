import { expect, test } from 'vitest';
import { configFrom } from './load.js';
import { ConfigError } from './problem.js';

const servers = { files: { url: 'http://127.0.0.1:1/mcp' } };

function problemsOf(evaluators: object): string[] {
  try {
    return configFrom({ servers, evaluators }).warnings.map(({ key, message }) => `${key}: ${message}`);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return error.problems.map(({ key, message }) => `${key}: ${message}`);
  }
}

test('evaluators have defaults', () => {
  const { evaluators } = configFrom({ servers, evaluators: { quick: { builtin: 'latency' } } }).config;
  expect(evaluators['quick']).toEqual({
    ...{ builtin: 'latency', servers: [], tools: [], samplePercent: 100, contents: true },
    ...{ timeout: 5_000, objective: 1_000 },
  });
});

test.each([
  [{ a: {} }, 'evaluators.a: needs one of builtin, module and url'],
  [{ a: { builtin: 'schema', url: 'http://127.0.0.1:1/' } }, 'evaluators.a: needs one of builtin, module and url'],
  [{ a: { builtin: 'magic' } }, 'is not one of the choices'],
  [{ a: { module: '/nowhere/at/all.mjs' } }, 'cannot be read (ENOENT)'],
  [{ a: { builtin: 'schema', token: 'x' } }, 'evaluators.a.token: has no effect without url'],
  [{ 'a b': { builtin: 'schema' } }, '"a b" is not a name for an evaluator'],
])('%j is reported: %s', (evaluators, message) => {
  expect(problemsOf(evaluators)).toEqual([expect.stringContaining(message)]);
});
