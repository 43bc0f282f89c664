/** What the rooms keep beyond a process, put into the stores of `state/`. */
import type { TaskRecord, TaskRecords } from './core/bridge/tasks.js';
import type { Cluster } from './core/cluster.js';
import type { SessionProgress, SessionRecord, SessionRecords } from './inbound/mcp/session/records.js';
import type { VerdictStore } from './outbound/mcp/build.js';
import type { Log } from './outbound/mcp/context.js';
import type { JsonValue } from './protocol/jsonrpc/raw.js';
import type { Verdict } from './protocol/mcp/probe.js';
import { isTerminal } from './protocol/mcp/project/task.js';
import { Sessions as SessionRows, type State } from './state/index.js';

/** How long a task of the gateway may run and its outcome is kept. */
export const TASK_TTL = 60 * 60 * 1000;

/** A verdict that nobody confirmed for so long is asked for again at the next start. */
const VERDICT_LIFE = 7 * 24 * 60 * 60 * 1000;

/** Sessions of HTTP clients are rows: a restart, or another replica, goes on with them. */
export function sessionRecords({ db }: State, cluster: Cluster): SessionRecords {
  const store = new SessionRows<SessionRecord>(db);
  const until = (idle: number): number => Date.now() + idle;
  return {
    create: async (record, idle) => {
      await store.create({ id: record.key, principal: record.principal.name, value: record, expiresAt: until(idle) });
    },
    load: async (key) => (await store.get(key))?.value,
    update: async (key, progress) => {
      // Whoever writes at the same time writes of the same client; the last word counts.
      for (let found = await store.get(key); found; found = await store.get(key)) {
        if ((await store.update({ id: key, rev: found.rev, value: { ...found.value, progress } })) === undefined)
          continue;
        cluster.tell('session:progress', { key, progress } as unknown as JsonValue);
        return;
      }
    },
    touch: async (key, idle) => {
      await store.touch(key, until(idle));
    },
    remove: async (key) => {
      cluster.tell('session:removed', key);
      await store.remove(key);
    },
    onRemoved: (listener) => cluster.onTold('session:removed', (key) => listener(String(key))),
    onProgress: (listener) =>
      cluster.onTold('session:progress', (payload) => {
        const { key, progress } = payload as unknown as { key: string; progress: SessionProgress };
        listener(key, progress);
      }),
  };
}

export function taskRecords({ tasks }: State): TaskRecords {
  const save = (record: TaskRecord): { value: TaskRecord; expiresAt: number } => ({
    value: record,
    expiresAt: Date.parse(record.createdAt) + (record.ttlMs ?? TASK_TTL),
  });
  const revs = new Map<string, number>();
  return {
    create: async (record) => {
      await tasks.create({ id: record.taskId, principal: record.principal, ...save(record) });
      revs.set(record.taskId, 1);
    },
    update: async (record) => {
      const rev = await tasks.update({ id: record.taskId, rev: revs.get(record.taskId) ?? 0, ...save(record) });
      if (rev === undefined || isTerminal(record.status)) revs.delete(record.taskId);
      else revs.set(record.taskId, rev);
    },
    load: async (taskId) => (await tasks.get(taskId))?.value as TaskRecord | undefined,
    list: async (principal, after, limit) => {
      const found = await tasks.listByPrincipal(principal, { limit, ...(after !== undefined && { after }) });
      return found.map(({ value }) => value as TaskRecord);
    },
  };
}

/** Verdicts are read once at the start and written behind: no call waits for them. */
export async function rememberedVerdicts(state: State, log: Log): Promise<VerdictStore> {
  const known = new Map<string, Verdict>();
  const store = state.verdicts;
  for (const { target, value } of await store.all()) known.set(target, value as Verdict);
  log.debug({ verdicts: known.size }, 'verdicts recalled');
  return {
    recall: (target) => known.get(target),
    remember: (target, verdict) => {
      known.set(target, verdict);
      store
        .put(target, { value: verdict, datedAt: verdict.at, expiresAt: Date.now() + VERDICT_LIFE })
        .catch((error: unknown) => log.warn({ err: error }, 'a verdict was not saved'));
    },
  };
}

export { startExamples } from './quickstart.js';
