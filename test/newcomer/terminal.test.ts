/** The output on a terminal, with the user's own configuration. */
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { BIN } from '../support/gateway.js';
import { Terminal } from '../support/terminal.js';

const EXAMPLES = fileURLToPath(new URL('../../examples', import.meta.url));

let folder: string;
let terminal: Terminal | undefined;
let clock: Server | undefined;
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'parley-terminal-'));
});
afterEach(async () => {
  await terminal?.interrupt();
  clock?.close();
  clock?.closeAllConnections();
  clock = undefined;
  rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
});

function start(
  config: object,
  { columns = 100, env = { NO_COLOR: '1' } }: { columns?: number; env?: Record<string, string> } = {},
) {
  const file = path.join(folder, 'parley.json');
  writeFileSync(file, JSON.stringify({ listen: '127.0.0.1:0', data: path.join(folder, 'data'), ...config }));
  terminal = Terminal.run(`'${process.execPath}' '${BIN}' serve`, {
    cwd: folder,
    columns,
    env: { PATH: process.env['PATH'] ?? '', HOME: folder, TERM: 'xterm-256color', ...env },
  });
  return terminal;
}

const UNITS = { command: process.execPath, args: [path.join(EXAMPLES, 'units.mjs')] };
/** A server that never answers and never exits. */
const SILENT = { command: process.execPath, args: ['-e', 'process.stdin.resume()'] };
const CRASHING = { command: process.execPath, args: ['-e', 'process.exit(3)'] };
/** Nothing listens on the discard port. */
const REFUSED = { url: 'http://127.0.0.1:9/mcp' };

/**
 * Starts the gateway and waits for the end of the summary. On a busy machine the summary may show servers that are
 * still starting; then the gateway is started again until only `silent` is starting.
 */
