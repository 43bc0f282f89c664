import { expect, it } from 'vitest';
import { disclosesInside } from './disclosure.js';

it('finds stack traces and paths in messages and data', () => {
  for (const error of [
    { message: 'boom\n    at run (file.js:10:5)' },
    { message: 'Traceback (most recent call last)' },
    { message: 'x', data: { stack: 'Error: x\n    at go (/srv/a.js:1:2)' } },
    { message: 'cannot read /home/ada/server/index.ts' },
    { message: 'x', details: [{ detail: '/usr/lib/agent/main.py failed' }] },
  ])
    expect(disclosesInside(error), JSON.stringify(error)).toBe(true);
});

it('finds nothing in other texts', () => {
  for (const error of [
    undefined,
    null,
    'text',
    { message: 'Unknown tool' },
    { message: 'Look at /docs/a.md', data: 1 },
  ])
    expect(disclosesInside(error)).toBe(false);
});

it('searches no text for long', () => {
  for (const part of ['\n', '\n ', '/home/', '\n at x:', '\n    at x:1', '/usr/a.'])
    for (const error of [{ message: part.repeat(100_000) }, { data: [part.repeat(100_000)] }])
      expect(disclosesInside(error)).toBe(false);
});
