import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { configFrom } from '../../config/load.js';
import { Vault } from '../../identity/vault/vault.js';
import { wallMs } from '../../state/index.js';
import { SILENT } from '../../telemetry/log.js';
import { withCommandStorage } from './command-storage.js';
import { withUsers } from './users.js';

const PASSWORD = 'correct horse battery staple';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'parley-users-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test('S17: a removed user leaves nothing for a later user of the same name: no account, task or session', async () => {
  const { config } = configFrom({ data: folder });
  const add = (name: string): Promise<void> =>
    withUsers(config, SILENT, (users) => users.add({ name, password: PASSWORD, roles: [], tenant: 'acme' }));
  await add('ada');
  await add('ben');
  const [ada, ben] = ['~acme#users#ada', '~acme#users#ben'];
  const expiresAt = wallMs() + 600_000;
  await withCommandStorage(config, async ({ state }) => {
    const vault = new Vault({ rows: state.vault, now: wallMs });
    for (const caller of [ada, ben]) {
      const key = { caller, issuer: 'https://i.example', resource: 'https://s.example/mcp', upstream: 'server:s' };
      await vault.put(key, { accessToken: 'a' });
      const task = { agent: 'a', owner: caller, id: 't', upstreamId: `t-${caller}`, contextId: 'c', dialect: '1.0' };
      const status = { state: 'TASK_STATE_COMPLETED', statusAt: 1, value: {}, createdAt: wallMs(), seq: 1 };
      await state.agentTasks.write({ task: { ...task, ...status }, after: 0, events: [], messages: [], expiresAt });
      for (const store of [state.sessions, state.tasks, state.parked])
        await store.create({ id: `id-${caller}`, principal: caller, value: {} as never, expiresAt });
    }
  });
  const kept = (caller: string): Promise<readonly number[]> =>
    withCommandStorage(config, async ({ state }) => [
      (await state.vault.list({ caller })).length,
      (await state.agentTasks.list({ owner: caller, agents: ['a'], limit: 10 })).total,
      ...(await Promise.all(
        [state.sessions, state.tasks, state.parked].map(async (store) => (await store.listByPrincipal(caller)).length),
      )),
    ]);
  expect(await kept(ada)).toEqual([1, 1, 1, 1, 1]);
  await withUsers(config, SILENT, (users) => users.remove('ada'));
  expect(await kept(ada)).toEqual([0, 0, 0, 0, 0]);
  expect(await kept(ben)).toEqual([1, 1, 1, 1, 1]);
});
