import { sleep } from '../core/timing.js';
import type { Log } from '../telemetry/log.js';
import { monotonicMs } from './clock.js';
import type { Db, Statement } from './db.js';
import { isStateError, StateError } from './errors.js';
import { migrationLock } from './sql-dialect.js';

/**
 * A migration step. Steps go forward only and never change after their release. They expand first and contract later
 * (add nullable columns and tables, backfill, drop in a later version), so that the replicas of a rolling update can
 * share one database.
 */
export interface Step {
  readonly v: number;
  readonly statements: readonly string[];
}

/** A table of `Documents`: sessions, parked calls and tasks differ only in the content of their JSON. */
function documents(table: string): string[] {
  return [
    `CREATE TABLE ${table} (
      id TEXT PRIMARY KEY, principal TEXT NOT NULL, owner TEXT NOT NULL, json TEXT NOT NULL,
      rev BIGINT NOT NULL, mark TEXT NOT NULL,
      created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL, expires_at BIGINT)`,
    `CREATE INDEX ${table}_principal ON ${table} (principal, id)`,
    `CREATE INDEX ${table}_owner ON ${table} (owner, id)`,
    `CREATE INDEX ${table}_expires ON ${table} (expires_at) WHERE expires_at IS NOT NULL`,
  ];
}

