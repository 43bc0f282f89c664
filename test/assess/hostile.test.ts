/** Servers that hang, flood and send wrong data: the assessment ends by its own limits, with a report. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { type AssessOptions, assess } from '../../src/assess/assess.js';
import { profileOf } from '../../src/assess/profiles.js';
import type { Report } from '../../src/assess/report/model.js';
import { FORMATS, render } from '../../src/assess/report/render.js';
import { McpFixture } from '../fixtures/assess/mcp-server.js';

type Options = Partial<AssessOptions> & Pick<AssessOptions, 'target'>;

const examine = (options: Options): Promise<Report> =>
  assess({
    tool: 'test',
    profile: profileOf('standard')!,
    active: true,
    pace: { interval: 0, answer: 400, total: 2_000 },
    ...options,
  });

/** Runs the assessment against a server on this machine. */
async function against(handle: RequestListener, more: Partial<AssessOptions> = {}): Promise<Report> {
  const server = createServer(handle).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`);
  try {
    return await examine({ target: { kind: 'url', url }, ...more });
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

/** Every report format is written, has a bounded size, and contains no control characters, whatever the server sent. */
function expectReadable(report: Report): void {
  for (const format of FORMATS) {
    const text = render(report, format);
    expect(text.length, format).toBeGreaterThan(10);
    expect(text.length, format).toBeLessThan(4 * 1024 * 1024);
    expect(text, format).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f]/);
  }
}

const bodyOf = async (request: IncomingMessage): Promise<string> => {
  let text = '';
  for await (const chunk of request) text += String(chunk);
  return text;
};

/** A correct server, whose answers a function changes after the handshake. */
function correctUntil(change: (method: string, response: ServerResponse, body: string) => boolean): RequestListener {
  const fixture = new McpFixture('D');
  return (request, response) => {
    void bodyOf(request).then((body) => {
      const method = /"method":"([^"]+)"/.exec(body)?.[1] ?? String(request.method);
      if (change(method, response, body)) return;
      const headers = { ...(request.headers as Record<string, string>), host: 'localhost' };
      const answer = fixture.http({ method: request.method!, path: request.url!, headers, body });
      const type = answer.stream ? 'text/event-stream' : 'application/json';
      const sent = answer.messages.map((each) => JSON.stringify(each));
      response.writeHead(answer.status, { ...(sent.length > 0 && { 'content-type': type }), ...answer.headers });
      response.end(answer.stream ? sent.map((each) => `data: ${each}\n\n`).join('') : sent[0]);
    });
  };
}

/** Writes until the client disconnects. */
function pour(response: ServerResponse, chunk: string): void {
  const more = (): void => {
    while (!response.destroyed && response.write(chunk));
  };
  response.on('drain', more).on('error', () => {});
  more();
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

const isCall = (method: string): boolean => !/^(initialize|notifications\/|ping|DELETE)/.test(method);

describe('a hostile HTTP server', () => {
  const servers: Record<string, RequestListener> = {
    'never answers': () => {},
    'answers with a head and no body': (_, response) => {
      response.writeHead(200, { 'content-type': 'application/json' }).flushHeaders();
    },
    'sends one byte at a time': (_, response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      const timer = setInterval(() => response.write(' '), 20);
      response.on('close', () => clearInterval(timer));
    },
    'sends an endless body': (_, response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      pour(response, '['.repeat(64 * 1024));
    },
    'sends endless events': (_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      pour(response, 'data: {"jsonrpc":"2.0","method":"notifications/message","params":{}}\n\n'.repeat(500));
    },
    'sends an endless event': (_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      pour(response, `data: ${'x'.repeat(64 * 1024)}\n`);
    },
    'announces an endpoint and floods': (request, response) => {
      if (request.method !== 'GET') return void response.writeHead(405).end();
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('event: endpoint\ndata: /messages\n\n');
      pour(response, 'data: {"jsonrpc":"2.0","id":1,"result":{}}\n\n'.repeat(500));
    },
    'redirects in a circle': (_, response) => void response.writeHead(307, { location: '/mcp' }).end(),
    'sends a decompression bomb': (_, response) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' });
      response.end(gzipSync(Buffer.alloc(64 * 1024 * 1024)));
    },
    'nests deeply': (_, response) => {
      const deep = `${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}`;
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(`{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"],"capabilities":${deep}}}`);
    },
    'sends control characters': (_, response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end('{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"\\u001b[2J\\u0007<script>"}}');
    },
  };
  for (const [what, handle] of Object.entries(servers)) {
    it(`that ${what} gets a report`, async () => {
      const report = await against(handle);
      expectReadable(report);
      expect(report.score).toBeLessThan(90);
    });
  }

  const later: Record<string, RequestListener> = {
    'hangs after the handshake': correctUntil((method) => isCall(method)),
    'lists without an end': correctUntil((method, response, body) => {
      if (method !== 'tools/list') return false;
      const { id } = JSON.parse(body) as { id: number };
      const tools = [{ name: `tool${Math.random()}`, inputSchema: { type: 'object' } }];
      const result = { tools, nextCursor: String(Math.random()) };
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ jsonrpc: '2.0', id, result }));
      return true;
    }),
    'sends many bytes in each answer': correctUntil((method, response, body) => {
      if (!isCall(method)) return false;
      const id = Number(/"id":(\d+)/.exec(body)?.[1] ?? 0);
      const name = '\u001b[31m'.repeat(300_000);
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ jsonrpc: '2.0', id, result: { tools: [{ name }], _meta: { [name]: 1 } } }));
      return true;
    }),
    'breaks each connection': correctUntil((method, response) => {
      if (isCall(method)) response.destroy();
      return isCall(method);
    }),
  };
  for (const [what, handle] of Object.entries(later)) {
    it(`that ${what} gets a report`, async () => {
      const report = await against(handle, { revisions: ['2025-11-25'] });
      expectReadable(report);
      expect(report.sections).toHaveLength(1);
      expect(report.score).toBeLessThan(90);
    });
  }

  it('with wrong lengths gets a report', async () => {
    const lengths = [0, 5, 100_000, 'x'];
    const sockets = new Set<Socket>();
    let next = 0;
    const server = createTcpServer((socket) => {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('data', () => {
        const length = lengths[next++ % lengths.length];
        socket.write(
          `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n\r\n{"jsonrpc":"2.0"}`,
        );
      });
    }).listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`);
    expectReadable(await examine({ target: { kind: 'url', url } }));
    for (const socket of sockets) socket.destroy();
    server.close();
  });

  it('gets no credentials at another origin', async () => {
    const seen: string[] = [];
    const other = createServer((request, response) => {
      seen.push(`${request.method} ${request.url} ${request.headers.authorization}`);
      response.end();
    }).listen(0, '127.0.0.1');
    await new Promise((resolve) => other.once('listening', resolve));
    const origin = `http://127.0.0.1:${(other.address() as AddressInfo).port}`;
    const credentials = [['Authorization', 'Bearer secret-token-of-the-user']] as const;
    for (const handle of [
      (_: IncomingMessage, response: ServerResponse) =>
        void response.writeHead(307, { location: `${origin}/mcp` }).end(),
      (_: IncomingMessage, response: ServerResponse) =>
        void response
          .writeHead(401, { 'www-authenticate': `Bearer resource_metadata="${origin}/metadata"` })
          .end('secret-token-of-the-user'),
      (request: IncomingMessage, response: ServerResponse) => {
        if (request.method !== 'GET') return void response.writeHead(405).end();
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.write(`event: endpoint\ndata: ${origin}/messages\n\n`);
      },
    ]) {
      const report = await against(handle, { credentials });
      for (const format of FORMATS) expect(render(report, format)).not.toContain('secret-token-of-the-user');
    }
    expect(seen).toEqual([]);
    other.close();
  });
});

