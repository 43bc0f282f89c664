/** Makes every change of `docs/extending.md` in a copy of the repository, compiles the copy, and runs it. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type EchoServer, startEcho } from '../input/support/echo.js';
import { modern, modernCall } from '../input/support/speak.js';
import { ask } from '../input/support/wire.js';
import { cleanCopy } from '../support/clean-copy.js';
import { type RunningGateway, startGateway } from '../support/gateway.js';
import { card, json, Stage } from '../support/remote-agents.js';
import { apply, type Change, fits, readChanges } from './changes.js';

/** The store of the example. */
interface Notes {
  put(owner: string, text: string, ttlMs: number): Promise<void>;
  get(owner: string): Promise<string | undefined>;
  sweep(): Promise<number>;
}

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const CHANGES = readChanges(path.join(ROOT, 'docs/extending.md'));
const ADA = 'ada-0123456789abcdef0123456789abcdef';
const ROOT_TOKEN = 'root-k3J9vQ2mX7pL0sT5wZ8yB4nC6dF1gH';

it('shows the changes that maintainers make', () => {
  expect(CHANGES.map(({ title }) => title)).toEqual([
    'An authenticator',
    'A REST route',
    'A binding of A2A',
    'A configuration key',
    'A credential or header of upstream calls',
    'A revision of MCP',
    'A table of the store',
    'A check around every call',
    'A metric around every upstream call',
    'A step that changes calls',
    'Another tool prefix',
  ]);
});

describe.each(CHANGES.map((change): [string, Change] => [change.title, change]))('%s', (_, change) => {
  it('changes one new file and at most two others, and shows all of them', () => {
    const kinds = [...change.files.values()];
    expect(kinds.filter((kind) => kind === 'new').length).toBeLessThanOrEqual(1);
    expect(kinds.filter((kind) => kind === 'changed').length).toBeLessThanOrEqual(2);
    const shown = new Set([...change.added.keys(), ...change.patches.map(({ file }) => file)]);
    expect([...shown].sort()).toEqual([...change.files.keys()].sort());
    for (const [file, kind] of change.files)
      expect([file, existsSync(path.join(ROOT, file))]).toEqual([file, kind === 'changed']);
  });
});

/** A copy of the repository with compatible changes; changes of the same line are in different copies. */
class Copy {
  readonly folder = cleanCopy();
  readonly titles: string[] = [];

  async compile(): Promise<void> {
    const options = { cwd: this.folder, maxBuffer: 10_000_000 };
    await run(process.execPath, [path.join(this.folder, 'scripts/check-imports.mjs'), this.folder], options);
    await run(path.join(ROOT, 'node_modules/.bin/tsc'), ['-p', 'tsconfig.build.json'], options).catch((error) => {
      const { stdout } = error as { stdout: string };
      throw new Error(`the copy with ${this.titles.join(', ')} does not compile:\n${stdout}`);
    });
  }

  get bin(): string {
    return path.join(this.folder, 'bin/parley.js');
  }
}