export const steps: readonly Step[] = [
  {
    v: 1,
    statements: [
      'CREATE TABLE meta (key TEXT PRIMARY KEY, value BIGINT NOT NULL)',
      `CREATE TABLE registry (
        kind TEXT NOT NULL, name TEXT NOT NULL, json TEXT NOT NULL, rev BIGINT NOT NULL, updated_at BIGINT NOT NULL,
        PRIMARY KEY (kind, name))`,
      `CREATE TABLE era_verdicts (
        target TEXT PRIMARY KEY, json TEXT NOT NULL, dated_at BIGINT NOT NULL, expires_at BIGINT NOT NULL)`,
      'CREATE INDEX era_verdicts_expires ON era_verdicts (expires_at)',
      ...documents('sessions'),
      ...documents('parked_calls'),
      ...documents('tasks'),
      `CREATE TABLE streams (
        stream TEXT PRIMARY KEY, epoch BIGINT NOT NULL, last BIGINT NOT NULL, trimmed BIGINT NOT NULL,
        bytes BIGINT NOT NULL, trimmed_bytes BIGINT NOT NULL, mark TEXT NOT NULL,
        ttl BIGINT NOT NULL, expires_at BIGINT NOT NULL)`,
      'CREATE INDEX streams_expires ON streams (expires_at)',
      `CREATE TABLE stream_events (
        stream TEXT NOT NULL, epoch BIGINT NOT NULL, seq BIGINT NOT NULL, bytes BIGINT NOT NULL, data TEXT NOT NULL,
        PRIMARY KEY (stream, epoch, seq))`,
      `CREATE TABLE leases (
        key TEXT PRIMARY KEY, owner TEXT NOT NULL, fence BIGINT NOT NULL, ttl BIGINT NOT NULL, expires_at BIGINT NOT NULL)`,
      `CREATE TABLE counters (
        key TEXT PRIMARY KEY, value BIGINT NOT NULL, ttl BIGINT NOT NULL, expires_at BIGINT NOT NULL)`,
      `CREATE TABLE outbox (
        id TEXT PRIMARY KEY, lane TEXT NOT NULL, target TEXT NOT NULL, json TEXT NOT NULL,
        dead INTEGER NOT NULL, attempts INTEGER NOT NULL, due_at BIGINT NOT NULL, claim TEXT NOT NULL,
        first_at BIGINT NOT NULL, created_at BIGINT NOT NULL, error TEXT)`,
      'CREATE INDEX outbox_due ON outbox (due_at) WHERE dead = 0',
      'CREATE INDEX outbox_lane ON outbox (lane, id) WHERE dead = 0',
      'CREATE INDEX outbox_dead ON outbox (id) WHERE dead = 1',
      `CREATE TABLE audit (
        chain TEXT NOT NULL, seq BIGINT NOT NULL, at BIGINT NOT NULL, json TEXT NOT NULL,
        prev TEXT NOT NULL, hash TEXT NOT NULL, PRIMARY KEY (chain, seq))`,
      'CREATE INDEX audit_at ON audit (at)',
    ],
  },
  {
    v: 2,
    statements: [
      `CREATE TABLE agent_tasks (
        agent TEXT NOT NULL, owner TEXT NOT NULL, id TEXT NOT NULL, upstream_id TEXT NOT NULL, context_id TEXT NOT NULL,
        state TEXT NOT NULL, status_at BIGINT NOT NULL, json TEXT NOT NULL, seq BIGINT NOT NULL, dialect TEXT NOT NULL,
        mark TEXT NOT NULL, created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL, expires_at BIGINT NOT NULL,
        followed_until BIGINT, follower TEXT NOT NULL, PRIMARY KEY (agent, owner, id))`,
      'CREATE UNIQUE INDEX agent_tasks_upstream ON agent_tasks (agent, upstream_id)',
      'CREATE INDEX agent_tasks_listed ON agent_tasks (owner, status_at DESC, agent DESC, id DESC)',
      'CREATE INDEX agent_tasks_id ON agent_tasks (owner, id)',
      'CREATE INDEX agent_tasks_context ON agent_tasks (context_id)',
      'CREATE INDEX agent_tasks_expires ON agent_tasks (expires_at)',
      'CREATE INDEX agent_tasks_followed ON agent_tasks (followed_until) WHERE followed_until IS NOT NULL',
      `CREATE TABLE agent_events (
        agent TEXT NOT NULL, owner TEXT NOT NULL, id TEXT NOT NULL, seq BIGINT NOT NULL, json TEXT NOT NULL,
        PRIMARY KEY (agent, owner, id, seq))`,
      `CREATE TABLE agent_pushes (
        agent TEXT NOT NULL, owner TEXT NOT NULL, task_id TEXT NOT NULL, id TEXT NOT NULL, json TEXT NOT NULL,
        dialect TEXT NOT NULL, failures INTEGER NOT NULL, disabled INTEGER NOT NULL, created_at BIGINT NOT NULL,
        PRIMARY KEY (agent, owner, task_id, id))`,
    ],
  },
  {
    v: 3,
    statements: [
      'CREATE INDEX leases_expires ON leases (expires_at)',
      'CREATE INDEX counters_expires ON counters (expires_at)',
      'CREATE INDEX outbox_dead_due ON outbox (due_at) WHERE dead = 1',
      // `audit_trimmed` has the newest removed record of each hash chain. `audit_anchors` has the hashes of removed records
      // to which the first record of another chain refers.
      'CREATE TABLE audit_trimmed (chain TEXT PRIMARY KEY, seq BIGINT NOT NULL, hash TEXT NOT NULL)',
      'CREATE TABLE audit_anchors (hash TEXT PRIMARY KEY)',
      'CREATE INDEX audit_starts ON audit (prev) WHERE seq = 1',
    ],
  },
  {
    v: 4,
    statements: [
      'CREATE TABLE spent_approvals (id TEXT PRIMARY KEY, expires_at BIGINT NOT NULL)',
      'CREATE INDEX spent_approvals_expires ON spent_approvals (expires_at)',
    ],
  },
  {
    v: 5,
    statements: [
      `CREATE TABLE api_keys (
        id TEXT PRIMARY KEY, name TEXT NOT NULL, tenant TEXT, scope TEXT NOT NULL, digest TEXT NOT NULL,
        keyed_by TEXT NOT NULL, created_at BIGINT NOT NULL, expires_at BIGINT, last_used_at BIGINT, revoked_at BIGINT)`,
      'CREATE INDEX api_keys_name ON api_keys (name)',
    ],
  },
  {
    v: 6,
    statements: [
      // The records of the built-in authorization server: sessions, grants, codes, refresh tokens, registered clients.
      `CREATE TABLE oauth_records (
        model TEXT NOT NULL, id TEXT NOT NULL, sealed TEXT NOT NULL, grant_id TEXT, uid TEXT, account TEXT,
        created_at BIGINT NOT NULL, consumed_at BIGINT, expires_at BIGINT NOT NULL, PRIMARY KEY (model, id))`,
      'CREATE INDEX oauth_records_expires ON oauth_records (expires_at)',
      'CREATE INDEX oauth_records_grant ON oauth_records (grant_id) WHERE grant_id IS NOT NULL',
      'CREATE INDEX oauth_records_uid ON oauth_records (model, uid) WHERE uid IS NOT NULL',
      'CREATE INDEX oauth_records_account ON oauth_records (account, model, created_at) WHERE account IS NOT NULL',
      `CREATE TABLE oauth_users (
        id TEXT PRIMARY KEY, issuer TEXT, name TEXT NOT NULL, password TEXT, roles TEXT NOT NULL, tenant TEXT,
        created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL, signed_in_at BIGINT)`,
      // Access tokens that were revoked before they expire. `seq` follows the order of the commits.
      `CREATE TABLE oauth_revocations (
        id TEXT PRIMARY KEY, seq BIGINT NOT NULL, revoked_at BIGINT NOT NULL, expires_at BIGINT NOT NULL)`,
      'CREATE INDEX oauth_revocations_seq ON oauth_revocations (seq)',
      'CREATE INDEX oauth_revocations_expires ON oauth_revocations (expires_at)',
    ],
  },
  {
    v: 7,
    statements: [
      `CREATE TABLE pins (
        server TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL,
        hash TEXT NOT NULL, body TEXT NOT NULL, definition TEXT NOT NULL, earlier TEXT NOT NULL,
        seen_hash TEXT, seen_body TEXT, seen_definition TEXT, reason TEXT NOT NULL, flags TEXT NOT NULL,
        first_at BIGINT NOT NULL, changed_at BIGINT, approved_at BIGINT, rev BIGINT NOT NULL,
        PRIMARY KEY (server, kind, name))`,
      'CREATE INDEX pins_rev ON pins (rev)',
    ],
  },
  {
    v: 8,
    statements: [
      // The signed newest record of each chain. `at` is the time of its newest record that is not a checkpoint.
      `CREATE TABLE audit_heads (
        chain TEXT PRIMARY KEY, seq BIGINT NOT NULL, hash TEXT NOT NULL, at BIGINT NOT NULL,
        key TEXT NOT NULL, mac TEXT NOT NULL)`,
      'CREATE INDEX audit_heads_at ON audit_heads (at)',
      'ALTER TABLE audit_trimmed ADD COLUMN key TEXT',
      'ALTER TABLE audit_trimmed ADD COLUMN mac TEXT',
      'ALTER TABLE audit_anchors ADD COLUMN key TEXT',
      'ALTER TABLE audit_anchors ADD COLUMN mac TEXT',
    ],
  },
  {
    v: 9,
    statements: [
      `CREATE TABLE vault (
        id TEXT PRIMARY KEY, caller TEXT NOT NULL, issuer TEXT NOT NULL, resource TEXT NOT NULL, upstream TEXT NOT NULL,
        variant TEXT NOT NULL, secret TEXT NOT NULL, state TEXT NOT NULL, reason TEXT, since BIGINT NOT NULL, expires_at BIGINT,
        retry_at BIGINT, attempts BIGINT NOT NULL, rev BIGINT NOT NULL, created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL, purge_at BIGINT NOT NULL)`,
      'CREATE INDEX vault_caller ON vault (caller, upstream)',
      'CREATE INDEX vault_purge ON vault (purge_at)',
    ],
  },
  {
    v: 10,
    statements: [
      `CREATE TABLE upstream_logins (
        id TEXT PRIMARY KEY, owner TEXT NOT NULL, secret TEXT NOT NULL, expires_at BIGINT NOT NULL)`,
      'CREATE INDEX upstream_logins_owner ON upstream_logins (owner, expires_at)',
      'CREATE INDEX upstream_logins_expires ON upstream_logins (expires_at)',
      `CREATE TABLE upstream_clients (
        id TEXT PRIMARY KEY, issuer TEXT NOT NULL, upstream TEXT NOT NULL, secret TEXT NOT NULL,
        created_at BIGINT NOT NULL)`,
    ],
  },
  {
    v: 11,
    statements: [
      `CREATE TABLE scores (
        evaluator TEXT NOT NULL, upstream TEXT NOT NULL, target TEXT NOT NULL, since BIGINT NOT NULL,
        count BIGINT NOT NULL, total BIGINT NOT NULL, lowest BIGINT NOT NULL, lowest_request TEXT NOT NULL,
        PRIMARY KEY (evaluator, upstream, target, since))`,
      'CREATE INDEX scores_since ON scores (since)',
    ],
  },
  {
    v: 12,
    statements: [
      // A sample of the choices among equivalent servers and agents, with their probabilities and outcomes.
      `CREATE TABLE replica_choices (
        id TEXT PRIMARY KEY, pool TEXT NOT NULL, json TEXT NOT NULL, expires_at BIGINT NOT NULL)`,
      'CREATE INDEX replica_choices_pool ON replica_choices (pool, id)',
      'CREATE INDEX replica_choices_expires ON replica_choices (expires_at)',
    ],
  },
  {
    v: 13,
    statements: [
      // Successful calls after searches. Callers and searches are hashes; `terms` has stems.
      `CREATE TABLE routing_outcomes (
        caller TEXT NOT NULL, query BIGINT NOT NULL, server TEXT NOT NULL, tool TEXT NOT NULL, terms TEXT NOT NULL,
        text TEXT, at BIGINT NOT NULL, rev BIGINT NOT NULL, PRIMARY KEY (caller, query, server, tool))`,
      'CREATE INDEX routing_outcomes_rev ON routing_outcomes (rev)',
      'CREATE INDEX routing_outcomes_at ON routing_outcomes (at)',
    ],
  },
  {
    v: 14,
    // Replicas read the entries that changed since a revision.
    statements: ['CREATE INDEX registry_rev ON registry (kind, rev)'],
  },
  {
    v: 15,
    statements: [
      // The messages of an owner are bounded in number and bytes. Messages of earlier versions have no owner.
      'ALTER TABLE outbox ADD COLUMN owner TEXT',
      'ALTER TABLE outbox ADD COLUMN bytes BIGINT',
      'CREATE INDEX outbox_owner ON outbox (owner, bytes) WHERE owner IS NOT NULL',
      // The used approvals of a caller are bounded in number.
      'ALTER TABLE spent_approvals ADD COLUMN owner TEXT',
      'CREATE INDEX spent_approvals_owner ON spent_approvals (owner) WHERE owner IS NOT NULL',
    ],
  },
  {
    v: 16,
    // A row of the audit trail with several records: their number, and the records. `json` of such a row is empty.
    statements: ['ALTER TABLE audit ADD COLUMN records BIGINT', 'ALTER TABLE audit ADD COLUMN block TEXT'],
  },
];

