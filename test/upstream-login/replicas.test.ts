/**
 * A sign-in at one replica is valid at all replicas, and clients at the other replicas are notified of their new lists.
 */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ALICE, BOB, type Replica, type Replicas, startEngines } from '../cluster/support/replicas.js';
import { Session } from '../cluster/support/session.js';
import { sleep } from '../era-bridge/support/wire.js';
import { LoginBrowser } from '../support/login-browser.mjs';
import { modernRequest } from './modern-request.js';
import { type ProtectedServer, signInAs, startProtectedServer } from './protected-server.js';

let engines: Replicas;
let server: ProtectedServer;
let a: Replica;
let b: Replica;

beforeAll(async () => {
  [engines, server] = await Promise.all([startEngines('postgres'), startProtectedServer()]);
  const config = {
    servers: { notes: { url: server.url, auth: { oauth: { registration: 'auto' } } } },
    egress: { allowPrivate: true },
  };
  [a, b] = (await engines.start(2, config, [{ settled: false }, { settled: false }])) as [Replica, Replica];
}, 180_000);
afterAll(async () => {
  await engines?.stop();
  await server?.close();
});

const namesOf = (tools: readonly { name: string }[]): string[] => tools.map(({ name }) => name).sort();

it('notifies the client of this user at the other replica, and no other client', async () => {
  const session = await Session.open(b);
  const other = await Session.open(b, {}, BOB);
  for (const each of [session, other])
    expect(namesOf((await each.request(b, 'tools/list')).result.tools)).toEqual(['notes__sign_in']);
  const [stream, foreign] = [session.listen(b), other.listen(b)];
  await Promise.all([stream.opened, foreign.opened]);
  let leaked = false;
  void foreign
    .until(({ method }) => method === 'notifications/tools/list_changed')
    .then(
      () => (leaked = true),
      () => {},
    );

  const call = { name: 'notes__sign_in', arguments: {} };
  const text = (await modernRequest(a.mcp, ALICE, 'tools/call', call)).result?.content?.[0]?.text ?? '';
  const browser = new LoginBrowser();
  const done = await browser.signIn(/http:\S+\/connect\/\S+/.exec(text)![0], {
    code: /[A-Z0-9]{4}-[A-Z0-9]{4}/.exec(text)![0],
    atIssuer: signInAs(browser, 'alice-account'),
  });
  expect(done.text).toContain('Signed in to notes');

  await stream.until(({ method }) => method === 'notifications/tools/list_changed');
  const named = async (): Promise<string[]> => namesOf((await session.request(b, 'tools/list')).result.tools);
  // A list leaves a server out that takes too long to answer, which happens on a busy machine.
  await expect.poll(named, { timeout: 30_000 }).toEqual(['notes__only_alice-account', 'notes__whoami']);
  await sleep(300);
  expect(leaked).toBe(false);
});