describe('a hostile program', () => {
  const programs: Record<string, string> = {
    'never answers': 'process.stdin.resume()',
    'ends at once': 'process.exit(3)',
    'ignores signals': "process.on('SIGTERM', () => {}); setInterval(() => {}, 1000)",
    'writes an endless line':
      "const go = () => { while (process.stdout.write('x'.repeat(65536))); }; process.stdout.on('drain', go); go()",
    'writes endless messages':
      'const line = \'{"jsonrpc":"2.0","method":"notifications/message","params":{}}\\n\'.repeat(500); const go = () => { while (process.stdout.write(line)); }; process.stdout.on(\'drain\', go); go()',
    'writes endless other lines':
      "const go = () => { while (process.stdout.write('log\\n'.repeat(9999))); }; process.stdout.on('drain', go); go()",
    'nests deeply': `
      require('node:readline').createInterface(process.stdin).on('line', (line) => {
        const deep = '['.repeat(50_000) + ']'.repeat(50_000);
        const { id } = JSON.parse(line);
        if (id !== undefined) console.log('{"jsonrpc":"2.0","id":' + JSON.stringify(id) + ',"result":{"a":' + deep + '}}');
      })`,
    'repeats what it reads': 'process.stdin.pipe(process.stdout)',
  };
  for (const [what, code] of Object.entries(programs)) {
    it(`that ${what} gets a report`, async () => {
      const command = { command: process.execPath, args: ['-e', code], cwd: process.cwd() };
      const report = await examine({ target: { kind: 'command', command } });
      expectReadable(report);
      expect(report.score).toBe(0);
      expect(report.complete).toBe(false);
    });
  }

  it('that hangs after the handshake leaves no process behind', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'parley-assess-'));
    const file = join(folder, 'pids');
    const code = `
      require('node:fs').appendFileSync(${JSON.stringify(file)}, process.pid + '\\n');
      require('node:readline').createInterface(process.stdin).on('line', (line) => {
        const { id, method, params } = JSON.parse(line);
        const serverInfo = { name: 'x', version: '1' };
        const result = { protocolVersion: params?.protocolVersion, capabilities: { tools: {} }, serverInfo };
        if (method === 'initialize') console.log(JSON.stringify({ jsonrpc: '2.0', id, result }));
      });
      setInterval(() => {}, 1000);`;
    const command = { command: process.execPath, args: ['-e', code], cwd: folder };
    // Time for the start of the program on a busy machine.
    const pace = { interval: 0, answer: 3_000, total: 8_000 };
    const report = await examine({ target: { kind: 'command', command }, revisions: ['2025-11-25'], pace });
    expectReadable(report);
    expect(report.complete).toBe(false);
    const pids = readFileSync(file, 'utf8').trim().split('\n').map(Number);
    expect(pids.length).toBeGreaterThan(1);
    expect(pids.filter(isAlive)).toEqual([]);
    rmSync(folder, { recursive: true });
  });

  it('that does not exist gets an error of its own', async () => {
    const command = { command: '/no/such/program', args: [] };
    await expect(examine({ target: { kind: 'command', command } })).rejects.toThrow('cannot start "/no/such/program"');
  });
});
