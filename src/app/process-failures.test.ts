import { AssertionError } from 'node:assert';
import { expect, test } from 'vitest';
import { ProtocolError } from '../protocol/errors.js';
import { StateError } from '../state/errors.js';
import { leavesStateWrong } from './process-failures.js';

const coded = (error: Error, code: string): Error => Object.assign(error, { code });
const raised = (run: () => unknown): unknown => {
  try {
    return run();
  } catch (error) {
    return error;
  }
};

test.each([
  ['a property of undefined', raised(() => (undefined as unknown as { a: string }).a)],
  ['an undefined variable', raised(() => Function('return nowhere')())],
  [
    'a stack overflow',
    raised(() =>
      (function deep(): unknown {
        return [deep()];
      })(),
    ),
  ],
  ['an invalid date', raised(() => new Date(Number.NaN).toISOString())],
  ['a failed assertion', new AssertionError({ message: 'no' })],
])('%s may leave state inconsistent', (_, error) => {
  expect(error).toBeInstanceOf(Error);
  expect(leavesStateWrong(error)).toBe(true);
});

test.each([
  ['a protocol error', new ProtocolError('internal', 'x')],
  ['an unavailable database', new StateError('unavailable', 'x')],
  ['a refused connection', coded(new Error('connect ECONNREFUSED'), 'ECONNREFUSED')],
  ['an invalid URL', raised(() => new URL('nowhere'))],
  ['invalid JSON', raised(() => JSON.parse('{'))],
  ['an aborted operation', new DOMException('aborted', 'AbortError')],
  ['an error of a library', new Error('x')],
  ['a rejection with a string', 'text'],
  ['nothing', undefined],
])('%s leaves state consistent', (_, error) => {
  expect(leavesStateWrong(error)).toBe(false);
});
