import { wallMs } from '../clock.js';
import type { Db, Row, Statement, Value } from '../db.js';
import { isStateError } from '../errors.js';
import { newId } from '../ids.js';
import { skipLocked } from '../sql-dialect.js';
import type { Expiring } from '../sweeper.js';
import type { Message } from './webhook-outbox.js';

/** The key of a task: its agent, its owner, and the id that the owner sees. */
export interface AgentTaskKey {
  readonly agent: string;
  readonly owner: string;
  readonly id: string;
}

/** A task of an agent. The caller defines the format of `value`. */
export interface AgentTask<T> extends AgentTaskKey {
  readonly upstreamId: string;
  readonly contextId: string;
  readonly state: string;
  /** The time of the last state change; lists are sorted by it. */
  readonly statusAt: number;
  readonly value: T;
  /** The sequence number of the last event. */
  readonly seq: number;
  readonly dialect: string;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** End of the follower's claim, or the time at which the task is due for a check; null if no check is needed. */
  readonly followedUntil: number | null;
  /** The replica that follows the task; empty if none does. */
  readonly follower: string;
}

export interface AgentEvent {
  readonly seq: number;
  readonly value: unknown;
}

export interface AgentTaskWrite<T> {
  readonly task: Omit<AgentTask<T>, 'updatedAt' | 'followedUntil' | 'follower'>;
  /** Unchanged if undefined. */
  readonly followedUntil?: number | null;
  /** The replica that follows the task until `followedUntil`. */
  readonly follower?: string;
  /** Writes only if this replica still follows the task. */
  readonly heldBy?: string;
  /** The sequence number of the last event before this write; 0 creates the task. */
  readonly after: number;
  readonly events: readonly AgentEvent[];
  readonly messages: readonly Message[];
  readonly expiresAt: number;
}

export interface AgentTaskQuery {
  readonly owner: string;
  readonly agents: readonly string[];
  readonly contextId?: string;
  readonly state?: string;
  readonly since?: number;
  readonly after?: { readonly at: number; readonly agent: string; readonly id: string };
  readonly limit: number;
}

interface TaskRow extends Row {
  agent: string;
  owner: string;
  id: string;
  upstream_id: string;
  context_id: string;
  state: string;
  status_at: number;
  json: string;
  seq: number;
  dialect: string;
  created_at: number;
  updated_at: number;
  followed_until: number | null;
  follower: string;
}

interface KeyRow extends Row {
  agent: string;
  owner: string;
  id: string;
}

/** If no requested event exists, the query returns one row without an event. */
interface EventRow extends Row {
  last: number;
  seq: number | null;
  json: string;
}

/** Number of events kept per task. A subscriber that is further behind gets the snapshot instead. */
export const KEPT_EVENTS = 512;

const CLAIMS_AT_ONCE = 100;
/** A time after every possible expiry. */
const NEVER = Number.MAX_SAFE_INTEGER;

const COLUMNS = `agent, owner, id, upstream_id, context_id, state, status_at, json, seq, dialect, created_at, updated_at,
  followed_until, follower`;
const NAMED = 'agent = $1 AND owner = $2 AND id = $3';
const named = ({ agent, owner, id }: AgentTaskKey): string[] => [agent, owner, id];

/**
 * Tasks of agents, written in one transaction with their newest events and the messages about them. As in the outbox,
 * the claim to follow a task *is* a due time, so the tasks of a dead replica become due by themselves.
 */
export class AgentTasks<T = unknown> implements Expiring {
  /** The batch is small, because a task may have hundreds of events. */
  readonly batch = 50;
  readonly #db: Db;

  constructor(db: Db) {
    this.#db = db;
  }

