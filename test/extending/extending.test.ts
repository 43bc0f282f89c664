/** Makes every change of `docs/extending.md` in a copy of the repository, compiles the copy, and runs it. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Agent, fetch as undiciFetch } from 'undici';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type EchoServer, startEcho } from '../input/support/echo.js';
import { modern, modernCall } from '../input/support/speak.js';
import { ask } from '../input/support/wire.js';
import { Authority } from '../support/certificate.js';
import { cleanCopy } from '../support/clean-copy.js';
import { type RunningGateway, startGateway } from '../support/gateway.js';
import { card, json, Stage } from '../support/remote-agents.js';
import { apply, type Change, readChanges } from './changes.js';

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

describe.each(CHANGES.map((change): [string, Change] => [change.title, change]))('%s', (_, change) => {
  it('touches one new file and at most two others, and all of them are shown', () => {
    const kinds = [...change.files.values()];
    expect(kinds.filter((kind) => kind === 'new').length).toBeLessThanOrEqual(1);
    expect(kinds.filter((kind) => kind === 'changed').length).toBeLessThanOrEqual(2);
    const shown = new Set([...change.added.keys(), ...change.patches.map(({ file }) => file)]);
    expect([...shown].sort()).toEqual([...change.files.keys()].sort());
    for (const [file, kind] of change.files)
      expect([file, existsSync(path.join(ROOT, file))]).toEqual([file, kind === 'changed']);
  });
});

describe('all changes together', () => {
  const stage = new Stage();
  let copy: string;
  let echo: EchoServer;
  let gateway: RunningGateway;
  const headers = (token: string) => ({ authorization: `Bearer ${token}` });

  beforeAll(async () => {
    copy = cleanCopy();
    for (const change of CHANGES) apply(change, copy);
    const options = { cwd: copy, maxBuffer: 10_000_000 };
    await run(process.execPath, [path.join(copy, 'scripts/check-imports.mjs'), copy], options);
    await run(path.join(copy, 'node_modules/.bin/tsc'), ['-p', 'tsconfig.build.json'], options).catch((error) => {
      throw new Error(`the changed copy does not compile:\n${(error as { stdout: string }).stdout}`);
    });
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
    await rm(copy, { recursive: true, force: true });
  });

  it('the authenticator knows callers by their certificates', async () => {
    const authority = new Authority();
    const server = authority.sign('gateway', '127.0.0.1');
    const files = { cert: server.cert, key: server.key, clientCa: authority.cert };
    for (const [name, text] of Object.entries(files)) await writeFile(path.join(copy, `${name}.pem`), text);
    const secured = await startGateway(
      {
        tls: {
          cert: path.join(copy, 'cert.pem'),
          key: path.join(copy, 'key.pem'),
          clientCa: path.join(copy, 'clientCa.pem'),
          clientCertificate: 'optional',
        },
        servers: { echo: { url: echo.url } },
      },
      { bin: path.join(copy, 'bin/parley.js'), settled: false },
    );
    const statusFor = async (own: object): Promise<number> => {
      const dispatcher = new Agent({ connect: { ca: authority.cert, ...own } });
      try {
        const accept = { accept: 'application/json' };
        return (await undiciFetch(`${secured.url}/mcp`, { dispatcher, headers: accept })).status;
      } finally {
        await dispatcher.destroy();
      }
    };
    expect(await statusFor(authority.sign('ada'))).toBe(200);
    expect(await statusFor({})).toBe(401);
    await secured.close();
  });

  it('the routes are served to administrators, and have everything that follows from the table', async () => {
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

  it('agents are reached by the binding, and their cards declare it', async () => {
    const url = `${gateway.url}/a2a/parrot`;
    const said = await fetch(`${url}/text`, { method: 'POST', body: 'hello', headers: headers(ADA) });
    expect([said.status, await said.text()]).toEqual([200, 'you said hello']);
    expect((await fetch(`${url}/text`, { method: 'POST', body: 'hello' })).status).toBe(401);
    const { body } = await ask(`${url}/.well-known/agent-card.json`, { method: 'GET', headers: headers(ADA) });
    expect(body).toContain('https://example.com/a2a/plain-text');
  });

  it('the configuration key is taken, and a wrong value is refused by name', async () => {
    const file = path.join(copy, 'wrong.json');
    await writeFile(
      file,
      JSON.stringify({ servers: { x: { url: 'http://127.0.0.1:1/mcp' } }, timeouts: { leave: 'soon' } }),
    );
    const check = run(process.execPath, [path.join(copy, 'bin/parley.js'), 'config', 'check', '--config', file]);
    await expect(check).rejects.toMatchObject({ stderr: expect.stringContaining('timeouts.leave') as string });
  });

  it('the revision is offered, and spoken', async () => {
    const options = { version: '2027-02-01', headers: headers(ADA) };
    const discovered = await modern(`${gateway.url}/mcp`, 'server/discover', {}, options);
    expect(discovered.json.result.supportedVersions).toContain('2027-02-01');
    const called = await modernCall(`${gateway.url}/mcp`, 'echo__echo', { text: 'x' }, options);
    expect([called.status, called.headers['mcp-protocol-version']]).toEqual([200, '2027-02-01']);
    expect(called.json.result.content).toEqual([{ type: 'text', text: 'x' }]);
  });

  it('the table is made, used and swept', async () => {
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

  it('the server is told the caller of each request', async () => {
    await modernCall(`${gateway.url}/mcp`, 'echo__echo', { text: 'x' }, { headers: headers(ADA) });
    await modernCall(`${gateway.url}/mcp`, 'echo__echo', { text: 'x' }, { headers: headers(ROOT_TOKEN) });
    const { seenHeaders } = echo;
    const callers = seenHeaders.filter((_, at) => at > 0 && seenHeaders[at - 1]!.toLowerCase() === 'x-caller');
    expect(callers.slice(-2)).toEqual(['ada', 'root']);
    expect(callers).toContain('parley');
  });
});
