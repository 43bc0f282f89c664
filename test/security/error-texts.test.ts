/** S25: no answer of any route shows a stack, a path, an address, SQL or a token, whatever the request contains. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { RunningGateway } from '../../src/app/running-gateway.js';
import { startServe } from '../../src/app/serve.js';
import { configFrom } from '../../src/config/load.js';
import { SILENT } from '../../src/telemetry/log.js';

const TOKEN = 'user-0123456789abcdef0123456789abcdef';
const SECRET = 'credential-of-the-server-5d1f';
const HOST = 'internal-host.invalid';

let folder: string;
let gateway: RunningGateway;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'parley-errors-'));
  const headers = { Authorization: `Bearer ${SECRET}` };
  const { config } = configFrom(
    {
      listen: '127.0.0.1:0',
      data: join(folder, 'data'),
      servers: {
        gone: { url: 'http://127.0.0.1:9/hidden/mcp', headers },
        nowhere: { url: `https://${HOST}/mcp`, headers },
      },
      agents: { lost: { url: 'http://127.0.0.1:9/hidden', headers }, made: { tools: ['gone__*'] } },
      timeouts: { connect: '1s', call: '2s' },
      auth: { tokens: [{ name: 'ada', token: TOKEN }] },
    },
    { env: {} },
  );
  gateway = await startServe(config, { log: SILENT });
});
afterAll(async () => {
  await gateway.close();
  await rm(folder, { recursive: true, force: true });
});

const LEAKS: readonly (readonly [string, RegExp])[] = [
  ['a stack', /\n\s+at |\\n\s+at |node:internal|\.[cm]?[jt]s:\d+|node_modules/],
  ['a path', /\/(?:srv|opt|work|tmp|home|usr|root|dist|src|etc)\//],
  ['an address', /127\.0\.0\.1:9\b|ECONN|ENOTFOUND|EAI_AGAIN|internal-host|hidden/],
  ['SQL', /\b(?:SELECT|INSERT|UPDATE|DELETE)\b.{1,60}\b(?:FROM|INTO|SET|WHERE)\b|sqlite|SQLITE|pg_/],
  ['a token', new RegExp(`${TOKEN}|${SECRET}`)],
];

const METHODS = [
  ...['tools/call', 'tools/list', 'prompts/get', 'resources/read', 'completion/complete', 'initialize', 'tasks/get'],
  ...['server/discover', 'subscriptions/listen', 'logging/setLevel', 'SendMessage', 'message/send', 'GetTask', 'x/y'],
];
const names = fc.constantFrom('gone__x', 'nowhere__x', 'gone', 'lost', "'; DROP TABLE pins; --", '\0', '../../x', 'é');
const value = fc.oneof(names, fc.string(), fc.integer(), fc.constant(null), fc.jsonValue());
const message = fc.record(
  {
    jsonrpc: fc.constantFrom('2.0', '1.0'),
    id: fc.oneof(fc.integer(), fc.string(), fc.constant(null)),
    method: fc.oneof(fc.constantFrom(...METHODS), fc.string()),
    params: fc.record(
      {
        name: value,
        uri: value,
        taskId: value,
        id: value,
        cursor: value,
        arguments: value,
        message: value,
        ref: value,
      },
      { requiredKeys: [] },
    ),
  },
  { requiredKeys: [] },
);
const body = fc.oneof(
  message.map((each) => JSON.stringify(each)),
  fc.string(),
  fc.constantFrom('', '{', '[]', '[[[[', '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"gone__x"}}'),
);
const version = fc.constantFrom('2026-07-28', '2025-06-18', '2024-11-05', '1999-01-01', '');

test('S25: 600 requests to all routes', async () => {
  const routes = gateway.routes.filter(({ path }) => !/sse$/.test(path));
  const requests = fc.record({
    route: fc.constantFrom(...routes),
    parameter: fc.constantFrom('gone', 'lost', 'made', 'none', '%00', '..%2f..', "x'--"),
    body,
    version,
    type: fc.constantFrom('application/json', 'text/plain', 'application/a2a+json'),
  });
  await fc.assert(
    fc.asyncProperty(requests, async ({ route, parameter, body: sent, version: spoken, type }) => {
      const url = gateway.url + route.path.replace(/\{\w+\}/g, parameter);
      const stop = AbortSignal.timeout(3_000);
      const reply = await fetch(url, {
        method: route.method,
        headers: {
          authorization: `Bearer ${TOKEN}`,
          'content-type': type,
          accept: 'application/json, text/event-stream',
          ...(spoken !== '' && { 'mcp-protocol-version': spoken }),
        },
        ...(route.method !== 'GET' && route.method !== 'DELETE' && { body: sent }),
        signal: stop,
      }).catch(() => undefined);
      if (!reply || reply.status < 400) return void (await reply?.body?.cancel().catch(() => {}));
      const text = `${JSON.stringify([...reply.headers])}\n${await reply.text().catch(() => '')}`;
      // The caller's own words may be in the answer.
      const own = sent.length > 0 ? text.replaceAll(sent, '') : text;
      for (const [what, pattern] of LEAKS)
        expect(
          pattern.exec(own)?.[0],
          `${what} in the answer of ${route.method} ${route.path}: ${own}`,
        ).toBeUndefined();
    }),
    { numRuns: 600 },
  );
});
