/**
 * The spans of a client, a gateway and an upstream that all export to one collector: three processes of Parley, one
 * behind the other, over HTTP, stdio and gRPC.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ModernClient } from '../era-bridge/support/clients.js';
import { type Recording, startRecording } from '../security/recording-upstreams.js';
import { BIN, type RunningGateway, startGateway } from '../support/gateway.js';
import { freePort } from '../support/services.js';
import { type CollectedSpan, type Collector, startCollector } from './otlp-collector.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const UNITS = { units: { command: process.execPath, args: [path.join(ROOT, 'examples/units.mjs')] } };

let folder: string;
let collector: Collector;
let agents: Recording;
let client: RunningGateway;
let gateway: RunningGateway;
let upstream: RunningGateway;

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'parley-chain-'));
  [collector, agents] = await Promise.all([startCollector(), startRecording()]);
  const env = (name: string) => ({
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    OTEL_BSP_SCHEDULE_DELAY: '50',
    OTEL_TRACES_SAMPLER: 'parentbased_always_on',
    OTEL_SERVICE_NAME: name,
  });
  const port = await freePort();
  const egress = { allowPrivate: true, ports: [port] };
  upstream = await startGateway(
    {
      egress,
      servers: UNITS,
      agents: { helper: { url: `${agents.url}/jsonrpc` } },
      grpc: { listen: `127.0.0.1:${port}` },
    },
    { env: env('upstream') },
  );
  const file = path.join(folder, 'stdio.json');
  await writeFile(file, JSON.stringify({ data: path.join(folder, 'data'), servers: UNITS }), { mode: 0o600 });
  gateway = await startGateway(
    {
      egress,
      servers: {
        http: { url: `${upstream.url}/mcp` },
        stdio: { command: process.execPath, args: [BIN, 'stdio', '--config', file], env: env('upstream') },
      },
      agents: {
        helper: { url: `${upstream.url}/a2a/helper`, binding: 'jsonrpc' },
        distant: { url: `${upstream.url}/a2a/helper`, binding: 'grpc' },
      },
    },
    { env: env('gateway') },
  );
  client = await startGateway(
    {
      egress,
      servers: { parley: { url: `${gateway.url}/mcp` } },
      agents: {
        helper: { url: `${gateway.url}/a2a/helper` },
        distant: { url: `${gateway.url}/a2a/distant` },
      },
    },
    { env: env('client') },
  );
});
afterAll(async () => {
  for (const running of [client, gateway, upstream]) await running?.close();
  await Promise.all([collector?.close(), agents?.close()]);
  await rm(folder, { recursive: true, force: true });
});

/** The spans of the trace that has a span of the client with this name, from the first to the last. */
async function chainOf(name: RegExp): Promise<readonly CollectedSpan[]> {
  const first = () =>
    collector.spans.find((span) => span.parent === '' && span.kind === 'server' && name.test(span.name));
  const chain = (): CollectedSpan[] => {
    const found = [first()];
    for (let last = found[0]; last; found.push(last)) {
      const { spanId, traceId } = last;
      last = collector.spans.find((span) => span.traceId === traceId && span.parent === spanId);
    }
    return found.filter((span) => span !== undefined);
  };
  await expect.poll(() => chain().length, { timeout: 30_000 }).toBe(6);
  expect(collector.spans.filter(({ traceId }) => traceId === first()?.traceId)).toHaveLength(6);
  return chain();
}

const placesOf = (chain: readonly CollectedSpan[]) =>
  chain.map(({ resource, kind }) => `${String(resource['service.name'])} ${kind}`);
const EXPECTED = ['client', 'gateway', 'upstream'].flatMap((name) => [`${name} server`, `${name} client`]);

test.each(['http', 'stdio'])('an MCP call is one trace of six spans, with an upstream over %s', async (over) => {
  const args = { value: 1, from: 'km', to: 'm' };
  const answer = await new ModernClient(`${client.url}/mcp`).call(`parley__${over}__units__convert`, args);
  expect(answer.result).toMatchObject({ content: [{ text: expect.stringContaining('1000') as string }] });
  const chain = await chainOf(new RegExp(`^tools/call ${over}__units__convert$`));
  expect(placesOf(chain)).toEqual(EXPECTED);
  expect(chain.at(-1)).toMatchObject({ name: 'tools/call convert', failed: false });
});

test.each([
  ['HTTP', 'helper'],
  ['gRPC', 'distant'],
])('a task of an agent is one trace of six spans, with an upstream over %s', async (_, agent) => {
  const reply = await fetch(`${client.url}/a2a/${agent}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'a2a-version': '1.0' },
    body: JSON.stringify({
      ...{ jsonrpc: '2.0', id: 1, method: 'SendMessage' },
      params: { message: { messageId: 'm1', role: 'ROLE_USER', parts: [{ text: 'hello' }] } },
    }),
  });
  expect(await reply.json()).toMatchObject({ result: { task: { id: expect.any(String) as string } } });
  const chain = await chainOf(new RegExp(`^SendMessage ${agent}$`));
  expect(placesOf(chain)).toEqual(EXPECTED);
});
