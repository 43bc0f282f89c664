/** S24: the audit trail of the built-in authorization server: sign-ins, consents, clients and tokens. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { begin, redeem, refresh } from './code-grant.js';
import { allow, PageReader } from './page-reader.js';
import { addUser, type OAuthGateway, PASSWORD, parley, startOAuthGateway } from './stand.js';

let gateway: OAuthGateway;
beforeAll(async () => {
  gateway = await startOAuthGateway();
  await addUser(gateway);
}, 120_000);
afterAll(() => gateway?.close());

type Fields = Record<string, unknown>;

async function records(): Promise<Fields[]> {
  const { stdout } = await parley(['audit', 'export', '--config', gateway.file]);
  return stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Fields)
    .filter(({ kind }) => kind !== 'checkpoint');
}

test('S24: a failed and a successful sign-in, the consent, the tokens and a reused token are recorded', async () => {
  const flow = await begin(gateway);
  const reader = new PageReader(gateway.url);
  const wrong = { name: 'ada', password: 'wrong-0123456789' };
  const page = await reader.get(flow.url.href);
  expect((await reader.submit(page.forms[0]!, wrong)).status).toBe(401);
  expect((await reader.submit(page.forms[0]!, { ...wrong, name: 'typed-secret' })).status).toBe(401);
  const back = await allow(reader, flow.url.href, { name: 'ada', password: PASSWORD });
  const code = back.searchParams.get('code') ?? '';
  const issued = await redeem(gateway, flow, code);
  const renewed = await refresh(gateway, flow.client, issued.refresh_token);
  expect([issued.status, renewed.status]).toEqual([200, 200]);
  expect((await refresh(gateway, flow.client, issued.refresh_token)).status).toBe(400);

  await expect
    .poll(async () => (await records()).some(({ event }) => event === 'token.reused'), { timeout: 20_000 })
    .toBe(true);
  const found = await records();
  const ADA = 'users#ada';
  const at = { address: '127.0.0.1', path: '/oauth/interaction' };
  const brief = found.filter(({ kind, action }) => kind !== 'call' && action !== 'user.add');
  expect(brief).toEqual([
    expect.objectContaining({ kind: 'change', action: 'client.register', outcome: 'ok', subject: flow.client }),
    expect.objectContaining({
      kind: 'authentication',
      outcome: 'refused',
      method: 'password',
      reason: 'wrong_password',
      caller: ADA,
      ...at,
    }),
    expect.objectContaining({
      kind: 'authentication',
      outcome: 'refused',
      method: 'password',
      reason: 'wrong_password',
      ...at,
    }),
    expect.objectContaining({ kind: 'authentication', outcome: 'succeeded', method: 'password', caller: ADA, ...at }),
    expect.objectContaining({
      kind: 'change',
      action: 'consent.grant',
      outcome: 'ok',
      caller: ADA,
      subject: flow.client,
    }),
    expect.objectContaining({
      kind: 'change',
      action: 'token.issue',
      outcome: 'ok',
      caller: ADA,
      subject: flow.client,
    }),
    expect.objectContaining({
      kind: 'change',
      action: 'token.refresh',
      outcome: 'ok',
      caller: ADA,
      subject: flow.client,
    }),
    expect.objectContaining({ kind: 'event', event: 'token.reused', caller: ADA, subject: flow.client }),
  ]);
  expect(found.filter(({ action }) => action === 'user.add')).toMatchObject([{ caller: 'operator', subject: 'ada' }]);
  const text = JSON.stringify(found);
  const secrets = [
    PASSWORD,
    wrong.password,
    'typed-secret',
    code,
    issued.access_token,
    issued.refresh_token,
    renewed.refresh_token,
  ];
  const log = gateway.log();
  expect(log).toContain('oauth.login.failed');
  for (const secret of secrets) {
    expect(text).not.toContain(secret);
    // A password in the field of the name must not get into the log.
    expect(log).not.toContain(secret);
  }
});
