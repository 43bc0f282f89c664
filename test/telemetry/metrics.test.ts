/** `/metrics` of a real gateway, and the dashboard and alert rules that use it, checked by Prometheus' own tool. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { parse } from 'yaml';
import { METRICS } from '../../src/telemetry/metrics/all-metrics.js';
import { type RunningGateway, startGateway } from '../support/gateway.js';
import { promtool } from '../support/services.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const DEPLOY = path.join(ROOT, 'deploy');
const [ADMIN, USER, SCRAPER] = [
  '61646d696e61646d696e61646d696e',
  '757365727573657275736572757365',
  '7363726170657273637261706572',
];

/** More connections than the tests open. */
const CONNECTIONS = 50;

let gateway: RunningGateway;

const get = async (token?: string) => {
  const reply = await fetch(`${gateway.url}/metrics`, {
    headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
  });
  return { status: reply.status, type: reply.headers.get('content-type'), text: await reply.text() };
};

const modern = (method: string, params: object = {}, name?: string) => {
  const prefix = 'io.modelcontextprotocol';
  return fetch(`${gateway.url}/mcp`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      authorization: `Bearer ${USER}`,
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': method,
      ...(name !== undefined && { 'mcp-name': name }),
    },
    body: JSON.stringify({
      ...{ jsonrpc: '2.0', id: 1, method },
      params: {
        ...params,
        _meta: { [`${prefix}/protocolVersion`]: '2026-07-28', [`${prefix}/clientCapabilities`]: {} },
      },
    }),
  }).then((reply) => reply.text());
};