export interface MigrateOptions {
  steps?: readonly Step[] | undefined;
  /** Called once, before the first step on a database that already has a schema. */
  backup?: (from: number) => Promise<void>;
  /**
   * Opens a connection with a timeout that is long enough for a step over many rows; the normal timeout would end such
   * a step at every attempt. Used on a database that already has a schema.
   */
  openSlow?: () => Promise<Db>;
  /** How long to wait for another replica that migrates. */
  waitMs?: number;
  log?: Log | undefined;
}

/** Migrates the database to the newest step and returns its version. Safe with any number of concurrent replicas. */
export async function migrate(db: Db, options: MigrateOptions = {}): Promise<number> {
  // An unreachable database is an error at once. The migration waits for a lock only.
  await db.q('SELECT 1 AS one');
  const migration = new Migration(db, options);
  try {
    return await migration.run();
  } finally {
    await migration.close();
  }
}

class Migration {
  readonly #db: Db;
  readonly #options: MigrateOptions;
  readonly #deadline: number;
  #slow: Db | undefined;
  #saidWaiting = false;

  constructor(db: Db, options: MigrateOptions) {
    this.#db = db;
    this.#options = options;
    this.#deadline = monotonicMs() + (options.waitMs ?? 60_000);
  }

  async run(): Promise<number> {
    const { steps: wanted = steps, backup, openSlow, log } = this.#options;
    const newest = wanted.at(-1)?.v ?? 0;
    // This statement needs the lock too: concurrent `CREATE TABLE IF NOT EXISTS` statements collide in PostgreSQL's
    // catalog.
    const table = 'CREATE TABLE IF NOT EXISTS schema_version (v INTEGER PRIMARY KEY, at BIGINT NOT NULL)';
    await this.#locked(this.#db, [[table, []]]);
    let saved = false;
    let used: boolean | undefined;
    for (;;) {
      const current = await version(this.#db);
      if (current > newest) {
        throw new StateError(
          'newer',
          `the database is at version ${current}, this Parley knows version ${newest}: start the newer Parley, or restore a backup`,
        );
      }
      const step = wanted.find(({ v }) => v > current);
      if (!step) return current;
      used ??= current > 0;
      if (used) {
        if (!saved) await backup?.(current);
        saved = true;
        log?.info({ from: current, to: step.v }, 'migrating the database');
        this.#slow ??= await openSlow?.();
      }
      const claim: Statement = ['INSERT INTO schema_version (v, at) VALUES ($1, $2)', [step.v, Date.now()]];
      try {
        const statements = step.statements.map((sql): Statement => [sql, []]);
        await this.#locked(this.#slow ?? this.#db, [claim, ...statements]);
      } catch (error) {
        // Another replica made this step while this one waited for the lock.
        if (!isStateError(error, 'constraint') || (await version(this.#db)) < step.v) throw error;
      }
    }
  }

  async #locked(db: Db, statements: readonly Statement[]): Promise<void> {
    const lock = migrationLock(db.dialect);
    for (;;) {
      try {
        await db.tx(lock ? [[lock, []], ...statements] : statements);
        return;
      } catch (error) {
        if (!isStateError(error, 'unavailable') || monotonicMs() > this.#deadline) throw error;
        if (!this.#saidWaiting) {
          const reason = error.message;
          this.#options.log?.info({ reason }, 'waiting for the database: another replica may be migrating it');
        }
        this.#saidWaiting = true;
        await sleep(100 + Math.random() * 200);
      }
    }
  }

  async close(): Promise<void> {
    await this.#slow?.close();
  }
}

async function version(db: Db): Promise<number> {
  const [row] = await db.q<{ v: number | null }>('SELECT MAX(v) AS v FROM schema_version');
  return row?.v ?? 0;
}
