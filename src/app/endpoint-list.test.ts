import { expect, test } from 'vitest';
import { baseUrl, endpointsOf, shortSnippets } from './endpoint-list.js';

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
