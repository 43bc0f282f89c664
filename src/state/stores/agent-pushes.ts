import { wallMs } from '../clock.js';
import type { Db, Row } from '../db.js';
import type { AgentTaskKey } from './agent-tasks.js';

/** A push configuration: the target of notifications about a task. The caller defines the format of `value`. */
export interface AgentPush<T> {
  readonly key: AgentTaskKey;
  readonly id: string;
  readonly value: T;
  readonly dialect: string;
  /** The number of consecutive failed deliveries. */
  readonly failures: number;
  readonly disabled: boolean;
}

interface PushRow extends Row {
  id: string;
  json: string;
  dialect: string;
  failures: number;
  disabled: number;
}

const OF_TASK = 'agent = $1 AND owner = $2 AND task_id = $3';
const named = ({ agent, owner, id }: AgentTaskKey): string[] => [agent, owner, id];

/** Push configurations. A configuration is removed together with its task at the latest. */
export class AgentPushes<T = unknown> {
  readonly #db: Db;

  constructor(db: Db) {
    this.#db = db;
  }

  /** Adds a configuration, or replaces the one with the same id. */
  async put({ key, id, value, dialect, failures, disabled }: AgentPush<T>): Promise<void> {
    await this.#db.q(
      `INSERT INTO agent_pushes (agent, owner, task_id, id, json, dialect, failures, disabled, created_at)
       VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
       ON CONFLICT (agent, owner, task_id, id) DO UPDATE SET json = excluded.json, dialect = excluded.dialect,
         failures = excluded.failures, disabled = excluded.disabled`,
      [...named(key), id, JSON.stringify(value), dialect, failures, disabled ? 1 : 0, wallMs()],
    );
  }

  /** All configurations of a task, oldest first. */
  async ofTask(key: AgentTaskKey): Promise<AgentPush<T>[]> {
    const sql = `SELECT id, json, dialect, failures, disabled FROM agent_pushes WHERE ${OF_TASK} ORDER BY created_at, id`;
    const rows = await this.#db.q<PushRow>(sql, named(key));
    return rows.map(({ id, json, dialect, failures, disabled }) => {
      return { key, id, value: JSON.parse(json) as T, dialect, failures, disabled: disabled === 1 };
    });
  }

  async remove(key: AgentTaskKey, id: string): Promise<boolean> {
    const sql = `DELETE FROM agent_pushes WHERE ${OF_TASK} AND id = $4 RETURNING id`;
    return (await this.#db.q(sql, [...named(key), id])).length > 0;
  }

  /** Disables or enables a configuration, unless it was changed or deleted since `value` was read. */
  async disable(key: AgentTaskKey, id: string, value: T, disabled: boolean): Promise<boolean> {
    const sql = `UPDATE agent_pushes SET disabled = $6 ${disabled ? '' : ', failures = 0'}
      WHERE ${OF_TASK} AND id = $4 AND json = $5 RETURNING id`;
    return (await this.#db.q(sql, [...named(key), id, JSON.stringify(value), disabled ? 1 : 0])).length > 0;
  }

  /**
   * Counts a delivery; a success resets the count of failures. Returns the count; 0 if the configuration does not
   * exist.
   */
  async count(key: AgentTaskKey, id: string, delivered: boolean): Promise<number> {
    const sql = `UPDATE agent_pushes SET failures = ${delivered ? '0' : 'failures + 1'}
      WHERE ${OF_TASK} AND id = $4 RETURNING failures`;
    const [row] = await this.#db.q<{ failures: number }>(sql, [...named(key), id]);
    return row?.failures ?? 0;
  }
}
