import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { eventually } from '../support/eventually.js';
import { CLIENTS } from '../third-party/clients.js';
import { executable, install } from '../third-party/packages.js';
import { allow, PageReader } from './page-reader.js';
import { addUser, listTools, type OAuthGateway, PASSWORD, startOAuthGateway } from './stand.js';

const PYTHON_SDK = CLIENTS.find(({ name }) => name === 'Python SDK')!.package;
const DRIVER = fileURLToPath(new URL('drivers/sign_in.py', import.meta.url));
const REDIRECT = 'http://localhost:33419/callback';

let gateway: OAuthGateway;
let driver: ChildProcess | undefined;
beforeAll(async () => {
  await install(PYTHON_SDK);
  gateway = await startOAuthGateway();
  await addUser(gateway);
}, 600_000);
afterAll(async () => {
  driver?.kill();
  await gateway?.close();
});

interface Said {
  readonly kind: 'authorize' | 'called';
  readonly url: string;
  readonly tools: readonly string[];
  readonly text: string;
  readonly access: string;
  readonly refresh: string;
  readonly client: string;
}

test('a client of the Python SDK signs in, calls a tool, refreshes, and is revoked', async () => {
  const python = executable(PYTHON_SDK, 'python');
  const child = spawn(python, [DRIVER, gateway.mcp, REDIRECT], { stdio: ['pipe', 'pipe', 'pipe'] });
  driver = child;
  let errors = '';
  child.stderr.on('data', (chunk: Buffer) => {
    errors = (errors + chunk.toString()).slice(-20_000);
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async (kind: Said['kind']): Promise<Said> => {
    const { value, done } = await lines.next();
    if (done) throw new Error(`the driver ended: ${errors}`);
    const said = JSON.parse(value) as Said;
    expect(said.kind).toBe(kind);
    return said;
  };
  const tell = (facts: object): unknown => child.stdin.write(`${JSON.stringify(facts)}\n`);
  const signIn = async (): Promise<void> => {
    const { url } = await next('authorize');
    const back = await allow(new PageReader(gateway.url), url, { name: 'ada', password: PASSWORD });
    tell(Object.fromEntries(back.searchParams));
  };

  await signIn();
  const first = await next('called');
  expect(first.tools).toContain('units__convert');
  expect(first.text).toContain('1000');
  const second = await next('called');
  expect(second.refresh).not.toBe(first.refresh);
  expect((await listTools(gateway.mcp, second.access)).status).toBe(200);

  const form = new URLSearchParams({ token: second.refresh, client_id: second.client });
  const revoked = await fetch(`${gateway.url}/oauth/revoke`, { method: 'POST', body: form });
  expect(revoked.status).toBe(200);
  await eventually(
    () => listTools(gateway.mcp, second.access),
    ({ status }) => status === 401,
    1_000,
  );
  tell({});
  await signIn();
  const third = await next('called');
  expect(third.text).toContain('1000');
  expect(third.access).not.toBe(second.access);
}, 120_000);