beforeAll(async () => {
  gateway = await startGateway({
    servers: { units: { command: process.execPath, args: [path.join(ROOT, 'examples/units.mjs')] } },
    auth: {
      tokens: [
        { name: 'ada', token: USER },
        { name: 'root', token: ADMIN, admin: true },
      ],
    },
    metrics: { token: SCRAPER },
    limits: { connectionsPerAddress: CONNECTIONS },
  });
  await modern('tools/list');
  await modern(
    'tools/call',
    { name: 'units__convert', arguments: { value: 1, from: 'km', to: 'm' } },
    'units__convert',
  );
  await modern('tools/call', { name: 'nothing', arguments: {} }, 'nothing');
  await fetch(`${gateway.url}/mcp`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${USER}` },
    body: '{"jsonrpc": nonsense',
  }).then((reply) => reply.text());
});
afterAll(() => gateway?.close());

describe('/metrics', () => {
  test('is for administrators and its own token', async () => {
    expect((await get()).status).toBe(401);
    expect((await get(USER)).status).toBe(403);
    expect((await get(ADMIN)).status).toBe(200);
    const own = await get(SCRAPER);
    expect(own).toMatchObject({ status: 200, type: 'text/plain; version=0.0.4; charset=utf-8' });
    // The token of the metrics gives no administrative access elsewhere.
    const other = await fetch(`${gateway.url}/servers/units/logs`, { headers: { authorization: `Bearer ${SCRAPER}` } });
    expect(other.status).toBe(401);
  });

  test('S2-33: counts calls, errors, violations and revisions, and measures the gateway', async () => {
    const { text } = await get(ADMIN);
    for (const line of [
      /^parley_calls_total\{protocol="mcp",method="tools\/call",upstream="units",outcome="ok"\} 1$/m,
      /^parley_tool_calls_total\{upstream="units",tool="convert",outcome="ok"\} 1$/m,
      /^parley_errors_total\{protocol="mcp",reason="tool_not_found"\} 1$/m,
      /^parley_protocol_violations_total\{side="client",kind="parse_error"\} 1$/m,
      /^parley_client_revision_calls_total\{protocol="mcp",revision="2026-07-28"\} \d+$/m,
      /^parley_upstream_revision_calls_total\{protocol="mcp",revision="[\d-]+"\} \d+$/m,
      /^parley_upstream_up\{kind="server",upstream="units"\} 1$/m,
      /^parley_outbox_messages\{state="waiting"\} 0$/m,
      /^parley_db_commit_transactions_count \d+$/m,
      /^parley_event_loop_delay_seconds\{statistic="p99"\} /m,
      /^parley_storage_up\{part="database"\} 1$/m,
    ])
      expect(text).toMatch(line);
  });

  test('counts the errors of requests that are no calls, over every transport', async () => {
    const legacy = async (message: object, session?: string) => {
      const reply = await fetch(`${gateway.url}/mcp`, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          authorization: `Bearer ${USER}`,
          ...(session !== undefined && { 'mcp-session-id': session }),
        },
        body: JSON.stringify(message),
      });
      await reply.text();
      return reply.headers.get('mcp-session-id') ?? undefined;
    };
    const request = (method: string, params: object = {}) => ({ jsonrpc: '2.0', id: 1, method, params });
    const client = { capabilities: {}, clientInfo: { name: 'test', version: '1' } };
    const initialize = (protocolVersion: string) => request('initialize', { protocolVersion, ...client });
    /** The counts of the errors of MCP, and of the violations of clients. */
    const counts = async () => {
      const { text } = await get(ADMIN);
      const count = (name: string, labels: string) =>
        Number(new RegExp(`^parley_${name}\\{${labels}\\} (\\d+)$`, 'm').exec(text)?.[1] ?? 0);
      const errors = (reason: string) => count('errors_total', `protocol="mcp",reason="${reason}"`);
      const violations = (kind: string) => count('protocol_violations_total', `side="client",kind="${kind}"`);
      return {
        methods: errors('method_not_found'),
        versions: [errors('version_negotiation'), violations('version_negotiation')],
        params: [errors('invalid_params'), violations('invalid_params')],
        requests: errors('invalid_request'),
        unread: [errors('parse_error'), violations('parse_error')],
      };
    };
    const before = await counts();
    await modern('made/up');
    await modern('subscriptions/listen', { notifications: 'everything' });
    await legacy(initialize('nonsense'));
    const session = await legacy(initialize('2025-03-26'));
    await legacy(request('made/up'), session);
    await legacy(request('logging/setLevel', { level: 'loud' }), session);
    await legacy([{ jsonrpc: '2.0', id: 2 }, request('ping')] as object, session);
    const socket = new WebSocket(`${gateway.url.replace('http', 'ws')}/ws`, {
      headers: { authorization: `Bearer ${USER}` },
    });
    try {
      const answers: string[] = [];
      socket.on('message', (data) => answers.push(String(data)));
      await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
      socket.send('{"jsonrpc": nonsense');
      socket.send(JSON.stringify(request('tools/list')));
      await expect.poll(() => answers.length, { timeout: 20_000 }).toBe(2);
    } finally {
      socket.terminate();
    }
    const by = (counted: number[], more: number) => counted.map((count) => count + more);
    expect(await counts()).toEqual({
      methods: before.methods + 2,
      versions: by(before.versions, 1),
      params: by(before.params, 2),
      // An item of a batch, and a request before the handshake.
      requests: before.requests + 2,
      unread: by(before.unread, 1),
    });
  });

  test('counts the connections that a limit refused', async () => {
    const sockets = Array.from({ length: CONNECTIONS + 1 }, () =>
      connect(Number(new URL(gateway.url).port), '127.0.0.1').on('error', () => {}),
    );
    // At least one of them is refused.
    await Promise.any(sockets.map((socket) => new Promise((closed) => socket.once('close', closed))));
    for (const socket of sockets) socket.destroy();
    const counted = /^parley_limit_refusals_total\{limit="limits\.connectionsPerAddress"\} [1-9]\d*$/m;
    await expect
      .poll(async () => (await get(ADMIN).catch(() => ({ text: '' }))).text, { timeout: 20_000 })
      .toMatch(counted);
  });

  test('has every metric of the list, and no other', async () => {
    const { text } = await get(ADMIN);
    const served = [...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name);
    expect([...served].sort()).toEqual(
      Object.values(METRICS)
        .map(({ name }) => name)
        .sort(),
    );
  });

  test('is accepted by promtool check metrics', async () => {
    const { text } = await get(ADMIN);
    const { status, stderr } = spawnSync(await promtool(), ['check', 'metrics'], { input: text, encoding: 'utf8' });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  });
});

describe('the files in deploy/', () => {
  const names = new Set(
    Object.values(METRICS).flatMap((metric) =>
      'buckets' in metric ? ['bucket', 'sum', 'count'].map((end) => `${metric.name}_${end}`) : [metric.name],
    ),
  );
  const used = (text: string): string[] => [...text.matchAll(/\b(?:parley|process|nodejs)_\w+/g)].map(([name]) => name);

  test('alert rules are accepted by promtool and use metrics that exist', async () => {
    const tool = await promtool();
    const rules = path.join(DEPLOY, 'prometheus/alerts.yaml');
    const { status, stdout, stderr } = spawnSync(tool, ['check', 'rules', rules], { encoding: 'utf8' });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    const { groups } = parse(readFileSync(rules, 'utf8')) as { groups: { rules: { expr: string }[] }[] };
    const all = groups.flatMap((group) => group.rules);
    expect(stdout).toContain(`SUCCESS: ${all.length} rules found`);
    for (const { expr } of all) for (const name of used(expr)) expect(names).toContain(name);
  });

  test('the Grafana dashboard has queries that Prometheus can parse, and shows every metric', async () => {
    const dashboard = JSON.parse(readFileSync(path.join(DEPLOY, 'grafana/parley.json'), 'utf8')) as {
      panels: { id: number; title: string; targets: { expr: string }[] }[];
    };
    const exprs = dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));
    expect(new Set(dashboard.panels.map(({ id }) => id)).size).toBe(dashboard.panels.length);
    const shown = new Set(exprs.flatMap(used));
    for (const name of shown) expect(names).toContain(name);
    const base = (name: string): string => name.replace(/_(bucket|sum|count)$/, '');
    const covered = new Set([...shown].map(base));
    const unused = Object.values(METRICS).filter(
      ({ name }) => !covered.has(name) && name !== 'nodejs_heap_size_limit_bytes',
    );
    expect(unused.map(({ name }) => name)).toEqual([]);
    // promtool has no command for a single query, so the queries become recording rules.
    const rules = exprs.map((expr, index) => ({
      record: `panel:${index}`,
      expr: expr.replaceAll('$__rate_interval', '5m').replaceAll('$instance', '.*'),
    }));
    const folder = mkdtempSync(path.join(tmpdir(), 'parley-panels-'));
    const file = path.join(folder, 'panels.json');
    writeFileSync(file, JSON.stringify({ groups: [{ name: 'panels', rules }] }));
    const { status, stderr } = spawnSync(await promtool(), ['check', 'rules', file], { encoding: 'utf8' });
    rmSync(folder, { recursive: true });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  });
});
