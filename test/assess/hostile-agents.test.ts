/** Agents that hang, flood, send wrong lengths and redirect: the assessment ends in time with a report. */
import type { ServerResponse } from 'node:http';
import { type AddressInfo, createServer } from 'node:net';
import { gzipSync } from 'node:zlib';
import { afterEach, expect, test } from 'vitest';
import { assess } from '../../src/assess/assess.js';
import { profileOf } from '../../src/assess/profiles.js';
import type { Report } from '../../src/assess/report/model.js';
import { closeHttp, listen } from '../fixtures/a2a/agent.js';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

const TOTAL = 1_500;

const assessed = (url: string): Promise<Report> =>
  assess({
    tool: 'test',
    profile: profileOf('standard')!,
    active: true,
    pace: { interval: 0, answer: 200, total: TOTAL },
    target: { kind: 'url', url: new URL(url) },
  });

const cardOf = (url: string, more: object = {}): string =>
  JSON.stringify({
    name: 'Hostile',
    capabilities: { streaming: true, pushNotifications: true },
    supportedInterfaces: [
      { url, protocolBinding: 'JSONRPC', protocolVersion: '1.0' },
      { url, protocolBinding: 'HTTP+JSON', protocolVersion: '1.0' },
    ],
    ...more,
  });

/** An agent with a card whose other answers a test defines. */
async function agent(answer: (response: ServerResponse, url: string) => void, more?: object): Promise<string> {
  const { server, url } = await listen((request, response) => {
    if (request.url?.endsWith('agent-card.json')) response.end(cardOf(url, more));
    else answer(response, url);
  });
  closing.push(() => closeHttp(server));
  return url;
}

const HOSTILE: Readonly<Record<string, (response: ServerResponse, url: string) => void>> = {
  hangs: () => {},
  'hangs inside a stream': (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write(': waiting\n\n');
  },
  'floods events': (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const more = (): void => {
      while (!response.destroyed && response.write(`data: ${JSON.stringify({ task: { id: 'x'.repeat(1_000) } })}\n\n`));
    };
    response.on('drain', more);
    more();
  },
  'floods one line': (response) => {
    const more = (): void => {
      while (!response.destroyed && response.write('x'.repeat(65_536)));
    };
    response.on('drain', more);
    more();
  },
  'sends a wrong length': (response) => {
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000000' }).write('{"a":');
    response.destroy();
  },
  'redirects for ever': (response, url) => response.writeHead(307, { location: `${url}/again` }).end(),
  'redirects to another host': (response) => response.writeHead(307, { location: 'http://169.254.169.254/' }).end(),
  'sends a bomb': (response) =>
    response
      .writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' })
      .end(gzipSync(Buffer.alloc(64 * 1024 * 1024))),
  'sends nested JSON': (response) => response.end('['.repeat(100_000)),
};

for (const [name, answer] of Object.entries(HOSTILE)) {
  test(`an agent that ${name} gets a report`, async () => {
    const url = await agent(answer);
    const report = await assessed(url);
    // The time may be over before the agent was recognised.
    expect(report.score).toBeLessThan(90);
    expect(report.sections.length + report.notes.length).toBeGreaterThan(0);
  });
}

test('a card of many megabytes, and a card with ten thousand interfaces, end with a report', async () => {
  const many = Array.from({ length: 10_000 }, (_, i) => ({
    url: `/${i}`,
    protocolBinding: 'JSONRPC',
    protocolVersion: '1.0',
  }));
  const big = await agent((response) => response.end(), { description: 'x'.repeat(8 * 1024 * 1024) });
  expect((await assessed(big)).notes.join()).toMatch(/recognised/);
  const wide = await agent((response) => response.end(), { supportedInterfaces: many });
  const [section] = (await assessed(wide)).sections;
  expect(section?.surfaces ?? ['none in time']).toHaveLength(1);
});

test('a gRPC address that accepts connections and is silent ends with a report', async () => {
  const silent = createServer((socket) => void socket.on('error', () => {})).listen(0, '127.0.0.1');
  await new Promise((resolve) => silent.once('listening', resolve));
  closing.push(() => silent.close());
  const address = `127.0.0.1:${(silent.address() as AddressInfo).port}`;
  const url = await agent((response) => response.end(), {
    supportedInterfaces: [{ url: address, protocolBinding: 'GRPC', protocolVersion: '1.0' }],
  });
  const report = await assessed(url);
  expect(report.sections[0]?.surfaces ?? ['A2A 1.0 over GRPC']).toEqual(['A2A 1.0 over GRPC']);
});
