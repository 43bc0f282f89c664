import { expect, test } from 'vitest';
import { ProtocolError, UpstreamRpcError } from '../errors.js';
import { TASKS_EXTENSION } from './model.js';
import { methodNotFound, needsTask, refusalIn } from './recognised-upstream-errors.js';

const error = (code: number, data?: unknown): UpstreamRpcError => new UpstreamRpcError(code, 'no', data);

test.each([
  ['an unknown method', methodNotFound('x/y'), { reason: 'method_not_found' }],
  ['mismatched headers', error(-32020), { reason: 'header_mismatch' }],
  [
    'a missing capability',
    error(-32021, { requiredCapabilities: { sampling: {} } }),
    { reason: 'missing_capability', required: { sampling: {} } },
  ],
  ['a missing capability without a name', error(-32021), undefined],
  ['an empty list of pages', error(-32042, { elicitations: [] }), undefined],
  ['pages that are not objects', error(-32042, { elicitations: ['x'] }), undefined],
  ['any other code', error(-32000), undefined],
  ['an error of the gateway', new ProtocolError('method_not_found', 'no'), undefined],
])('%s', (_, refused, meaning) => expect(refusalIn(refused)).toEqual(meaning));

test('pages to visit become questions, and their ids are returned separately', () => {
  const elicitations = [
    { elicitationId: 'e1', url: 'https://a/', message: 'Sign in' },
    { url: 'https://b/', message: 'Agree' },
  ];
  expect(refusalIn(error(-32042, { elicitations }))).toEqual({
    reason: 'url_elicitation_required',
    ids: ['e1'],
    requests: {
      'elicitation/create-1': {
        method: 'elicitation/create',
        params: { mode: 'url', url: 'https://a/', message: 'Sign in' },
      },
      'elicitation/create-2': {
        method: 'elicitation/create',
        params: { mode: 'url', url: 'https://b/', message: 'Agree' },
      },
    },
  });
});

test('the required capability shows that a tool is available as a task only', () => {
  const extension = { requiredCapabilities: { extensions: { [TASKS_EXTENSION]: {} } } };
  expect(needsTask(refusalIn(error(-32021, extension)))).toBe(true);
  expect(needsTask(refusalIn(error(-32021, { requiredCapabilities: { sampling: {} } })))).toBe(false);
  expect(needsTask(undefined)).toBe(false);
});
