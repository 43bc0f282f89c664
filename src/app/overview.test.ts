import { describe, expect, test } from 'vitest';
import { SILENT } from '../telemetry/log.js';
import { baseUrl, endpointsOf, logChange, shortSnippets } from './overview.js';

test('the base URL is one that clients can reach', () => {
  const tls = { clientCertificate: 'required' } as const;
  expect(baseUrl({ publicUrl: undefined, tls }, '127.0.0.1', 4600)).toBe('http://127.0.0.1:4600');
  const secure = { ...tls, cert: '/cert.pem' };
  expect(baseUrl({ publicUrl: undefined, tls: secure }, '0.0.0.0', 4600)).toBe('https://127.0.0.1:4600');
  expect(baseUrl({ publicUrl: undefined, tls }, '::1', 4600)).toBe('http://[::1]:4600');
  expect(baseUrl({ publicUrl: undefined, tls }, '0.0.0.0', 4600)).toBe('http://127.0.0.1:4600');
  expect(baseUrl({ publicUrl: undefined, tls }, '::', 4600)).toBe('http://[::1]:4600');
  expect(baseUrl({ publicUrl: 'https://tools.example.com/gateway/', tls }, '0.0.0.0', 4600)).toBe(
    'https://tools.example.com/gateway',
  );
});

test('lists the endpoints that are open', () => {
  const all = endpointsOf({ base: 'http://h', mcp: true, sse: true, agents: true, grpc: '127.0.0.1:4601' });
  expect(all.map(({ address }) => address)).toEqual([
    'http://h/mcp',
    'http://h/mcp/<server>',
    'http://h/sse',
    'http://h/a2a',
    'http://h/a2a/<agent>',
    '127.0.0.1:4601',
  ]);
  const none = endpointsOf({ base: 'http://h', mcp: true, sse: false, agents: false, grpc: undefined });
  expect(none.map(({ label }) => label)).toEqual(['MCP', 'MCP, one server']);
});

test('each snippet for the terminal is one line, with a placeholder if a token is required', () => {
  for (const guarded of [false, true]) {
    for (const { text } of shortSnippets('http://h/mcp', guarded)) {
      expect(text).not.toContain('\n');
      expect(text.includes('YOUR_TOKEN')).toBe(guarded);
    }
  }
});

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