  /** Returns false, and writes nothing, if another write came first, the task is gone, or the id is taken. */
  async write(write: AgentTaskWrite<T>): Promise<boolean> {
    if (await this.#write(write)) return true;
    // The id may belong to an expired task; remove that task and try again.
    return write.after === 0 && (await this.#removeExpired(write.task)) && this.#write(write);
  }

  async get(key: AgentTaskKey): Promise<AgentTask<T> | undefined> {
    const sql = `SELECT ${COLUMNS} FROM agent_tasks WHERE ${NAMED} AND expires_at > $4`;
    const [row] = await this.#db.q<TaskRow>(sql, [...named(key), wallMs()]);
    return row && taskOf<T>(row);
  }

  async getUpstream(agent: string, upstreamId: string): Promise<AgentTask<T> | undefined> {
    const sql = `SELECT ${COLUMNS} FROM agent_tasks WHERE agent = $1 AND upstream_id = $2 AND expires_at > $3`;
    const [row] = await this.#db.q<TaskRow>(sql, [agent, upstreamId, wallMs()]);
    return row && taskOf<T>(row);
  }

  /** The tasks of an owner with this id, at all agents, newest first. */
  async getAll(owner: string, id: string): Promise<AgentTask<T>[]> {
    const sql = `SELECT ${COLUMNS} FROM agent_tasks WHERE owner = $1 AND id = $2 AND expires_at > $3
      ORDER BY created_at DESC LIMIT 100`;
    return (await this.#db.q<TaskRow>(sql, [owner, id, wallMs()])).map((row) => taskOf<T>(row));
  }

  /** The pairs of agent and owner that have tasks in a context, oldest first. */
  async context(contextId: string): Promise<{ agent: string; owner: string }[]> {
    const sql = `SELECT agent, owner, MIN(created_at) AS first FROM agent_tasks
      WHERE context_id = $1 AND expires_at > $2 GROUP BY agent, owner ORDER BY first LIMIT 100`;
    const rows = await this.#db.q<{ agent: string; owner: string }>(sql, [contextId, wallMs()]);
    return rows.map(({ agent, owner }) => ({ agent, owner }));
  }

  /**
   * The events after a sequence number, oldest first; undefined if the task or some of the events are no longer kept.
   */
  async events(key: AgentTaskKey, after: number): Promise<AgentEvent[] | undefined> {
    // One statement: two statements could see different states of a task during a concurrent write.
    const rows = await this.#db.q<EventRow>(
      `SELECT t.seq AS last, e.seq, e.json FROM agent_tasks t
       LEFT JOIN agent_events e ON e.agent = t.agent AND e.owner = t.owner AND e.id = t.id AND e.seq > CAST($4 AS BIGINT)
       WHERE t.agent = $1 AND t.owner = $2 AND t.id = $3 ORDER BY e.seq`,
      [...named(key), after],
    );
    const [first] = rows;
    if (!first) return undefined;
    const found = rows.flatMap(({ seq, json }) => (seq === null ? [] : [{ seq, value: JSON.parse(json) as unknown }]));
    // Sequence numbers have no gaps, so a smaller count means that some events are missing.
    return found.length === Math.max(0, first.last - after) ? found : undefined;
  }

  async list(query: AgentTaskQuery): Promise<{ tasks: AgentTask<T>[]; total: number }> {
    const { owner, agents, contextId, state, since, after, limit } = query;
    if (agents.length === 0) return { tasks: [], total: 0 };
    const params: Value[] = [owner, wallMs()];
    const put = (value: Value): string => `$${params.push(value)}`;
    let where = `owner = $1 AND expires_at > $2 AND agent IN (${agents.map(put).join(', ')})`;
    if (contextId !== undefined) where += ` AND context_id = ${put(contextId)}`;
    if (state !== undefined) where += ` AND state = ${put(state)}`;
    if (since !== undefined) where += ` AND status_at >= ${put(since)}`;
    const count: Statement = [`SELECT COUNT(*) AS total FROM agent_tasks WHERE ${where}`, [...params]];
    if (after) {
      where += ` AND (status_at, agent, id) < (CAST(${put(after.at)} AS BIGINT), ${put(after.agent)}, ${put(after.id)})`;
    }
    const page: Statement = [
      `SELECT ${COLUMNS} FROM agent_tasks WHERE ${where}
       ORDER BY status_at DESC, agent DESC, id DESC LIMIT ${put(limit)}`,
      params,
    ];
    const [counted, rows] = await this.#db.tx([count, page]);
    return {
      tasks: (rows as TaskRow[]).map((row) => taskOf<T>(row)),
      total: counted?.[0]?.['total'] as number,
    };
  }

  /**
   * Removes tasks in one of these states, oldest first, of an owner with more than `most` tasks. Returns the number of
   * tasks that are left.
   */
  async trim(owner: string, states: readonly string[], most: number): Promise<number> {
    const counting = 'SELECT COUNT(*) AS total FROM agent_tasks WHERE owner = $1 AND expires_at > $2';
    const [counted] = await this.#db.q<{ total: number }>(counting, [owner, wallMs()]);
    let left = counted?.total ?? 0;
    const places = states.map((_, i) => `$${i + 4}`).join(', ');
    const oldest = `SELECT agent, owner, id FROM agent_tasks WHERE owner = $1 AND expires_at > $2
      AND state IN (${places}) ORDER BY status_at, agent, id LIMIT $3`;
    while (left > most) {
      const limit = Math.min(this.batch, left - most);
      const rows = await this.#db.q<KeyRow>(oldest, [owner, wallMs(), limit, ...states]);
      if (rows.length === 0) break;
      await this.#db.tx(removal(rows, NEVER));
      left -= rows.length;
    }
    return left;
  }

  /** Claims tasks that are due: their follower did not renew its claim in time, or a check is due. */
  async claimFollowing(by: string, limit: number, until: number, now = wallMs()): Promise<AgentTask<T>[]> {
    const sql = `WITH due AS (
         SELECT agent, owner, id FROM agent_tasks WHERE followed_until <= $1 AND expires_at > $1
         ORDER BY followed_until LIMIT $2 ${skipLocked(this.#db.dialect)})
       UPDATE agent_tasks SET followed_until = CAST($3 AS BIGINT), follower = $4
       WHERE (agent, owner, id) IN (SELECT agent, owner, id FROM due) RETURNING ${COLUMNS}`;
    return (await this.#db.q<TaskRow>(sql, [now, limit, until, by])).map((row) => taskOf<T>(row));
  }

  /** Returns false if another replica follows the task. */
  async claimOne(key: AgentTaskKey, by: string, until: number, now = wallMs()): Promise<boolean> {
    const sql = `UPDATE agent_tasks SET followed_until = CAST($4 AS BIGINT), follower = $6
      WHERE ${NAMED} AND (followed_until IS NULL OR followed_until <= $5 OR follower IN ('', $6)) AND expires_at > $5
      RETURNING id`;
    return (await this.#db.q(sql, [...named(key), until, now, by])).length > 0;
  }

  /**
   * Renews claims. Returns the keys that `by` still holds; the others were taken over, or need no follower any more.
   */
  async keepFollowing(keys: readonly AgentTaskKey[], by: string, until: number): Promise<AgentTaskKey[]> {
    return this.#claims(keys, by, 'followed_until = CAST($1 AS BIGINT)', until);
  }

  /** Gives claims up. The tasks become due for every replica at `due`, or never if it is null. */
  async letGo(keys: readonly AgentTaskKey[], by: string, due: number | null): Promise<void> {
    await this.#claims(keys, by, `followed_until = CAST($1 AS BIGINT), follower = ''`, due);
  }

  /** Makes the task due at `due`, unless a replica follows it. */
  async remind(key: AgentTaskKey, due: number): Promise<void> {
    const sql = `UPDATE agent_tasks SET followed_until = CAST($4 AS BIGINT) WHERE ${NAMED} AND follower = ''`;
    await this.#db.q(sql, [...named(key), due]);
  }

  async #claims(keys: readonly AgentTaskKey[], by: string, change: string, until: number | null) {
    const found: AgentTaskKey[] = [];
    for (let i = 0; i < keys.length; i += CLAIMS_AT_ONCE) {
      const params: Value[] = [until, by];
      const rows = keys.slice(i, i + CLAIMS_AT_ONCE).map((key) => {
        return `(${named(key)
          .map((name) => `$${params.push(name)}`)
          .join(', ')})`;
      });
      const sql = `UPDATE agent_tasks SET ${change} WHERE follower = $2 AND followed_until IS NOT NULL
        AND (agent, owner, id) IN (VALUES ${rows.join(', ')}) RETURNING agent, owner, id`;
      found.push(...(await this.#db.q<{ agent: string; owner: string; id: string }>(sql, params)));
    }
    return found;
  }

  /** Removes expired tasks with their events and push configurations. */
  async sweep(): Promise<number> {
    const sql = 'SELECT agent, owner, id FROM agent_tasks WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2';
    const now = wallMs();
    const rows = await this.#db.q<KeyRow>(sql, [now, this.batch]);
    if (rows.length > 0) await this.#db.tx(removal(rows, now));
    return rows.length;
  }

  async #write(write: AgentTaskWrite<T>): Promise<boolean> {
    const { task, after, events, messages, expiresAt, followedUntil, follower = '', heldBy } = write;
    const mark = newId();
    const now = wallMs();
    const key = named(task);
    const json = JSON.stringify(task.value);
    const kept = followedUntil === undefined ? 1 : 0;
    const statements: Statement[] = [
      after === 0
        ? [
            `INSERT INTO agent_tasks (${COLUMNS}, mark, expires_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, CAST($13 AS BIGINT), $14, $15, $16)
             ON CONFLICT DO NOTHING RETURNING seq`,
            [
              ...key,
              task.upstreamId,
              task.contextId,
              task.state,
              task.statusAt,
              json,
              task.seq,
              task.dialect,
              task.createdAt,
              now,
              followedUntil ?? null,
              follower,
              mark,
              expiresAt,
            ],
          ]
        : [
            `UPDATE agent_tasks SET state = $5, status_at = $6, json = $7, seq = $8, updated_at = $9, mark = $10,
               expires_at = $11,
               followed_until = CASE WHEN CAST($13 AS INTEGER) = 1 THEN followed_until ELSE CAST($12 AS BIGINT) END,
               follower = CASE WHEN CAST($13 AS INTEGER) = 1 THEN follower ELSE CAST($14 AS TEXT) END
             WHERE ${NAMED} AND seq = $4 AND expires_at > $9 ${heldBy === undefined ? '' : 'AND follower = $15'}
             RETURNING seq`,
            [
              ...key,
              after,
              task.state,
              task.statusAt,
              json,
              task.seq,
              now,
              mark,
              expiresAt,
              followedUntil ?? null,
              kept,
              follower,
              ...(heldBy === undefined ? [] : [heldBy]),
            ],
          ],
    ];
    for (const { seq, value } of events) {
      statements.push([
        `INSERT INTO agent_events (agent, owner, id, seq, json)
         SELECT CAST($1 AS TEXT), CAST($2 AS TEXT), CAST($3 AS TEXT), CAST($4 AS BIGINT), CAST($5 AS TEXT)
         WHERE ${written(6)}`,
        [...key, seq, JSON.stringify(value), mark],
      ]);
    }
    if (task.seq > KEPT_EVENTS && events.length > 0) {
      statements.push([
        `DELETE FROM agent_events WHERE ${NAMED} AND seq <= $4 AND ${written(5)}`,
        [...key, task.seq - KEPT_EVENTS, mark],
      ]);
    }
    for (const { id = newId(), lane, target, value } of messages) {
      const json = JSON.stringify(value);
      statements.push([
        `INSERT INTO outbox (id, lane, target, json, dead, attempts, due_at, claim, first_at, created_at, owner, bytes)
         SELECT CAST($4 AS TEXT), CAST($5 AS TEXT), CAST($6 AS TEXT), CAST($7 AS TEXT), 0, 0,
           CAST($8 AS BIGINT), '', CAST($8 AS BIGINT), CAST($8 AS BIGINT), CAST($2 AS TEXT), CAST($10 AS BIGINT)
         WHERE ${written(9)} ON CONFLICT (id) DO NOTHING`,
        [...key, id, lane, target, json, now, mark, Buffer.byteLength(json)],
      ]);
    }
    try {
      const [rows] = await this.#db.tx(statements);
      return rows !== undefined && rows.length > 0;
    } catch (error) {
      // Concurrent creations: ON CONFLICT covers one unique index, and PostgreSQL reports the other as an error.
      if (isStateError(error, 'constraint')) return false;
      throw error;
    }
  }

  async #removeExpired({ agent, owner, id, upstreamId }: Pick<AgentTask<T>, keyof AgentTaskKey | 'upstreamId'>) {
    const now = wallMs();
    const sql = `SELECT agent, owner, id FROM agent_tasks WHERE expires_at <= $5
      AND ((agent = $1 AND owner = $2 AND id = $3) OR (agent = $1 AND upstream_id = $4))`;
    const rows = await this.#db.q<KeyRow>(sql, [agent, owner, id, upstreamId, now]);
    if (rows.length > 0) await this.#db.tx(removal(rows, now));
    return rows.length > 0;
  }
}

/** A condition that is true only if the task was written in this transaction. */
const written = (mark: number): string => `EXISTS (SELECT 1 FROM agent_tasks t
  WHERE t.agent = $1 AND t.owner = $2 AND t.id = $3 AND t.mark = $${mark})`;

/** Statements that remove the given tasks if they expire until `now`. */
function removal(keys: readonly AgentTaskKey[], now: number): Statement[] {
  const params: Value[] = [now];
  const places = keys.map((key) => `(${named(key).map((name) => `$${params.push(name)}`)})`);
  const these = `IN (VALUES ${places.join(', ')})`;
  const of = (
    table: string,
    id: string,
  ): string => `DELETE FROM ${table} WHERE (agent, owner, ${id}) ${these} AND EXISTS
    (SELECT 1 FROM agent_tasks t WHERE t.agent = ${table}.agent AND t.owner = ${table}.owner AND t.id = ${table}.${id}
      AND t.expires_at <= $1)`;
  return [
    [of('agent_events', 'id'), params],
    [of('agent_pushes', 'task_id'), params],
    [`DELETE FROM agent_tasks WHERE (agent, owner, id) ${these} AND expires_at <= $1`, params],
  ];
}

function taskOf<T>(row: TaskRow): AgentTask<T> {
  return {
    agent: row.agent,
    owner: row.owner,
    id: row.id,
    upstreamId: row.upstream_id,
    contextId: row.context_id,
    state: row.state,
    statusAt: row.status_at,
    value: JSON.parse(row.json) as T,
    seq: row.seq,
    dialect: row.dialect,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    followedUntil: row.followed_until,
    follower: row.follower,
  };
}
