/** Clients of the official SDKs at the scripted server: every violation that is reported is real. */

import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client as ModernClient, StreamableHTTPClientTransport as ModernHttp } from '@modelcontextprotocol/client';
import { Client as Client1125 } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport as Sse1125 } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport as Stdio1125 } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport as Http1125 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { Client as Client1105 } from 'sdk-2024-11-05/client/index.js';
import { SSEClientTransport as Sse1105 } from 'sdk-2024-11-05/client/sse.js';
import { StdioClientTransport as Stdio1105 } from 'sdk-2024-11-05/client/stdio.js';
import { Client as Client0326 } from 'sdk-2025-03-26/client/index.js';
import { StreamableHTTPClientTransport as Http0326 } from 'sdk-2025-03-26/client/streamableHttp.js';
import { Client as Client0618 } from 'sdk-2025-06-18/client/index.js';
import { StreamableHTTPClientTransport as Http0618 } from 'sdk-2025-06-18/client/streamableHttp.js';
import { expect, test } from 'vitest';
import { clientReport } from '../../src/assess/client/client-report.js';
import { serveClient } from '../../src/assess/client/http.js';
import { Transcript } from '../../src/assess/client/transcript.js';
import { profileOf } from '../../src/assess/profiles.js';
import { failedChecks, type Report } from '../../src/assess/report/model.js';
import { BIN } from '../support/gateway.js';

const INFO = { name: 'visitor', version: '1' };

/** The calls that this test uses, which every SDK has. */
interface Visitor {
  connect(transport: unknown): Promise<void>;
  listTools(params?: object): Promise<{ nextCursor?: string | undefined }>;
  callTool(params: object): Promise<unknown>;
  close(): Promise<void>;
}

/** One use of a server: the handshake, two pages of tools, a call, and the end. */
async function visit(client: Visitor, transport: { terminateSession?(): Promise<void> }): Promise<void> {
  await client.connect(transport);
  const { nextCursor } = await client.listTools();
  if (nextCursor !== undefined) await client.listTools({ cursor: nextCursor });
  await client.callTool({ name: 'hello', arguments: {} });
  await transport.terminateSession?.();
  await client.close();
}

const failures = (report: Report): string[] =>
  report.sections.flatMap(failedChecks).map(({ id, reason }) => `${id}: ${reason}`);

const HTTP: readonly (readonly [revision: string, make: (url: URL) => [unknown, unknown]])[] = [
  ['2025-03-26', (url) => [new Client0326(INFO), new Http0326(url)]],
  ['2025-06-18', (url) => [new Client0618(INFO), new Http0618(url)]],
  ['2025-11-25', (url) => [new Client1125(INFO, { capabilities: {} }), new Http1125(url)]],
  [
    '2026-07-28',
    (url) => [new ModernClient(INFO, { versionNegotiation: { mode: 'auto' } } as never), new ModernHttp(url)],
  ],
];

for (const [revision, make] of HTTP) {
  test(`the SDK of ${revision} over HTTP has no violations`, async () => {
    const transcript = new Transcript('http');
    const started = new Date();
    const endpoint = await serveClient({ transcript, host: '127.0.0.1', port: 0, heard: () => {} });
    try {
      const [client, transport] = make(new URL(endpoint.url));
      await visit(client as Visitor, transport as { terminateSession?(): Promise<void> });
    } finally {
      await endpoint.close();
    }
    const report = clientReport(transcript, { tool: 'test', profile: profileOf('standard')!, started });
    expect(report.sections.map(({ surfaces }) => surfaces)).toEqual([[`${revision} over http`]]);
    expect(failures(report)).toEqual([]);
    expect(report).toMatchObject({ target: 'client visitor 1', score: 100 });
  });
}

const SSE: readonly (readonly [revision: string, make: (url: URL) => [unknown, unknown]])[] = [
  ['2024-11-05', (url) => [new Client1105(INFO, { capabilities: {} }), new Sse1105(url)]],
  ['2025-11-25', (url) => [new Client1125(INFO, { capabilities: {} }), new Sse1125(url)]],
];

for (const [revision, make] of SSE) {
  test(`the SDK of ${revision} over HTTP+SSE answers the questions of the server`, async () => {
    const transcript = new Transcript('http');
    const started = new Date();
    const endpoint = await serveClient({ transcript, host: '127.0.0.1', port: 0, heard: () => {} });
    try {
      const [client, transport] = make(new URL(endpoint.sse));
      await visit(client as Visitor, transport as object);
    } finally {
      await endpoint.close();
    }
    const report = clientReport(transcript, { tool: 'test', profile: profileOf('standard')!, started });
    expect(report.sections.map(({ surfaces }) => surfaces)).toEqual([[`${revision} over sse`]]);
    const checks = report.sections.flatMap((section) => section.checks);
    const passed = checks.filter(({ outcome }) => outcome === 'pass').map(({ id }) => id);
    expect(passed).toEqual(expect.arrayContaining(['LIFE-01', 'LIFE-03', 'LIFE-11', 'BASE-20', 'PAG-01']));
    expect(failures(report)).toEqual([]);
  });
}

const STDIO: readonly (readonly [revision: string, make: (server: object) => [unknown, unknown]])[] = [
  ['2024-11-05', (server) => [new Client1105(INFO, { capabilities: {} }), new Stdio1105(server as never)]],
  ['2025-11-25', (server) => [new Client1125(INFO, { capabilities: {} }), new Stdio1125(server as never)]],
];

for (const [revision, make] of STDIO) {
  test(`parley assess client --stdio grades the SDK of ${revision}`, async () => {
    const folder = await mkdtemp(join(tmpdir(), 'parley-client-'));
    try {
      const output = join(folder, 'report.json');
      const args = [BIN, 'assess', 'client', '--stdio', '--gate', '100', '--output', output];
      const [client, transport] = make({ command: process.execPath, args });
      await visit(client as Visitor, transport as object);
      // The program writes its report after the end of its input.
      await expect.poll(() => readFile(output, 'utf8').catch(() => ''), { timeout: 20_000 }).not.toBe('');
      const report = JSON.parse(await readFile(output, 'utf8')) as Report;
      expect(report.sections.map(({ surfaces }) => surfaces)).toEqual([[`${revision} over stdio`]]);
      expect(failures(report)).toEqual([]);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });
}