async function started(config: object, options?: Parameters<typeof start>[1]): Promise<Terminal> {
  for (;;) {
    const running = start(config, options);
    await running.shows(/Stop with Ctrl-C\.\n/);
    if (!/^ {2}(?!silent)\S+ +(?:\u001b\[33m)?starting/m.test(running.output)) return running;
    await running.interrupt();
  }
}

/** The output, with placeholders for the parts that differ between runs. */
const steady = (text: string): string =>
  text
    .replace(/127\.0\.0\.1:\d{4,5}\b/g, '127.0.0.1:PORT')
    .replace(/ +(?:<1|\d+) ms\b| +\d+\.\d s\b| +\d+ s\b/g, ' TIME')
    .replace(/ +$/gm, '');

describe('parley serve', () => {
  test('shows a table, the endpoints and the snippets, and nothing else', async () => {
    const { output } = await started({
      servers: { units: UNITS, off: { ...UNITS, enabled: false } },
      agents: { desk: { tools: ['units__*'] } },
      grpc: { listen: '127.0.0.1:0' },
    });
    expect(steady(output)).toBe(`Parley is listening on http://127.0.0.1:PORT

Servers
  units  up  2 tools TIME

Agents
  desk  up  2 skills TIME

Endpoints
  MCP              http://127.0.0.1:PORT/mcp
  MCP, one server  http://127.0.0.1:PORT/mcp/<server>
  HTTP+SSE         http://127.0.0.1:PORT/sse
  A2A              http://127.0.0.1:PORT/a2a
  A2A, one agent   http://127.0.0.1:PORT/a2a/<agent>
  A2A gRPC         127.0.0.1:PORT

Paste into a client
  Claude Code  claude mcp add --transport http parley http://127.0.0.1:PORT/mcp
  Cursor       {"mcpServers":{"parley":{"url":"http://127.0.0.1:PORT/mcp"}}}
  For other clients open http://127.0.0.1:PORT/ in a browser.

Stop with Ctrl-C.
`);
  });

  test('shows the problem of a server, and does not wait for a silent server', async () => {
    const { output } = await started({ servers: { units: UNITS, silent: SILENT, crash: CRASHING, gone: REFUSED } });
    const table = steady(output).split('\nServers\n')[1]!.split('\n\n')[0]!;
    expect(table).toMatch(/^ {2}units {3}up {8}2 tools TIME\n {2}silent {2}starting\n {2}crash {3}down {2,}\S.*\n/);
    expect(table).toMatch(/^ {2}gone {4}down {2,}\S[\s\S]*connection\s+refused/m);
  });

  test('fits a narrow terminal', async () => {
    const { output } = await started({ servers: { units: UNITS, gone: REFUSED } }, { columns: 40 });
    const table = output.split('\nServers\n')[1]!.split('\n\n')[0]!;
    expect(table).toMatch(/^ {2}gone {3}down\n {6}\S/m);
    for (const line of table.split('\n')) expect(line.length).toBeLessThanOrEqual(40);
  });

  test('has colors on a terminal that supports them, unless NO_COLOR is set', async () => {
    const { output } = await started({ servers: { units: UNITS } }, { env: {} });
    expect(output).toContain('\u001b[32mup\u001b[0m');
    expect(output).toContain('\u001b[1mServers\u001b[0m');
  });

  test('never writes unescaped text of a server to the terminal', async () => {
    const shouting = {
      command: process.execPath,
      args: ['-e', 'console.error("\\u001b[2Jbad\\u009b31m key"); process.exit(3)'],
    };
    const { output } = await started({ servers: { shouting } });
    expect(output).not.toMatch(/[\u001b\u009b]/);
  });

  test('shows a placeholder for a required token, and does not link to a page that needs it', async () => {
    const token = 'fP7xQ2mT9vLc4RjW8sKd3NbZ6yHg5UeA';
    const { output } = await started({ servers: { units: UNITS }, auth: { tokens: [{ name: 'ada', token }] } });
    expect(output).toContain('--header "Authorization: Bearer YOUR_TOKEN"');
    expect(output).toContain('For other clients see docs/clients.md.');
    expect(output).not.toContain(token);
  });

  test('prints one line when a server goes down and one when it is up again', async () => {
    clock = await clockAt(0);
    const { port } = clock.address() as AddressInfo;
    const running = await started({ servers: { clock: { url: `http://127.0.0.1:${port}/mcp` } } });
    expect(running.output).toMatch(/^ {2}clock {2}up {2}1 tool /m);
    const url = /listening on (\S+)/.exec(running.output)![1]!;
    const gone = once(clock, 'close');
    clock.close();
    clock.closeAllConnections();
    await gone;
    const down = await until(/^.* server clock is down: .*$/m, running, url);
    expect(down).toMatch(/^\d\d:\d\d:\d\d\.\d{3} WARN {2}server clock is down: .*refused/);
    clock = await clockAt(port);
    const back = await until(/^.* server clock is up again.*$/m, running, url);
    expect(steady(back)).toMatch(/^\S+ INFO {2}server clock is up again, after TIME away: 1 tool$/);
    expect(running.output.split('Stop with Ctrl-C.\n')[1]!.trimEnd().split('\n')).toHaveLength(2);
  });

  /** Calls until the gateway has noticed the new state of the server. */
  async function until(pattern: RegExp, running: Terminal, url: string): Promise<string> {
    for (; !pattern.test(running.output); await delay(100)) await call(url);
    return pattern.exec(running.output)![0];
  }

  test('prints a line for each call at log level debug only', async () => {
    const quiet = await started({ servers: { units: UNITS } });
    await callUnits(quiet);
    expect(await quiet.interrupt()).toBe(0);
    expect(quiet.output.split('Stop with Ctrl-C.\n')[1]).toMatch(/^(\^C)?\S+ INFO {2}stopping signal=SIGINT\n$/);

    const loud = await started({ servers: { units: UNITS }, log: { level: 'debug' } });
    await callUnits(loud);
    const line = await loud.shows(/^.* tools\/call .*$/m);
    expect(steady(line)).toMatch(
      /^\S+ DEBUG tools\/call units\/convert ok in TIME \[local, test 1, 2026-07-28 -> 2025-11-25, id 1\]$/,
    );
    expect(loud.output).not.toContain('26.2');
  });

  async function callUnits(running: Terminal): Promise<void> {
    const url = /listening on (\S+)/.exec(running.output)![1]!;
    await call(url, { name: 'units__convert', arguments: { value: 26.2, from: 'mile', to: 'km' } });
  }
});

describe('parley serve for programs', () => {
  test('writes calls and changes as JSON with an event, and one line on stdout', async () => {
    const running = start({
      servers: { units: UNITS },
      agents: { desk: { tools: ['units__*'] } },
      log: { format: 'json' },
    });
    const up = await running.shows(/^\{.*"event":"server\.up".*\}$/m);
    expect(JSON.parse(up)).toMatchObject({
      level: 30,
      event: 'server.up',
      server: 'units',
      tools: 2,
      startMs: expect.any(Number),
      msg: 'server is up',
    });
    const url = /listening on (\S+)/.exec(running.output)![1]!;
    await call(url, { name: 'units__convert', arguments: { value: 26.2, from: 'mile', to: 'km' } });
    const line = await running.shows(/^\{.*"event":"call".*\}$/m);
    expect(JSON.parse(line)).toMatchObject({
      level: 30,
      protocol: 'mcp',
      id: 1,
      caller: 'local',
      client: 'test 1',
      method: 'tools/call',
      server: 'units',
      tool: 'convert',
      outcome: 'ok',
      ms: expect.any(Number),
    });
    const answer = await fetch(`${url}/a2a/desk`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'a2a-version': '1.0' },
      body: JSON.stringify({
        jsonrpc: '2.0',
        id: 'a2a-1',
        method: 'SendMessage',
        params: {
          message: {
            messageId: 'm1',
            role: 'ROLE_USER',
            parts: [{ data: { tool: 'units__list_units', arguments: { kind: 'mass' } } }],
          },
        },
      }),
    });
    expect(answer.status).toBe(200);
    const agent = await running.shows(/^\{.*"protocol":"a2a".*\}$/m);
    expect(JSON.parse(agent)).toMatchObject({
      level: 30,
      event: 'call',
      id: 'a2a-1',
      caller: 'local',
      method: 'SendMessage',
      agent: 'desk',
      outcome: 'ok',
      ms: expect.any(Number),
      revision: '1.0',
    });
    // The tool behind the agent was called too.
    expect(running.output).toMatch(/"protocol":"mcp".*"tool":"list_units"/);
    const plain = running.output.split('\n').filter((text) => text !== '' && !text.startsWith('{'));
    expect(plain).toEqual([`Parley is listening on ${url}`]);
  });
});

