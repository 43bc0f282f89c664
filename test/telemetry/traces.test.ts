/**
 * Spans of real gateways, received by an OTLP collector in this process: over HTTP, stdio and gRPC, for MCP and A2A,
 * and for a call of two rounds on two replicas.
 */
import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sleep } from '../../src/core/timing.js';
import { ALICE, type Replica, type Replicas, startEngines } from '../cluster/support/replicas.js';
import { accept, asked, FORM, ModernClient, textOf } from '../era-bridge/support/clients.js';
import { HttpFixture } from '../fixtures/era-bridge/http.mjs';
import { type Recording, startRecording } from '../security/recording-upstreams.js';
import { type RunningGateway, startGateway } from '../support/gateway.js';
import { type CollectedSpan, type Collector, startCollector } from './otlp-collector.js';

const PROGRAM = fileURLToPath(new URL('../security/recording-program.mjs', import.meta.url));
const envOf = ({ url }: Collector, more: Record<string, string> = {}) => ({
  OTEL_EXPORTER_OTLP_ENDPOINT: url,
  OTEL_BSP_SCHEDULE_DELAY: '50',
  ...more,
});

/** A client's span. */
const parent = (sampled = true) => {
  const [trace, span] = [randomBytes(16).toString('hex'), randomBytes(8).toString('hex')];
  return { trace, span, traceparent: `00-${trace}-${span}-${sampled ? '01' : '00'}` };
};

/** Waits until the spans of a trace have arrived. */
async function spansOf({ spans }: Collector, trace: string, count: number): Promise<CollectedSpan[]> {
  await expect.poll(() => spans.filter(({ traceId }) => traceId === trace).length, { timeout: 20_000 }).toBe(count);
  return spans.filter(({ traceId }) => traceId === trace);
}

const pairOf = (spans: readonly CollectedSpan[]): [server: CollectedSpan, client: CollectedSpan] => [
  spans.find(({ kind }) => kind === 'server')!,
  spans.find(({ kind }) => kind === 'client')!,
];

