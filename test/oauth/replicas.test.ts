import { afterAll, beforeAll, expect, test } from 'vitest';
import { eventually } from '../support/eventually.js';
import { freePort, type PostgresService, startPostgres } from '../support/services.js';
import { begin, redeem, refresh } from './code-grant.js';
import { allow, PageReader } from './page-reader.js';
import { addUser, listTools, type OAuthGateway, PASSWORD, parley, startOAuthGateway } from './stand.js';

let postgres: PostgresService;
let a: OAuthGateway;
let b: OAuthGateway;
beforeAll(async () => {
  postgres = await startPostgres({ fsync: false });
  const db = await postgres.createDatabase();
  const port = await freePort();
  // Behind a load balancer both replicas have one public URL. Here it is the URL of A.
  const config = {
    publicUrl: `http://127.0.0.1:${port}`,
    state: { db, keys: ['a-key-for-both-replicas-0123456789'] },
  };
  [a, b] = await Promise.all([startOAuthGateway({ config, port }), startOAuthGateway({ config })]);
  await addUser(a);
}, 180_000);
afterAll(async () => {
  await Promise.all([a?.close(), b?.close()]);
  await postgres?.stop();
});

const ADA = { name: 'ada', password: PASSWORD };
const code = async () => {
  const flow = await begin(a);
  const back = await allow(new PageReader(a.url), flow.url.href, ADA);
  return { flow, given: back.searchParams.get('code') ?? '' };
};

test('a code of replica A is redeemed at B; what A revokes, B refuses within a second', async () => {
  const { flow, given } = await code();
  const tokens = await redeem(b, flow, given);
  expect(tokens.status).toBe(200);
  for (const { mcp } of [a, b]) expect((await listTools(mcp, tokens.access_token)).status).toBe(200);
  const renewed = await refresh(a, flow.client, tokens.refresh_token);
  expect(renewed.status).toBe(200);
  expect((await listTools(b.mcp, renewed.access_token)).status).toBe(200);
  const form = new URLSearchParams({ token: renewed.refresh_token, client_id: flow.client });
  expect((await fetch(`${a.url}/oauth/revoke`, { method: 'POST', body: form })).status).toBe(200);
  const began = performance.now();
  for (const token of [tokens.access_token, renewed.access_token])
    await eventually(
      () => listTools(b.mcp, token),
      ({ status }) => status === 401,
    );
  expect(performance.now() - began).toBeLessThan(1_000);
});

test('S5: one code used at both replicas at the same time gives tokens at most once', async () => {
  const { flow, given } = await code();
  const all = await Promise.all([redeem(a, flow, given), redeem(b, flow, given)]);
  expect(all.filter(({ status }) => status === 200).length).toBeLessThanOrEqual(1);
});

test('a refresh token that is used at both replicas counts as reused: the grant ends at both', async () => {
  const { flow, given } = await code();
  const first = await redeem(a, flow, given);
  const second = await refresh(a, flow.client, first.refresh_token);
  expect((await refresh(b, flow.client, first.refresh_token)).error).toBe('invalid_grant');
  await eventually(
    () => listTools(b.mcp, second.access_token),
    ({ status }) => status === 401,
    1_000,
  );
  expect((await refresh(b, flow.client, second.refresh_token)).error).toBe('invalid_grant');
});

test('a new password ends access at every replica within a second', async () => {
  const { flow, given } = await code();
  const { access_token: token } = await redeem(b, flow, given);
  expect((await listTools(b.mcp, token)).status).toBe(200);
  const changed = await parley(['users', 'password', 'ada', '--config', a.file], `${PASSWORD} 2\n`);
  expect(changed).toMatchObject({ code: 0, stderr: '' });
  await Promise.all(
    [a, b].map(({ mcp }) =>
      eventually(
        () => listTools(mcp, token),
        ({ status }) => status === 401,
        1_000,
      ),
    ),
  );
});

test('S17/S18: the database holds no usable code, token, session or password', async () => {
  const { PostgresDb } = await import('../../src/state/postgres/postgres.js');
  const db = await PostgresDb.open((await config()).state.db, { max: 1 });
  try {
    const rows = await db.q('SELECT * FROM oauth_records');
    const text = JSON.stringify(rows) + JSON.stringify(await db.q('SELECT * FROM oauth_users'));
    expect(rows.length).toBeGreaterThan(0);
    expect(text).not.toContain(PASSWORD);
    expect(text).not.toMatch(/redirect_uri|client_name|accountId/);
    expect(JSON.stringify(await db.q(`SELECT json FROM registry WHERE kind = 'key'`))).not.toContain('\\"d\\"');
  } finally {
    await db.close();
  }
});

async function config(): Promise<{ state: { db: string } }> {
  const { readFile } = await import('node:fs/promises');
  return JSON.parse(await readFile(a.file, 'utf8')) as { state: { db: string } };
}