/** Makes a call and ignores its outcome. */
async function call(url: string, params: object = { name: 'clock__now', arguments: {} }): Promise<void> {
  const { name } = params as { name: string };
  const meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientCapabilities': {},
    'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
  };
  const response = await fetch(`${url}/mcp`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/call',
      'mcp-name': name,
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { ...params, _meta: meta } }),
  });
  await response.text();
}

/** A modern server with one tool. */
async function clockAt(port: number): Promise<Server> {
  const answers: Record<string, object> = {
    'server/discover': {
      supportedVersions: ['2026-07-28'],
      capabilities: { tools: {} },
      ttlMs: 60_000,
      cacheScope: 'public',
    },
    'tools/list': { tools: [{ name: 'now', inputSchema: { type: 'object' } }], ttlMs: 60_000, cacheScope: 'public' },
    'tools/call': { content: [{ type: 'text', text: 'noon' }] },
  };
  const server = createServer((req, res) => {
    const chunks: Buffer[] = [];
    req.on('data', (chunk: Buffer) => chunks.push(chunk));
    req.on('end', () => {
      const { id, method } = JSON.parse(Buffer.concat(chunks).toString()) as { id?: number; method: string };
      const result = { resultType: 'complete', ...answers[method], _meta: {} };
      res.writeHead(id === undefined ? 202 : 200, { 'content-type': 'application/json' });
      res.end(id === undefined ? undefined : JSON.stringify({ jsonrpc: '2.0', id, result }));
    });
  });
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  return server;
}
