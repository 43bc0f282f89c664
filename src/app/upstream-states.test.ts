import { describe, expect, test } from 'vitest';
import { SILENT } from '../telemetry/log.js';
import { logChange } from './upstream-states.js';

describe('a state change in the log', () => {
  const lines: [string, object, string][] = [];
  const write = (level: string) => (fields: object, message: string) => void lines.push([level, fields, message]);
  const log = { ...SILENT, debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') };
  const logged = (change: Parameters<typeof logChange>[1]): unknown => {
    lines.length = 0;
    logChange(log, change);
    return lines[0];
  };

  test('has an event, the name, and rounded times', () => {
    expect(
      logged({
        kind: 'server',
        name: 'a',
        state: 'up',
        since: 0,
        count: 3,
        before: 'starting',
        lasted: 4,
        age: 12.34,
        recovered: false,
      }),
    ).toEqual(['info', { event: 'server.up', server: 'a', tools: 3, startMs: 12 }, 'server is up']);
    expect(
      logged({
        kind: 'agent',
        name: 'a',
        state: 'up',
        since: 0,
        count: 2,
        before: 'down',
        lasted: 5_000.5,
        age: 9,
        recovered: true,
      }),
    ).toEqual(['info', { event: 'agent.up', agent: 'a', skills: 2, awayMs: 5_001 }, 'agent is up again']);
  });

  test('is a warning if the upstream is down or has a problem', () => {
    expect(
      logged({
        kind: 'server',
        name: 'a',
        state: 'down',
        since: 0,
        problem: 'connection refused',
        before: 'up',
        lasted: 9,
        age: 99,
        recovered: true,
      }),
    ).toEqual(['warn', { event: 'server.down', server: 'a', why: 'connection refused', upMs: 9 }, 'server is down']);
    expect(
      logged({
        kind: 'server',
        name: 'a',
        state: 'up',
        since: 0,
        problem: 'no list',
        before: 'starting',
        lasted: 9,
        age: 9,
        recovered: false,
      }),
    ).toEqual([
      'warn',
      { event: 'server.up', server: 'a', why: 'no list', startMs: 9 },
      'server is up, with a problem',
    ]);
  });
});
