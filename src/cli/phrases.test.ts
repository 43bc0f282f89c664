import { expect, test } from 'vitest';
import { phraseOf } from './phrases.js';

test.each([
  [{ event: 'server.up', server: 'weather', tools: 3, startMs: 1_234 }, 'server weather is up, after 1.2 s: 3 tools'],
  [
    { event: 'server.up', server: 'weather', tools: 3, awayMs: 12_000 },
    'server weather is up again, after 12 s away: 3 tools',
  ],
  [
    { event: 'server.up', server: 'weather', startMs: 90, why: 'its tools/list failed' },
    'server weather is up, after 90 ms; its tools/list failed',
  ],
  [
    { event: 'server.down', server: 'weather', why: 'connection refused', upMs: 1 },
    'server weather is down: connection refused',
  ],
  [{ event: 'server.down', server: 'fs', why: 'it ended:\n  a\n\n  b' }, 'server fs is down: it ended: | a | b'],
  [
    { event: 'agent.up', agent: 'planner', skills: 1, awayMs: 500 },
    'agent planner is up again, after 500 ms away: 1 skill',
  ],
  [{ event: 'agent.down', agent: 'planner' }, 'agent planner is down: it does not answer'],
])('%j', (fields, phrase) => expect(phraseOf(fields)).toBe(phrase));

test('a line without an event, or with another one, has no phrase', () => {
  expect(phraseOf({ msg: 'stopping' })).toBeUndefined();
  expect(phraseOf({ event: 'constructor' })).toBeUndefined();
});