describe('a gateway that exports traces', () => {
  let folder: string;
  let collector: Collector;
  let upstreams: Recording;
  let gateway: RunningGateway;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'parley-traces-'));
    [collector, upstreams] = await Promise.all([startCollector(), startRecording()]);
    gateway = await startGateway(
      {
        log: { level: 'info', format: 'json' },
        egress: { allowPrivate: true, ports: [Number(upstreams.grpc.split(':')[1])] },
        tracing: { samplePercent: 0 },
        servers: {
          modern: { url: `${upstreams.url}/modern` },
          legacy: { url: `${upstreams.url}/legacy`, revision: 'legacy' },
          stdio: { command: process.execPath, args: [PROGRAM], env: { RECORD: join(folder, 'stdio') } },
        },
        agents: {
          jsonrpc: { url: `${upstreams.url}/jsonrpc`, mcp: true },
          grpc: { url: `${upstreams.url}/grpc` },
        },
      },
      { env: envOf(collector, { OTEL_SERVICE_NAME: 'parley-test' }) },
    );
  });
  afterAll(async () => {
    await gateway?.close();
    await Promise.all([collector?.close(), upstreams?.close()]);
    await rm(folder, { recursive: true, force: true });
  });

  const heard = async (kind: string): Promise<string> =>
    kind === 'stdio' ? readFile(join(folder, 'stdio'), 'utf8') : (upstreams.heard.get(kind) ?? []).join('\n');

  test.each(['modern', 'legacy', 'stdio'])(
    'S0-54, S1-66, S1-67: makes two spans of an MCP call, and the server "%s" gets the second as its parent',
    async (server) => {
      const { trace, span, traceparent } = parent();
      const client = new ModernClient(`${gateway.url}/mcp`);
      const answer = await client.call(`${server}__keep`, { text: 'x' }, { meta: { traceparent } });
      expect(textOf(answer)).toBe('kept');
      const [inward, outward] = pairOf(await spansOf(collector, trace, 2));
      expect(inward).toMatchObject({ name: 'tools/call keep', kind: 'server', parent: span, failed: false });
      expect(outward).toMatchObject({ name: 'tools/call keep', kind: 'client', parent: inward.spanId });
      expect(inward.attributes).toMatchObject({
        'mcp.method.name': 'tools/call',
        'gen_ai.tool.name': 'keep',
        'gen_ai.operation.name': 'execute_tool',
        'mcp.protocol.version': '2026-07-28',
        'mcp.server.name': server,
        'mcp.success': true,
        'network.transport': 'tcp',
      });
      expect(inward.resource).toMatchObject({ 'service.name': 'parley-test' });
      expect(inward.ms).toBeGreaterThanOrEqual(outward.ms);
      expect(await heard(server)).toContain(`"traceparent":"00-${trace}-${outward.spanId}-01"`);
      // The line of the call names the trace.
      await expect.poll(() => gateway.log()).toContain(`"trace":"${trace}"`);
    },
  );

  test('S1-66: takes the trace context from the HTTP headers, and passes it on in headers too', async () => {
    const { trace, span, traceparent } = parent();
    await fetch(`${gateway.url}/mcp`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2026-07-28',
        'mcp-method': 'tools/call',
        'mcp-name': 'modern__keep',
        traceparent,
        tracestate: 'vendor=1',
      },
      body: JSON.stringify({
        ...{ jsonrpc: '2.0', id: 1, method: 'tools/call' },
        params: {
          name: 'modern__keep',
          arguments: {},
          _meta: {
            'io.modelcontextprotocol/protocolVersion': '2026-07-28',
            'io.modelcontextprotocol/clientCapabilities': {},
          },
        },
      }),
    }).then((reply) => reply.text());
    const [inward, outward] = pairOf(await spansOf(collector, trace, 2));
    expect(inward.parent).toBe(span);
    const text = await heard('modern');
    expect(text).toContain(`"traceparent","00-${trace}-${outward.spanId}-01"`);
    expect(text).toContain('"tracestate","vendor=1"');
  });

  test.each(['jsonrpc', 'grpc'])('S1-79: keeps one trace for a task of the A2A agent "%s"', async (agent) => {
    const { trace, span, traceparent } = parent();
    const post = async (method: string, params: object, headers: Record<string, string> = {}) => {
      const reply = await fetch(`${gateway.url}/a2a/${agent}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'a2a-version': '1.0', ...headers },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
      });
      return (await reply.json()) as { result: { task: { id: string } } };
    };
    const message = { messageId: 'm1', role: 'ROLE_USER', parts: [{ text: 'hello' }] };
    const { result } = await post('SendMessage', { message }, { traceparent });
    const [inward, outward] = pairOf(await spansOf(collector, trace, 2));
    expect(inward).toMatchObject({ name: `SendMessage ${agent}`, parent: span });
    expect(outward).toMatchObject({ name: `SendMessage ${agent}`, parent: inward.spanId });
    expect(inward.attributes).toMatchObject({
      'a2a.method': 'SendMessage',
      'a2a.agent.name': agent,
      'a2a.success': true,
      'gen_ai.operation.name': 'invoke_agent',
    });
    expect(await heard(agent)).toContain(`00-${trace}-${outward.spanId}-01`);
    // The next message of the same task, without any trace context of the client.
    await post('SendMessage', { message: { ...message, messageId: 'm2', taskId: result.task.id } });
    const all = await spansOf(collector, trace, 4);
    const second = all.find(({ kind, spanId }) => kind === 'server' && spanId !== inward.spanId)!;
    expect(second.parent).toBe(outward.spanId);
  });

  test('records the decision of the routing agent, but no text of the message', async () => {
    const send = async (text: string, tenant?: string) => {
      const { trace, traceparent } = parent();
      const message = { messageId: 'm1', role: 'ROLE_USER', parts: [{ text }] };
      const reply = await fetch(`${gateway.url}/a2a`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'a2a-version': '1.0', traceparent },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SendMessage', params: { message, tenant } }),
      });
      const { result } = (await reply.json()) as { result: { task: { metadata: Record<string, object> } } };
      const server = () => collector.spans.find((each) => each.traceId === trace && each.kind === 'server');
      await expect.poll(server, { timeout: 20_000 }).toBeDefined();
      return { ...server()!, note: Object.values(result.task.metadata)[0] };
    };
    const named = await send('secretword', 'jsonrpc');
    expect(named.attributes).toMatchObject({ 'parley.route.why': 'tenant', 'a2a.agent.name': 'jsonrpc' });
    expect(named.note).toMatchObject({ agent: 'jsonrpc', why: 'tenant' });
    // Both agents have equal skills, so there is nothing to ask.
    const either = await send('secretword');
    expect(either.attributes).toMatchObject({ 'parley.route.why': 'only' });
    expect(either.note).toMatchObject({ why: 'only' });
    expect(JSON.stringify(either.attributes)).not.toContain('secretword');
  });

  test('connects the spans of an agent that is called as a tool', async () => {
    const { trace, traceparent } = parent();
    const client = new ModernClient(`${gateway.url}/mcp`);
    await client.call('jsonrpc__keep', { message: 'x' }, { meta: { traceparent } });
    const spans = await spansOf(collector, trace, 3);
    const [inward] = pairOf(spans);
    const tool = spans.find(({ kind, name }) => kind === 'client' && name.startsWith('tools/call'))!;
    const agent = spans.find(({ kind, name }) => kind === 'client' && name.startsWith('Send'))!;
    expect([tool.parent, agent.parent]).toEqual([inward.spanId, tool.spanId]);
  });

  test('S1-34 S1-67: exports an unsampled call only if it fails', async () => {
    const [good, bad] = [parent(false), parent(false)];
    const client = new ModernClient(`${gateway.url}/mcp`);
    await client.call('modern__keep', {}, { meta: { traceparent: good.traceparent } });
    await client.call('modern__absent', {}, { meta: { traceparent: bad.traceparent } });
    const [failed] = await spansOf(collector, bad.trace, 1);
    expect(failed).toMatchObject({ failed: true, parent: bad.span });
    expect(failed!.attributes).toMatchObject({ 'error.type': 'tool_not_found', 'mcp.success': false });
    expect(collector.spans.filter(({ traceId }) => traceId === good.trace)).toEqual([]);
    // The upstream gets the context of an unsampled call too.
    expect(await heard('modern')).toContain(`"traceparent":"00-${good.trace}-`);
  });
});

