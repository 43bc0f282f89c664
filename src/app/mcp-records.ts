/** Stores MCP sessions, tasks, parked calls, used approvals and version verdicts in `state/`. */

import type { Cluster } from '../core/cluster.js';
import type { HostedTaskRecord, HostedTaskRecords } from '../core/era-bridge/hosted-task-record.js';
import type { ParkedRecords } from '../core/era-bridge/parked-calls.js';
import { RecentMap } from '../core/recent-map.js';
import { type Seal, SealBroken } from '../core/seal.js';
import type { SessionProgress, SessionRecord, SessionRecords } from '../inbound/mcp/session/session-record.js';
import type { UsedApprovals } from '../interceptors/approval.js';
import type { VerdictStore } from '../outbound/mcp/build-upstream.js';
import { type CallOutcome, ProtocolError } from '../protocol/errors.js';
import type { JsonValue } from '../protocol/jsonrpc/raw.js';
import type { Verdict } from '../protocol/mcp/server-version.js';
import { isTerminal } from '../protocol/mcp/translate/task.js';
import { isStateError, type Sessions as SessionRows, type State, wallMs } from '../state/index.js';
import type { Log } from '../telemetry/log.js';

/** Lifetime of a task hosted by the gateway, from its start to the removal of its outcome, in milliseconds. */
export const TASK_TTL = 60 * 60 * 1000;

/** Lifetime of a stored verdict about a server's version. After this time, the next start probes the server again. */
const VERDICT_LIFE = 7 * 24 * 60 * 60 * 1000;

/** Verdicts in memory. */
const MOST_VERDICTS = 10_000;

/** Turns an unavailable database into a retryable error for the request that needs it; other requests succeed. */
export const storing =
  (what: string) =>
  async <T>(work: Promise<T>, outcome: CallOutcome = 'not_executed'): Promise<T> => {
    try {
      return await work;
    } catch (error) {
      if (!isStateError(error) || !error.retryable) throw error;
      throw new ProtocolError(
        'overloaded',
        `The database is unavailable: ${what} cannot be stored or read; try again`,
        {
          outcome,
          headers: { 'Retry-After': '1' },
        },
      );
    }
  };

const stored = storing('sessions, tasks and parked calls');

/** Sessions of HTTP clients are stored in the database, so they continue after a restart and at other replicas. */
export function sessionRecords({ sessions }: State, cluster: Cluster): SessionRecords {
  const store = sessions as SessionRows<SessionRecord>;
  const until = (idle: number): number => wallMs() + idle;
  return {
    create: async (record, idle) => {
      const { key, principal } = record;
      await stored(store.create({ id: key, principal: principal.name, value: record, expiresAt: until(idle) }));
    },
    load: async (key) => (await stored(store.get(key)))?.value,
    update: async (key, progress) => {
      // All concurrent writers write the progress of the same client, so no write needs a check: the last write wins.
      for (let found = await stored(store.get(key)); found; found = await stored(store.get(key))) {
        const value = { ...found.value, progress };
        if ((await stored(store.update({ id: key, rev: found.rev, value }))) === undefined) continue;
        await cluster.tell('session:progress', { key, progress } as unknown as JsonValue, key);
        return;
      }
    },
    touch: (key, idle) => stored(store.touch(key, until(idle))),
    remove: async (key) => {
      await stored(store.remove(key));
      await cluster.tell('session:removed', key, key);
    },
    onRemoved: (listener) => cluster.onTold('session:removed', (key) => listener(String(key))),
    onProgress: (listener) =>
      cluster.onTold('session:progress', (payload) => {
        const { key, progress } = payload as unknown as { key: string; progress: SessionProgress };
        listener(key, progress);
      }),
  };
}

export function taskRecords({ tasks }: State): HostedTaskRecords {
  const revs = new Map<string, number>();
  return {
    create: async (record) => {
      const { taskId: id, principal, ttlMs } = record;
      // The expiry uses the clock of the state layer, which removes rows; `createdAt` is for display only.
      await stored(tasks.create({ id, principal, value: record, expiresAt: wallMs() + (ttlMs ?? TASK_TTL) }));
      revs.set(record.taskId, 1);
    },
    update: async (record) => {
      const { taskId } = record;
      const rev = await stored(tasks.update({ id: taskId, rev: revs.get(taskId) ?? 0, value: record }));
      if (rev === undefined || isTerminal(record.status)) revs.delete(taskId);
      else revs.set(taskId, rev);
      return rev !== undefined;
    },
    end: async (record) => {
      for (;;) {
        const found = await stored(tasks.get(record.taskId));
        const now = found?.value as HostedTaskRecord | undefined;
        if (!found || !now || isTerminal(now.status)) return now ?? record;
        if ((await stored(tasks.update({ id: record.taskId, rev: found.rev, value: record }))) !== undefined)
          return record;
      }
    },
    load: async (taskId) => (await stored(tasks.get(taskId)))?.value as HostedTaskRecord | undefined,
    list: async (principal, after, limit) => {
      const page = { limit, ...(after !== undefined && { after }) };
      const found = await stored(tasks.listByPrincipal(principal, page));
      return found.map(({ value }) => value as HostedTaskRecord);
    },
  };
}

/** Parked calls are stored sealed: a copy of the database does not reveal their content. */
export function parkedRecords({ parked }: State, seal: Seal): ParkedRecords {
  return {
    keep: async (id, principal, server, call, ttl) => {
      const value = seal.close('parked', principal, [server, call], ttl);
      await stored(parked.create({ id, principal, value, expiresAt: wallMs() + ttl }));
    },
    take: async (id, principal) => {
      const taken = await stored(parked.take(id));
      if (taken?.principal !== principal) return undefined;
      try {
        const [server, call] = seal.open('parked', principal, String(taken.value)) as [string, JsonValue];
        return { server, call };
      } catch (error) {
        if (error instanceof SealBroken) return undefined;
        throw error;
      }
    },
  };
}

/** Used approvals are kept this much longer than they are valid, because the clocks of replicas differ. */
const APPROVAL_MARGIN = 60_000;

export function usedApprovals({ spentApprovals }: State): UsedApprovals {
  return {
    spend: async (id, principal, ttl) => {
      const spent = await stored(spentApprovals.spend(id, principal, ttl + APPROVAL_MARGIN));
      if (spent === 'full')
        throw new ProtocolError('rate_limited', 'Too many of your calls were approved within a day; try again later', {
          outcome: 'not_executed',
          headers: { 'Retry-After': '3600' },
        });
      return spent === 'first';
    },
  };
}

/** Version verdicts are read once at the start and written in the background: no call waits for them. */
export async function rememberedVerdicts(state: State, log: Log): Promise<VerdictStore> {
  // Servers come and go while the gateway runs; the entry of a server that is gone is the first to be dropped.
  const known = new RecentMap<Verdict>(MOST_VERDICTS);
  const store = state.verdicts;
  for (const { target, value } of await store.all()) known.set(target, value as Verdict);
  log.debug({ verdicts: known.size }, 'loaded the stored verdicts about server versions');
  return {
    recall: (target) => known.get(target),
    remember: (target, verdict) => {
      known.set(target, verdict);
      store
        .put(target, { value: verdict, datedAt: verdict.at, expiresAt: wallMs() + VERDICT_LIFE })
        .catch((error: unknown) => log.warn({ err: error }, 'failed to store a verdict about a server version'));
    },
  };
}
