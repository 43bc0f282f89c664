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
  ['a value that is not there', raised(() => (undefined as unknown as { a: string }).a)],
  ['a name that is not there', raised(() => Function('return nowhere')())],
  [
    'a stack that is too deep',
    raised(() =>
      (function deep(): unknown {
        return [deep()];
      })(),
    ),
  ],
  ['a time that is none', raised(() => new Date(Number.NaN).toISOString())],
  ['a failed assertion', new AssertionError({ message: 'no' })],
])('%s may leave state wrong', (_, error) => {
  expect(error).toBeInstanceOf(Error);
  expect(leavesStateWrong(error)).toBe(true);
});

test.each([
  ['an error of the protocol', new ProtocolError('internal', 'x')],
  ['a database that is away', new StateError('unavailable', 'x')],
  ['a refused connection', coded(new Error('connect ECONNREFUSED'), 'ECONNREFUSED')],
  ['a URL that is none', raised(() => new URL('nowhere'))],
  ['text that is no JSON', raised(() => JSON.parse('{'))],
  ['an aborted operation', new DOMException('aborted', 'AbortError')],
  ['an error of a library', new Error('x')],
  ['no error at all', 'text'],
  ['nothing', undefined],
])('%s leaves state as it is', (_, error) => {
  expect(leavesStateWrong(error)).toBe(false);
});
