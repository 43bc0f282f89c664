/** S24: the audit trail of a running gateway, its commands, and a database that goes away. */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { openDb } from '../../src/state/open-db.js';
import { callTool, modern } from '../newcomer/peers/wire.js';
import { type CountedUpstream, startCountedServer } from '../pipeline/upstreams.js';
import { BIN, type RunningGateway, startGateway } from '../support/gateway.js';
import { type PostgresService, startPostgres } from '../support/services.js';

const TOKENS = { ada: randomBytes(16).toString('hex'), bob: randomBytes(16).toString('hex') };
const auth = { tokens: Object.entries(TOKENS).map(([name, token]) => ({ name, token })) };
const as = (name: keyof typeof TOKENS) => ({ headers: { authorization: `Bearer ${TOKENS[name]}` } });
const keys = [randomBytes(32).toString('base64')];

let postgres: PostgresService;
let server: CountedUpstream;
let folder: string;
let gateway: RunningGateway | undefined;

beforeAll(async () => {
  postgres = await startPostgres({ fsync: false });
  server = await startCountedServer();
  folder = await mkdtemp(join(tmpdir(), 'parley-audit-'));
}, 120_000);
afterEach(async () => {
  await gateway?.close();
  gateway = undefined;
});
afterAll(async () => {
  await server?.close();
  await postgres?.stop();
  await rm(folder, { recursive: true, force: true });
});

interface Run {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs `parley audit …` beside the gateway, on its configuration. */
function audit(...args: string[]): Promise<Run> {
  const given = [BIN, 'audit', ...args, '--config', gateway!.file];
  return new Promise((resolve) => {
    execFile(process.execPath, given, { maxBuffer: 64 * 1024 * 1024 }, (error, stdout, stderr) =>
      resolve({ code: error ? Number(error.code) : 0, stdout, stderr }),
    );
  });
}

const lines = ({ stdout }: Run): Record<string, unknown>[] =>
  stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
const calls = async (...args: string[]) => lines(await audit('list', '--json', '--kind', 'call', ...args));

describe.each(['sqlite', 'postgres'] as const)('S24: a gateway on %s', (engine) => {
  const stateOf = async () => (engine === 'postgres' ? { state: { db: await postgres.createDatabase(), keys } } : {});

  test('records calls, refusals and reloads; the commands list, export and verify them', async () => {
    const settings = { servers: { s: { url: server.url } }, auth, ...(await stateOf()) };
    gateway = await startGateway(settings, { data: join(folder, `${engine}-1`) });
    const url = `${gateway.url}/mcp`;
    await callTool(url, 's__add', { a: 1 }, as('ada'));
    await callTool(url, 's__add', { a: 1 }, as('ada'));
    await callTool(url, 's__add', { a: 2 }, as('bob'));
    await callTool(url, 's__none', {}, as('bob'));
    await modern(url, 'tools/list', {}, { headers: { authorization: 'Bearer wrong' } });
    await writeFile(
      gateway.file,
      JSON.stringify({ ...JSON.parse(await readFile(gateway.file, 'utf8')), log: { level: 'warn' } }),
    );
    gateway.process.kill('SIGHUP');
    await expect
      .poll(async () => lines(await audit('list', '--json', '--kind', 'change')), { timeout: 20_000 })
      .toMatchObject([
        { action: 'configuration.reload', outcome: 'ok', caller: 'operator', details: { keys: ['log.level'] } },
      ]);

    const [one, two] = await calls('--caller', 'ada', '--tool', 'add');
    expect(one).toMatchObject({ server: 's', name: 'add', decision: 'allowed', outcome: 'ok', address: '127.0.0.1' });
    const [other] = await calls('--caller', 'bob', '--tool', 'add');
    expect(one!['arguments']).toMatch(/^[\w-]+:[\da-f]{32}$/);
    expect(two!['arguments']).toBe(one!['arguments']);
    expect(other!['arguments']).not.toBe(one!['arguments']);
    expect(await calls('--decision', 'denied')).toMatchObject([
      { caller: 'bob', name: 's__none', rule: 'tool_not_found' },
    ]);
    expect(await calls('--server', 's', '--limit', '2')).toHaveLength(2);
    expect(await calls('--since', '2099-01-01')).toEqual([]);
    expect(lines(await audit('list', '--json', '--kind', 'authentication'))).toMatchObject([
      { outcome: 'refused', reason: 'unauthorized', method: 'bearer', path: '/mcp' },
    ]);

    const exported = lines(await audit('export'));
    expect(exported.map(({ at }) => at)).toEqual(exported.map(({ at }) => at).sort());
    const csv = (await audit('export', '--format', 'csv')).stdout.trim().split('\n');
    expect(csv[0]).toMatch(/^at,chain,seq,kind,/);
    expect(csv).toHaveLength(exported.length + 1);
    expect((await audit('list')).stdout).toContain('tools/call');

    const saved = join(folder, `${engine}-heads.json`);
    await writeFile(saved, (await audit('verify', '--json')).stdout);
    expect(await audit('verify', '--against', saved)).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('intact'),
    });

    const db = await openDb({ data: join(folder, `${engine}-1`), ...(settings as { state?: { db: string } }).state });
    await db.q('UPDATE audit SET json = REPLACE(json, \'"bob"\', \'"eve"\')');
    await db.close();
    const broken = await audit('verify');
    expect(broken).toMatchObject({ code: 1, stdout: '' });
    expect(broken.stderr).toMatch(/broken at record \d+ of chain [\w-]+: the record was changed/);
    expect(JSON.parse((await audit('verify', '--json')).stdout)).toMatchObject({
      ok: false,
      reason: 'the record was changed',
    });
  });
});

