import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { fetchLogs, logsText } from './logs-output.js';

describe('fetchLogs', () => {
  let server: Server | undefined;
  afterEach(() => void server?.close());

  async function answering(handle: (path: string | undefined, res: ServerResponse, token?: string) => void) {
    server = createServer((req, res) => handle(req.url, res, req.headers.authorization));
    await new Promise<void>((resolve) => server!.listen(0, '127.0.0.1', resolve));
    return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, token: 'secret' };
  }

  test('sends the token and reads the lines', async () => {
    const asked: unknown[] = [];
    const gateway = await answering((path, res, token) => {
      asked.push(path, token);
      res.end(JSON.stringify({ server: 'files', state: 'idle', lines: [] }));
    });
    expect(await fetchLogs(gateway, 'files')).toEqual({ server: 'files', state: 'idle', lines: [] });
    expect(asked).toEqual(['/servers/files/logs', 'Bearer secret']);
  });

  test('passes on the error of the gateway, and names a peer that is not a gateway', async () => {
    const gateway = await answering((path, res) => {
      res.statusCode = 404;
      res.end(path === '/servers/x/logs' ? '{"error":{"message":"There is no server"}}' : '<html>');
    });
    await expect(fetchLogs(gateway, 'x')).rejects.toThrow('There is no server');
    await expect(fetchLogs(gateway, 'y')).rejects.toThrow(
      `the server at ${gateway.url} is not a Parley gateway (HTTP 404)`,
    );
    server!.close();
    server!.closeAllConnections();
    await expect(fetchLogs(gateway, 'x')).rejects.toThrow(
      `no gateway answers at ${gateway.url}; start one with parley serve, or give another URL with --url`,
    );
  });
});

test('prints readable lines without terminal control sequences', () => {
  const at = Date.UTC(2026, 6, 28, 12);
  const text = logsText({
    server: 'files',
    replica: 'abc',
    state: 'failed',
    problem: 'it exited',
    lines: [
      { at, pid: 7, stream: 'process', text: 'started: `x`' },
      { at, pid: 7, stream: 'stderr', text: '\u001b[31mred\u001b[0m\u0007\r\u009b2J' },
      { at, pid: 7, stream: 'stdout', text: 'banner' },
    ],
  });
  expect(text).toBe(`# files is failed, on replica abc: it exited
2026-07-28T12:00:00.000Z 7 (process) started: \`x\`
2026-07-28T12:00:00.000Z 7 red
2026-07-28T12:00:00.000Z 7 (stdout) banner
`);
  expect(logsText({ server: 'files', state: 'idle', lines: [] })).toBe('# files is idle\n# no output yet\n');
});
