import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { configFrom } from '../config/load.js';
import { Seal } from '../core/seal.js';
import { RecordAdapter } from '../identity/oauth-server/record-adapter.js';
import { Revocations } from '../identity/oauth-server/revoke-tokens.js';
import { type State, wallMs } from '../state/index.js';
import { withCommandStorage } from './commands/command-storage.js';
import { rotateSecrets } from './commands/vault.js';
import { signingKeys } from './oauth-server.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'parley-reseal-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const key = (): string => randomBytes(32).toString('base64');
const configOf = (...keys: string[]) => configFrom({ data: folder, state: { keys } }).config;

/** The parts of the authorization server that outlive a key of `state.keys`. */
function partsOf(state: State) {
  const seal = new Seal(state.keyring, wallMs);
  const options = {
    records: state.oauthRecords,
    revocations: new Revocations(state.oauthRevocations, state.bus, wallMs),
    seal,
    now: wallMs,
  };
  return {
    keys: signingKeys(state, seal),
    clients: new RecordAdapter('Client', options),
    tokens: new RecordAdapter('RefreshToken', options),
  };
}

test('a new key ends no sign-in: clients, refresh tokens and the signing key stay readable when the old key is removed', async () => {
  const [before, after] = [key(), key()];
  const kid = await withCommandStorage(configOf(before), async ({ state }) => {
    const { keys, clients, tokens } = partsOf(state);
    for (let i = 0; i < 250; i++) await clients.upsert(`client-${i}`, { client_name: `n${i}` });
    await tokens.upsert('token', { grantId: 'grant', accountId: 'ada' }, 600);
    return (await keys.current()).kid;
  });
  const both = configOf(after, before);
  expect(await rotateSecrets(both)).toMatchObject({ rewritten: 253, failed: 0 });
  expect(await rotateSecrets(both)).toMatchObject({ rewritten: 0, failed: 0 });
  await withCommandStorage(configOf(after), async ({ state }) => {
    const { keys, clients, tokens } = partsOf(state);
    expect(await clients.find('client-249')).toEqual({ client_name: 'n249' });
    expect(await tokens.find('token')).toMatchObject({ accountId: 'ada' });
    expect((await keys.current()).kid).toBe(kid);
  });
});

test('a record under a missing key is counted, not dropped', async () => {
  const before = key();
  await withCommandStorage(configOf(before), ({ state }) =>
    partsOf(state).clients.upsert('client', { client_name: 'n' }),
  );
  expect(await rotateSecrets(configOf(key()))).toMatchObject({ rewritten: 0, failed: 1 });
  await withCommandStorage(configOf(before), async ({ state }) => {
    expect(await partsOf(state).clients.find('client')).toEqual({ client_name: 'n' });
  });
});
