import { TASK_STATES } from '../protocol/a2a/model.js';
import type { Document, State } from '../state/index.js';
import type { CommandStorage } from './commands/command-storage.js';
import { removal } from './commands/vault.js';

/** The stores whose rows belong to one caller, besides the vault and the tasks of agents. */
const OWNED = ['sessions', 'tasks', 'parked'] as const satisfies readonly (keyof State)[];
const BATCH = 200;

/**
 * Removes everything that is stored for a caller: its accounts at servers and agents, its tasks and its sessions.
 * Otherwise a later person of the same name could use them.
 */
export async function forgetCaller({ state, audit, by }: CommandStorage, caller: string): Promise<void> {
  for (const row of await state.vault.list({ caller }))
    await audit.change(removal(by, row), () => state.vault.remove(row.id));
  await state.agentTasks.trim(caller, TASK_STATES, 0);
  for (const name of OWNED) {
    let rows: readonly Document<unknown>[];
    do {
      rows = await state[name].listByPrincipal(caller, { limit: BATCH });
      for (const { id } of rows) await state[name].remove(id);
    } while (rows.length === BATCH);
  }
}