test('S24: records name the rule of the policy, its reload is a change, and administrators see losses', async () => {
  const rule = (name: string, when: string) => ({ name, effect: 'allow', when });
  const rules = [rule('ada-adds', 'caller.subject == "ada" && tool == "add"')];
  const admin = { ...auth.tokens[0]!, admin: true };
  const tokens = [admin, auth.tokens[1]!];
  gateway = await startGateway({ servers: { s: { url: server.url } }, auth: { tokens }, policy: { rules } });
  const url = `${gateway.url}/mcp`;
  await callTool(url, 's__add', {}, as('ada'));
  await callTool(url, 's__add', {}, as('bob'));
  const written = JSON.parse(await readFile(gateway.file, 'utf8')) as object;
  const next = { mode: 'enforce', rules: [...rules, rule('bob-adds', 'caller.subject == "bob"')] };
  await writeFile(gateway.file, JSON.stringify({ ...written, policy: next }));
  gateway.process.kill('SIGHUP');
  await expect
    .poll(async () => lines(await audit('list', '--json', '--kind', 'change')), { timeout: 20_000 })
    .toMatchObject([
      { action: 'policy.reload', outcome: 'ok', details: { mode: 'enforce', rules: 2, proposed: 0 } },
      { action: 'configuration.reload', outcome: 'ok', details: { keys: ['policy.rules'] } },
    ]);
  await callTool(url, 's__add', {}, as('bob'));
  await expect
    .poll(async () => (await calls()).filter(({ method }) => method === 'tools/call'), { timeout: 20_000 })
    .toMatchObject([
      { caller: 'ada', decision: 'allowed', rule: 'ada-adds' },
      { caller: 'bob', decision: 'denied', rule: '(no rule matches)', reason: 'tool_not_found' },
      { caller: 'bob', decision: 'allowed', rule: 'bob-adds' },
    ]);
  const health = async (who: keyof typeof TOKENS): Promise<unknown> =>
    (await fetch(`${gateway!.url}/health`, as(who))).json();
  expect(await health('ada')).toMatchObject({ audit: { lost: 0, waiting: expect.any(Number) } });
  expect(await health('bob')).not.toHaveProperty('audit');
});

describe('S24: while the database is away', () => {
  const start = async (onFailure: string) => {
    const state = { db: await postgres.createDatabase(), keys };
    gateway = await startGateway({ servers: { s: { url: server.url } }, auth, state, audit: { onFailure } });
    const answer = await callTool(`${gateway.url}/mcp`, 's__add', {}, as('ada'));
    expect(answer.result).toBeDefined();
    return `${gateway.url}/mcp`;
  };

  test('open: calls continue, and their records are stored when the database is back', async () => {
    const url = await start('open');
    postgres.freeze();
    try {
      for (let i = 0; i < 10; i++) expect((await callTool(url, 's__add', {}, as('bob'))).result).toBeDefined();
    } finally {
      postgres.thaw();
    }
    await expect.poll(() => calls('--caller', 'bob'), { timeout: 30_000 }).toHaveLength(10);
    expect(await audit('verify')).toMatchObject({ code: 0 });
  });

  test('closed: a call is refused before it happens, and works again afterwards', async () => {
    const url = await start('closed');
    const intents = (await calls('--caller', 'ada')).map(({ phase }) => phase);
    expect(intents.slice(0, 1)).toEqual(['intent']);
    await postgres.kill();
    const before = server.contacts.length;
    const { status, error } = await callTool(url, 's__add', {}, as('bob'));
    expect({ status, error }).toMatchObject({
      status: 503,
      error: { data: { reason: 'audit_unavailable', outcome: 'not_executed' } },
    });
    expect(server.contacts.slice(before).filter((method) => method === 'tools/call')).toEqual([]);
    await postgres.restart();
    await expect
      .poll(async () => (await callTool(url, 's__add', {}, as('ada'))).result !== undefined, { timeout: 30_000 })
      .toBe(true);
    await expect.poll(() => audit('verify'), { timeout: 30_000 }).toMatchObject({ code: 0 });
  });
});
