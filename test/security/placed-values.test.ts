/**
 * S4: values of callers that the gateway places into URLs and headers change neither the path before them nor the set
 * of headers. The upstream is a plain socket, so that the test sees the bytes of the request.
 */

import type { AddressInfo } from 'node:net';
import { createServer, type Server, type Socket } from 'node:net';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { HttpClient, httpTarget } from '../../src/outbound/http/index.js';
import { requestFormatOf, restRoute } from '../../src/protocol/a2a/request-format.js';
import { ProtocolError } from '../../src/protocol/errors.js';
import type { JsonObject } from '../../src/protocol/jsonrpc/raw.js';
import { decodeHeaderValue, encodeHeaderValue, paramHeaders } from '../../src/protocol/mcp/mirrored-headers.js';

const HOSTILE = ['..', '/', '?', '#', '%2f', '%', '\r', '\n', '\0', '\\', ' ', 'é', '日', '\ud800', ';', '&', '=', ':'];
const hostile = fc
  .array(fc.oneof(fc.constantFrom(...HOSTILE), fc.string({ maxLength: 5 })), { maxLength: 8 })
  .map((parts) => parts.join(''));

let server: Server;
let origin: string;
let heads: string[] = [];
const client = new HttpClient({ connectTimeout: 5_000 });

beforeAll(async () => {
  server = createServer((socket: Socket) => {
    let text = '';
    socket.on('error', () => {});
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1');
      for (let end = text.indexOf('\r\n\r\n'); end >= 0; end = text.indexOf('\r\n\r\n')) {
        heads.push(text.slice(0, end));
        text = text.slice(end + 4);
        socket.write('HTTP/1.1 204 No Content\r\n\r\n');
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(async () => {
  await client.close();
  await new Promise((resolve) => server.close(resolve));
});

/** The heads that the server received for one request; none if the client refused to send it. */
async function sent(path: string, headers: readonly string[]): Promise<string[]> {
  heads = [];
  await new Promise<void>((resolve) => {
    const over = (): void => resolve();
    client.request(
      { ...httpTarget(origin), path },
      { method: 'GET', headers },
      { start: () => {}, data: () => {}, end: over, fail: over },
    );
  });
  return heads;
}
const namesIn = (head: string): string[] =>
  head
    .split('\r\n')
    .slice(1)
    .map((line) => line.slice(0, line.indexOf(':')).toLowerCase())
    .sort();

const mirrored = [{ header: 'Region', path: ['region'], type: 'string' as const }];

test('S4: an argument that is mirrored in a header adds no header, and the server reads the same value', async () => {
  const [plain] = await sent('/mcp', paramHeaders(mirrored, { region: 'eu' }));
  const expected = namesIn(plain!);
  await fc.assert(
    fc.asyncProperty(hostile, async (value) => {
      const headers = paramHeaders(mirrored, { region: value } as JsonObject);
      const found = await sent('/mcp', headers);
      expect(found).toHaveLength(1);
      expect(namesIn(found[0]!)).toEqual(expected);
      expect(found[0]!.startsWith('GET /mcp HTTP/1.1\r\n')).toBe(true);
      // Half of a surrogate pair cannot be sent in UTF-8.
      const whole = Buffer.from(value, 'utf8').toString('utf8');
      expect(decodeHeaderValue(encodeHeaderValue(value))).toBe(whole);
    }),
    { numRuns: 300 },
  );
});

test('S4: an id in the path of a request to an agent stays one segment below its prefix', async () => {
  const { rest } = requestFormatOf('1.0');
  await fc.assert(
    fc.asyncProperty(hostile, async (id) => {
      let path: string;
      try {
        path = restRoute(rest!, 'GetTask', { id } as JsonObject).path;
      } catch (error) {
        // The gateway refuses these ids before it sends anything.
        expect(error).toBeInstanceOf(ProtocolError);
        return;
      }
      const prefix = restRoute(rest!, 'GetTask', { id: 'x' } as JsonObject).path.replace(/x$/, '');
      const bare = path.replace(/\?.*$/, '');
      expect(bare.startsWith(prefix)).toBe(true);
      expect(bare.slice(prefix.length)).toMatch(/^[\x21\x24-\x2e\x30-\x3e\x40-\x7e]*$/);
      for (const head of await sent(`/base${path}`, [])) {
        const [, target = '', version] = /^GET (\S*) (HTTP\/1\.1)\r\n/.exec(`${head}\r\n`) ?? [];
        expect(version).toBe('HTTP/1.1');
        // A peer that normalises the path as WHATWG URL does stays below the prefix.
        expect(new URL(`http://x${target}`).pathname.startsWith(`/base${prefix}`)).toBe(true);
        expect(namesIn(head)).toEqual(['connection', 'host']);
      }
    }),
    { numRuns: 300 },
  );
});

test('S4: the tenant on a card stays one segment', () => {
  const { rest } = requestFormatOf('1.0');
  const pathFor = (tenant: string): string => restRoute(rest!, 'ListTasks', { tenant } as JsonObject).path;
  expect(pathFor('a/../b')).toBe('/a%2F..%2Fb/tasks');
  for (const tenant of ['.', '..', '\ud800']) expect(() => pathFor(tenant)).toThrow(ProtocolError);
});

test('S4: the client sends no header and no path with a line break', async () => {
  for (const value of ['a\r\nX-Evil: 1', 'a\nb', 'a\0b']) {
    expect(await sent('/mcp', ['x-value', value])).toEqual([]);
    expect(await sent(`/mcp?${value}`, [])).toEqual([]);
  }
});
