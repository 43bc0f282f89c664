import { expect, test } from 'vitest';
import { sentenceOf } from './log-sentences.js';

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
])('%j', (fields, sentence) => expect(sentenceOf(fields)).toBe(sentence));

test('a line without a known event has no sentence', () => {
  expect(sentenceOf({ msg: 'stopping' })).toBeUndefined();
  expect(sentenceOf({ event: 'constructor' })).toBeUndefined();
});

test('a call is one sentence: method, target, outcome, time, caller, revisions', () => {
  const call = {
    event: 'call',
    protocol: 'mcp',
    id: 7,
    caller: 'ada',
    client: 'curl 8',
    method: 'tools/call',
    ms: 12.3,
  };
  const revisions = { revision: 'new', serverRevision: 'old' };
  expect(sentenceOf({ ...call, ...revisions, server: 'units', tool: 'convert', outcome: 'ok' })).toBe(
    'tools/call units/convert ok in 12 ms [ada, curl 8, new -> old, id 7]',
  );
  expect(sentenceOf({ ...call, tool: 'nothing', outcome: 'error', error: 'tool_not_found', revision: 'new' })).toBe(
    'tools/call nothing failed (tool_not_found) in 12 ms [ada, curl 8, new, id 7]',
  );
  expect(
    sentenceOf({ event: 'call', caller: 'ada', method: 'tools/list', outcome: 'ok', ms: 0.2, revision: 'new' }),
  ).toBe('tools/list ok in <1 ms [ada, new]');
  expect(
    sentenceOf({
      event: 'call',
      caller: 'a',
      method: 'SendStreamingMessage',
      agent: 'p',
      outcome: 'ok',
      events: 3,
      ms: 2_000,
    }),
  ).toBe('SendStreamingMessage p ok with 3 events in 2.0 s [a]');
});
