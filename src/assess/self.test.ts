import { expect, test } from 'vitest';
import { nameOf } from './assess.js';
import { type SelfEndpoints, selfTargets } from './self.js';

const gateway: SelfEndpoints = {
  ...{ host: '127.0.0.1', port: 4600, tls: false, servers: ['clock'], views: ['all'], agents: ['helper'] },
  mcp: { http: true, sse: true, webSocket: true },
  stdio: { command: 'node', args: ['parley.js', 'stdio'] },
};
const names = (of: Partial<SelfEndpoints> = {}): string[] => selfTargets({ ...gateway, ...of }).map(nameOf);
const [HTTP, WS] = ['http://127.0.0.1:4600', 'ws://127.0.0.1:4600'];

test('the endpoints are those for all servers, and of each server, view and agent, and the gateway as a program', () => {
  expect(names()).toEqual([
    ...['/mcp', '/sse', '/mcp/clock', '/mcp/all'].map((path) => HTTP + path),
    ...['/ws', '/ws/clock', '/ws/all'].map((path) => WS + path),
    'parley stdio',
    ...['/a2a/helper', '/a2a'].map((path) => HTTP + path),
  ]);
});

test('a gateway on all addresses is assessed on this machine; without agents there is no A2A', () => {
  expect(names({ host: '::', tls: true })[0]).toBe('https://127.0.0.1:4600/mcp');
  expect(names({ host: '::', tls: true })[4]).toBe('wss://127.0.0.1:4600/ws');
  expect(names({ host: '::1' })[0]).toBe('http://[::1]:4600/mcp');
  const none = { servers: [], views: [], agents: [] };
  expect(names(none)).toEqual([`${HTTP}/mcp`, `${HTTP}/sse`, `${WS}/ws`, 'parley stdio']);
});

test('transports that are switched off are not assessed', () => {
  const off = (mcp: SelfEndpoints['mcp']): string[] => names({ mcp, servers: [], views: [] });
  expect(off({ http: true, sse: false, webSocket: false })).toEqual([
    `${HTTP}/mcp`,
    'parley stdio',
    ...['/a2a/helper', '/a2a'].map((path) => HTTP + path),
  ]);
  expect(off({ http: false, sse: false, webSocket: false })).toEqual([`${HTTP}/a2a/helper`, `${HTTP}/a2a`]);
});