test('S0-54: registrations and health probes have spans', async () => {
  const [collector, upstreams] = await Promise.all([startCollector(), startRecording()]);
  const gateway = await startGateway(
    {
      health: { interval: '100ms' },
      egress: { allowPrivate: true },
      servers: { modern: { url: `${upstreams.url}/modern` } },
    },
    { env: envOf(collector, { OTEL_TRACES_SAMPLER: 'always_on' }) },
  );
  const named = (name: string) => collector.spans.find((span) => span.name === name);
  try {
    const register = (settings: object) =>
      fetch(`${gateway.url}/api/v1/servers`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ name: 'added', settings }),
      });
    expect((await register({ url: `${upstreams.url}/modern` })).status).toBe(201);
    expect((await register({ url: `${upstreams.url}/modern` })).status).toBe(409);
    const registrations = () => collector.spans.filter(({ name }) => name === 'mcp.server.register added');
    await expect.poll(() => registrations().map(({ failed }) => failed), { timeout: 20_000 }).toEqual([false, true]);
    expect(registrations()[0]).toMatchObject({ kind: 'other', parent: '', attributes: { 'mcp.server.name': 'added' } });
    // A server that cannot be reached is probed again and again.
    expect((await register({ url: 'http://127.0.0.1:9/mcp' })).ok).toBe(false);
    await upstreams.close();
    await expect
      .poll(() => named('mcp.server.health modern')?.attributes['mcp.health.status'], { timeout: 20_000 })
      .toBeDefined();
  } finally {
    await gateway.close();
    await collector.close();
  }
});

