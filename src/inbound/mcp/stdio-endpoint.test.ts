import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { ALL_SERVERS } from '../../core/gateway.js';
import { OPEN } from '../../identity/authenticator.js';
import { StdioEndpoint, type StdioEndpointOptions } from './stdio-endpoint.js';

const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': {},
};

test('a request that fails in the gateway is answered and reported, and the next one is served', async () => {
  const input = new PassThrough();
  const output = new PassThrough();
  const reported: unknown[] = [];
  const broken = new TypeError('a defect');
  const modern = { handle: () => Promise.reject(broken) } as unknown as StdioEndpointOptions['modern'];
  const endpoint = new StdioEndpoint(
    {
      modern,
      sessions: {} as StdioEndpointOptions['sessions'],
      authenticator: OPEN,
      view: ALL_SERVERS,
      limits: { depth: 64, members: 1_000, event: 100_000, batch: 10 },
      failed: (error) => reported.push(error),
    },
    output,
  );
  const served = endpoint.serve(input);
  for (const id of [1, 2]) {
    input.write(`${JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/list', params: { _meta: META } })}\n`);
  }
  input.end();
  await served;
  await new Promise((resolve) => setImmediate(resolve));
  const answers = String(output.read()).trim().split('\n');
  expect(answers.map((line) => JSON.parse(line))).toMatchObject([
    { id: 1, error: { code: -32603, message: 'Internal error' } },
    { id: 2, error: { code: -32603 } },
  ]);
  expect(reported).toEqual([broken, broken]);
});