describe('the changed gateway', () => {
  const stage = new Stage();
  const copies: Copy[] = [];
  let copy: string;
  let echo: EchoServer;
  let gateway: RunningGateway;
  const headers = (token: string) => ({ authorization: `Bearer ${token}` });
  const copyOf = (title: string): Copy => copies.find(({ titles }) => titles.includes(title))!;
  /** Runs a gateway with the change in front of the same server, for the duration of a test. */
  const withChange = async (title: string, settings: object, use: (started: RunningGateway) => Promise<void>) => {
    const started = await startGateway(
      { servers: { echo: { url: echo.url } }, ...settings },
      { bin: copyOf(title).bin },
    );
    try {
      await use(started);
    } finally {
      await started.close();
    }
  };

  beforeAll(async () => {
    for (const change of CHANGES) {
      const into = copies.find(({ folder }) => fits(change, folder)) ?? new Copy();
      if (!copies.includes(into)) copies.push(into);
      apply(change, into.folder);
      into.titles.push(change.title);
    }
    for (const each of copies) await each.compile();
    copy = copies[0]!.folder;
    echo = await startEcho();
    const agent = await stage.server(({ path: at, body }, response, { url }) => {
      if (at.includes('/.well-known/')) json(response, card([{ url }]));
      else {
        const { message } = body['params'] as { message: { parts: { text: string }[] } };
        const parts = message.parts.map(({ text }) => ({ text: `you said ${text}` }));
        const result = { message: { messageId: 'm', role: 'ROLE_AGENT', parts } };
        json(response, { jsonrpc: '2.0', id: body['id'], result });
      }
    });
    gateway = await startGateway(
      {
        servers: { echo: { url: echo.url } },
        agents: { parrot: { url: agent.url } },
        timeouts: { leave: '100ms' },
        auth: {
          tokens: [
            { name: 'ada', token: ADA },
            { name: 'root', token: ROOT_TOKEN, admin: true },
          ],
        },
      },
      { bin: path.join(copy, 'bin/parley.js') },
    );
  }, 240_000);
  afterAll(async () => {
    await gateway?.close();
    await echo?.close();
    await stage.close();
    for (const { folder } of copies) await rm(folder, { recursive: true, force: true });
  });

  it('the authenticator identifies callers by the tokens in another header', async () => {
    const statusFor = async (own: Record<string, string>): Promise<number> =>
      (await ask(`${gateway.url}/mcp`, { method: 'GET', headers: { accept: 'application/json', ...own } })).status;
    expect(await statusFor({ 'x-api-key': ADA })).toBe(200);
    expect(await statusFor({ 'x-api-key': `${ADA}x` })).toBe(401);
    expect(await statusFor({})).toBe(401);
  });

  it('the routes are served to administrators only, with everything that the route table provides', async () => {
    const at = (name: string): string => `${gateway.url}/api/servers${name}`;
    const list = await ask(at(''), { method: 'GET', headers: headers(ROOT_TOKEN) });
    const { servers } = JSON.parse(list.body) as { servers: object[] };
    expect(servers).toContainEqual({ name: 'echo', status: 'up' });
    const one = await ask(at('/echo'), { method: 'GET', headers: headers(ROOT_TOKEN) });
    expect(JSON.parse(one.body)).toEqual({ name: 'echo', status: 'up' });
    expect((await ask(at('/none'), { method: 'GET', headers: headers(ROOT_TOKEN) })).status).toBe(404);
    expect((await ask(at(''), { method: 'GET', headers: headers(ADA) })).status).toBe(403);
    expect((await ask(at(''), { method: 'GET' })).status).toBe(401);
    const put = await ask(at(''), { method: 'PUT', headers: headers(ROOT_TOKEN) });
    expect([put.status, put.headers['allow']]).toEqual([405, 'GET, HEAD, OPTIONS']);
  });

  it('agents are called over the binding, and their cards declare it', async () => {
    const url = `${gateway.url}/a2a/parrot`;
    const said = await fetch(`${url}/text`, { method: 'POST', body: 'hello', headers: headers(ADA) });
    expect([said.status, await said.text()]).toEqual([200, 'you said hello']);
    expect((await fetch(`${url}/text`, { method: 'POST', body: 'hello' })).status).toBe(401);
    const { body } = await ask(`${url}/.well-known/agent-card.json`, { method: 'GET', headers: headers(ADA) });
    expect(body).toContain('https://example.com/a2a/plain-text');
  });

  it('the configuration key works, and a wrong value is refused with the name of the key', async () => {
    const file = path.join(copy, 'wrong.json');
    await writeFile(
      file,
      JSON.stringify({ servers: { x: { url: 'http://127.0.0.1:1/mcp' } }, timeouts: { leave: 'soon' } }),
    );
    const check = run(process.execPath, [path.join(copy, 'bin/parley.js'), 'config', 'check', '--config', file]);
    await expect(check).rejects.toMatchObject({ stderr: expect.stringContaining('timeouts.leave') as string });
  });

  it('the revision is offered and supported', async () => {
    const options = { version: '2027-02-01', headers: headers(ADA) };
    const discovered = await modern(`${gateway.url}/mcp`, 'server/discover', {}, options);
    expect(discovered.json.result.supportedVersions).toContain('2027-02-01');
    const called = await modernCall(`${gateway.url}/mcp`, 'echo__echo', { text: 'x' }, options);
    expect([called.status, called.headers['mcp-protocol-version']]).toEqual([200, '2027-02-01']);
    expect(called.json.result.content).toEqual([{ type: 'text', text: 'x' }]);
  });

  it('the table is created, used and swept', async () => {
    const { openState } = (await import(
      path.join(copy, 'dist/state/index.js')
    )) as typeof import('../../src/state/index.js');
    const state = await openState({ data: path.join(copy, 'data') });
    const notes = (state as unknown as { notes: Notes }).notes;
    await notes.put('ada', 'remember', 60_000);
    await notes.put('bob', 'forget', -1);
    expect([await notes.get('ada'), await notes.get('bob')]).toEqual(['remember', undefined]);
    expect([await notes.sweep(), await notes.sweep()]).toEqual([1, 0]);
    await state.close();
  });

  it('the server gets the caller of each request', async () => {
    await modernCall(`${gateway.url}/mcp`, 'echo__echo', { text: 'x' }, { headers: headers(ADA) });
    await modernCall(`${gateway.url}/mcp`, 'echo__echo', { text: 'x' }, { headers: headers(ROOT_TOKEN) });
    const { seenHeaders } = echo;
    const callers = seenHeaders.filter((_, at) => at > 0 && seenHeaders[at - 1]!.toLowerCase() === 'x-caller');
    expect(callers.slice(-2)).toEqual(['ada', 'root']);
    expect(callers).toContain('parley');
  });

  it('a check stops calls of both protocols', async () => {
    const key = '-----BEGIN EC PRIVATE KEY-----';
    const url = `${gateway.url}/mcp`;
    const before = echo.calls.length;
    const refused = await modernCall(url, 'echo__echo', { text: key }, { headers: headers(ADA) });
    expect(refused.body).toContain('A private key is not passed on');
    expect(echo.calls).toHaveLength(before);
    const agent = await fetch(`${gateway.url}/a2a/parrot/text`, { method: 'POST', body: key, headers: headers(ADA) });
    expect([agent.status, await agent.text()]).toEqual([
      403,
      expect.stringContaining('A private key is not passed on'),
    ]);
    expect((await modernCall(url, 'echo__echo', { text: 'x' }, { headers: headers(ADA) })).status).toBe(200);
  });

  it('a metric records the duration of every upstream call', () =>
    withChange('A metric around every upstream call', { log: { format: 'json', level: 'info' } }, async (started) => {
      await modernCall(`${started.url}/mcp`, 'echo__echo', { text: 'x' });
      await expect.poll(() => started.log(), { timeout: 20_000 }).toMatch(/"event":"upstream"/);
    }));

  it('a step changes the arguments of tools', () =>
    withChange('A step that changes calls', {}, async (started) => {
      await modernCall(`${started.url}/mcp`, 'echo__echo', { text: 'step', caller: 'somebody else' });
      expect(echo.calls.at(-1)!.args).toEqual({ text: 'step', caller: 'local' });
    }));

  it('a prefix is shown and accepted', () =>
    withChange('Another tool prefix', { naming: { separator: '/' } }, async (started) => {
      const list = await modern(`${started.url}/mcp`, 'tools/list');
      expect(list.body).toContain('"echo/echo"');
      const called = await modernCall(`${started.url}/mcp`, 'echo/echo', { text: 'x' });
      expect(called.json.result.content).toEqual([{ type: 'text', text: 'x' }]);
    }));
});