test('without a collector, calls succeed, and one log line reports the failure (S0-54)', async () => {
  const upstreams = await startRecording();
  const env = { OTEL_BSP_SCHEDULE_DELAY: '50', OTEL_EXPORTER_OTLP_TIMEOUT: '500' };
  const gateway = await startGateway(
    { servers: { modern: { url: `${upstreams.url}/modern` } } },
    { env: { ...env, OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9', OTEL_TRACES_SAMPLER: 'always_on' } },
  );
  try {
    expect(textOf(await new ModernClient(`${gateway.url}/mcp`).call('modern__keep', {}))).toBe('kept');
    const told = (): number => gateway.log().split('failed to export traces over OTLP').length - 1;
    await expect.poll(told, { timeout: 20_000 }).toBe(1);
    for (let call = 0; call < 3; call++) {
      await new ModernClient(`${gateway.url}/mcp`).call('modern__keep', {});
      await sleep(300);
    }
    expect(told()).toBe(1);
  } finally {
    await gateway.close();
    await upstreams.close();
  }
});

describe('two replicas', () => {
  let collector: Collector;
  let files: HttpFixture;
  let engines: Replicas;
  let a: Replica;
  let b: Replica;

  beforeAll(async () => {
    [collector, files, engines] = await Promise.all([
      startCollector(),
      new HttpFixture({ revision: '2025-11-25' }).start(),
      startEngines('postgres'),
    ]);
    const env = envOf(collector, { OTEL_TRACES_SAMPLER: 'always_on' });
    [a, b] = (await engines.start(
      2,
      {
        servers: { files: { url: files.url, revision: '2025-11-25' } },
        policy: { approve: { tools: ['files__wipe'] } },
      },
      [{ env }, { env }],
    )) as [Replica, Replica];
  });
  afterAll(async () => {
    await engines?.stop();
    await Promise.all([collector?.close(), files?.close()]);
  });

  test.each([
    ['that waits for an approval', 'files__wipe', { path: '/srv/data' }],
    ['that waits at a legacy server', 'files__ask', {}],
  ])('keep one trace for a call of two rounds %s', async (_, tool, args) => {
    const { trace, span, traceparent } = parent();
    const first = await new ModernClient(a.mcp, FORM, ALICE).call(tool, args, { meta: { traceparent } });
    const keys = Object.keys(asked(first));
    const inputResponses = Object.fromEntries(
      keys.map((key) => [key, accept(key === 'parley/approval' ? { approve: true } : { name: 'Ada', value: 'Ada' })]),
    );
    const { requestState } = first.result;
    // The second request has no trace context at all.
    const last = await new ModernClient(b.mcp, FORM, ALICE).call(tool, args, { requestState, inputResponses });
    expect(last.error).toBeUndefined();
    await expect
      .poll(() => collector.spans.filter(({ traceId, kind }) => traceId === trace && kind === 'server').length, {
        timeout: 20_000,
      })
      .toBe(2);
    const rounds = collector.spans.filter(({ traceId, kind }) => traceId === trace && kind === 'server');
    const one = rounds.find(({ parent: from }) => from === span)!;
    const two = rounds.find((round) => round !== one)!;
    expect(two.parent).toBe(one.spanId);
    expect(one.attributes['parley.outcome']).toBe('input_required');
    expect(two.attributes['parley.outcome']).toBe('complete');
  });

  test('keep one trace for the requests about a task', async () => {
    const { trace, span, traceparent } = parent();
    const questions = { ...FORM, extensions: { 'io.modelcontextprotocol/tasks': {} } };
    const started = await new ModernClient(a.mcp, questions, ALICE).call('files__ask', {}, { meta: { traceparent } });
    const { taskId } = started.result as unknown as { taskId: string };
    expect(taskId).toEqual(expect.any(String));
    // The other replica gets no trace context of the client.
    const read = await new ModernClient(b.mcp, questions, ALICE).request('tasks/get', { taskId });
    expect(read.error).toBeUndefined();
    const servers = () => collector.spans.filter(({ traceId, kind }) => traceId === trace && kind === 'server');
    await expect.poll(() => servers().length, { timeout: 20_000 }).toBe(2);
    const first = servers().find(({ parent: from }) => from === span)!;
    const second = servers().find((each) => each !== first)!;
    expect([first.name, second.name]).toEqual(['tools/call ask', 'tasks/get']);
    const inTrace = collector.spans.filter(({ traceId }) => traceId === trace).map(({ spanId }) => spanId);
    expect(inTrace).toContain(second.parent);
  });
});
