import { expect, test } from 'vitest';
import { selfUrls } from './self.js';

const gateway = { host: '127.0.0.1', port: 4600, tls: false, servers: ['clock'], views: ['all'], agents: ['helper'] };
const paths = (urls: readonly URL[]): string[] => urls.map(({ pathname }) => pathname);

test('the endpoints are those for all servers, and of each server, view and agent', () => {
  const urls = selfUrls(gateway);
  expect(paths(urls)).toEqual(['/mcp', '/sse', '/mcp/clock', '/mcp/all', '/a2a/helper', '/a2a']);
  expect(urls[0]!.origin).toBe('http://127.0.0.1:4600');
});

test('a gateway on all addresses is assessed on this machine; without agents there is no A2A', () => {
  expect(selfUrls({ ...gateway, host: '::', tls: true })[0]!.origin).toBe('https://127.0.0.1:4600');
  expect(selfUrls({ ...gateway, host: '::1' })[0]!.origin).toBe('http://[::1]:4600');
  expect(paths(selfUrls({ ...gateway, servers: [], views: [], agents: [] }))).toEqual(['/mcp', '/sse']);
});
