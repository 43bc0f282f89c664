/** S24: every change of a command goes through the audit trail, without secrets. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { configFrom } from '../config/load.js';
import { type AuditTrail, NO_AUDIT, OPERATOR } from '../core/audit-trail.js';
import { Users } from '../identity/oauth-server/users.js';
import { ProtocolError } from '../protocol/errors.js';
import { SILENT } from '../telemetry/log.js';
import { createApiKey, revokeApiKeys } from './commands/api-keys.js';
import { withCommandStorage } from './commands/command-storage.js';
import { PinCommands, withPins } from './commands/pins.js';
import { logOut } from './commands/upstream-accounts.js';
import { rotateSigningKey, withUsers } from './commands/users.js';
import { forgetSecrets, rotateSecrets } from './commands/vault.js';
import { openStorage } from './storage.js';

const PASSWORD = 'correct horse battery staple';
const SECRET = 'a-token-of-an-upstream';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'parley-changes-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const configOf = (audit: object = {}) =>
  configFrom({ data: folder, audit, servers: { files: { url: 'http://127.0.0.1:9/mcp' } } }).config;
type Config = ReturnType<typeof configOf>;

const recordsOf = (config: Config): Promise<Record<string, unknown>[]> =>
  withCommandStorage(config, async ({ state }) =>
    (await state.audit.list({ limit: 1_000 }))
      .map(({ value }) => value as Record<string, unknown>)
      .filter(({ kind }) => kind !== 'checkpoint'),
  );

const KEY = { name: 'ci', roles: [], servers: ['files'], tools: [], tenant: undefined, expires: '1h' };
const PIN = { server: 'files', kind: 'tool', name: 'read', body: '', definition: '{}', reason: '', flags: [] };
const LOGIN = { caller: 'ada', issuer: 'https://i', resource: 'http://127.0.0.1:9/mcp', upstream: 'server:files' };

/** Makes every change that commands make. Returns the secrets that went through them. */
async function changeAll(config: Config): Promise<string[]> {
  const { id, key } = await createApiKey(config, KEY);
  await revokeApiKeys(config, id);
  await revokeApiKeys(config, id);
  await withUsers(config, SILENT, async (users) => {
    await users.add({ name: 'ada', password: PASSWORD, roles: ['admin'], tenant: undefined });
    await expect(users.add({ name: 'ada', password: PASSWORD, roles: [], tenant: undefined })).rejects.toThrow(
      'exists already',
    );
    await users.setPassword('ada', `${PASSWORD} 2`);
    await users.remove('ada');
  });
  await rotateSigningKey(config, SILENT);
  await withCommandStorage(config, async ({ state }) => {
    await state.pins.insert([{ ...PIN, hash: 'one' }]);
    await state.pins.change({ ...PIN, hash: 'two', reason: 'changed' });
    for (const caller of ['ada', 'bob'])
      await state.vault.put({ ...LOGIN, caller }, { accessToken: SECRET }, { state: 'active' }, 10);
  });
  await withPins(config, async (pins) => {
    const [pin] = await pins.list('files');
    expect(await pins.approve(pin!)).toBe(true);
    expect(await pins.approve(pin!)).toBe(false);
    expect(await pins.forget('files')).toBe(1);
    expect(await pins.forget('files')).toBe(0);
  });
  await rotateSecrets(config);
  await logOut(config, SILENT, 'files', 'ada');
  await forgetSecrets(config, { caller: 'bob' });
  return [key, PASSWORD, SECRET];
}

test('S24: keys, users, pins, secrets and sign-ins: one record per change, with the person and without secrets', async () => {
  const config = configOf();
  const secrets = await changeAll(config);
  const records = await recordsOf(config);
  expect(records.map(({ action, outcome, reason }) => [action, outcome, ...(reason ? [reason] : [])])).toEqual([
    ['key.create', 'ok'],
    ['key.revoke', 'ok'],
    ['user.add', 'ok'],
    ['user.add', 'error', 'UserError'],
    ['user.password', 'ok'],
    ['user.remove', 'ok'],
    ['signing-key.rotate', 'ok'],
    ['pin.approve', 'ok'],
    ['pin.approve', 'error', 'changed_since'],
    ['pin.forget', 'ok'],
    ['vault.rotate', 'ok'],
    ['credential.remove', 'ok'],
    ['credential.remove', 'ok'],
  ]);
  for (const record of records)
    expect(record).toMatchObject({ kind: 'change', caller: 'operator', account: expect.any(String) });
  expect(records[0]).toMatchObject({ details: { name: 'ci', servers: ['files'], expiresAt: expect.any(Number) } });
  expect(records[7]).toMatchObject({ subject: 'read', details: { server: 'files', from: 'one', to: 'two' } });
  expect(records.at(-1)).toMatchObject({ subject: 'server:files', details: { owner: 'bob', issuer: 'https://i' } });
  for (const secret of secrets) expect(JSON.stringify(records)).not.toContain(secret);
});

test('S24: audit.onFailure closed: the intent of every change is stored before the change, and every intent gets an outcome', async () => {
  const config = configOf({ onFailure: 'closed' });
  await changeAll(config);
  const records = await recordsOf(config);
  const intents = records.filter(({ phase }) => phase === 'intent');
  expect(intents).toHaveLength(records.length / 2);
  for (const [index, { phase, action }] of records.entries()) {
    expect(phase).toBe(index % 2 === 0 ? 'intent' : undefined);
    if (index % 2 === 1) expect(action).toBe(records[index - 1]!['action']);
  }
});

test('S24: audit.onFailure closed: nothing changes if the trail cannot store the record', async () => {
  const refused: AuditTrail = {
    ...NO_AUDIT,
    closed: true,
    change: () => Promise.reject(new ProtocolError('audit_unavailable', 'away')),
  };
  const state = await openStorage(configOf(), SILENT);
  try {
    const { oauthUsers, oauthRecords: records, oauthRevocations: revocations } = state;
    const users = new Users({
      ...{ users: oauthUsers, records, revocations, audit: refused, by: OPERATOR, forget: async () => {} },
    });
    const ada = { name: 'ada', password: PASSWORD, roles: [], tenant: undefined };
    await expect(users.add(ada)).rejects.toMatchObject({ reason: 'audit_unavailable' });
    expect(await oauthUsers.get('ada')).toBeUndefined();
    await state.pins.insert([{ ...PIN, hash: 'one' }]);
    await expect(new PinCommands(state.pins, refused, OPERATOR).forget('files')).rejects.toMatchObject({
      reason: 'audit_unavailable',
    });
    expect(await state.pins.list('files')).toHaveLength(1);
  } finally {
    await state.close();
  }
});

test('with the audit trail switched off, commands make their changes without records', async () => {
  const config = configOf({ enabled: false });
  await changeAll(config);
  expect(await recordsOf(config)).toEqual([]);
});
