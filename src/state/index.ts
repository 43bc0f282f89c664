import { join } from 'node:path';
import type { Log } from '../telemetry/log.js';
import type { Bus } from './bus.js';
import { monotonicMs } from './clock.js';
import { Counters } from './counters.js';
import type { Db } from './db.js';
import { Envelope } from './envelope-encryption.js';
import { StateError } from './errors.js';
import { ConfiguredKeyring, FileKeyring, type Keyring, type KeySetting } from './keyring.js';
import { openDb } from './open-db.js';
import { SqlBus } from './sql-bus.js';
import { AgentPushes } from './stores/agent-pushes.js';
import { AgentTasks } from './stores/agent-tasks.js';
import { ApiKeys } from './stores/api-keys.js';
import { Audit, type AuditOptions } from './stores/audit.js';
import { Verdicts } from './stores/era-verdicts.js';
import { Scores } from './stores/evaluation-scores.js';
import { Sessions } from './stores/legacy-sessions.js';
import { Tasks } from './stores/mcp-tasks.js';
import { OAuthRecords } from './stores/oauth-records.js';
import { OAuthRevocations } from './stores/oauth-revocations.js';
import { OAuthUsers } from './stores/oauth-users.js';
import { ParkedCallRows } from './stores/parked-calls.js';
import { Pins } from './stores/pins.js';
import { Registry } from './stores/registry.js';
import { ReplicaChoices } from './stores/replica-choices.js';
import { RoutingOutcomes } from './stores/routing-outcomes.js';
import { SpentApprovals } from './stores/spent-approvals.js';
import { UpstreamClients } from './stores/upstream-clients.js';
import { UpstreamLogins } from './stores/upstream-logins.js';
import { VaultRows } from './stores/vault.js';
import { Outbox } from './stores/webhook-outbox.js';
import { Sweeper } from './sweeper.js';

export { type AppendOptions, type Bus, START, type StreamEvent } from './bus.js';
export { wallMs } from './clock.js';
export type { Db, Dialect, Row, Statement, Value } from './db.js';
export { isStateError, type Outcome, StateError, type StateErrorCode } from './errors.js';
export { newId } from './ids.js';
export { FileKeyring, type Key, type Keyring, type KeySetting } from './keyring.js';
export { type AgentPush, AgentPushes } from './stores/agent-pushes.js';
export { type AgentTask, type AgentTaskKey, AgentTasks } from './stores/agent-tasks.js';
export { type ApiKey, ApiKeys, type StoredApiKey } from './stores/api-keys.js';
export { Audit, type StoredAuditRecord } from './stores/audit.js';
export type { AuditRange } from './stores/audit-rows.js';
export type { SignedPlace } from './stores/audit-signatures.js';
export type { Verification } from './stores/audit-verifier.js';
export { type Change, type Document, Documents, type NewDocument } from './stores/documents.js';
export { type Verdict, Verdicts } from './stores/era-verdicts.js';
export { type ScoreRow, Scores } from './stores/evaluation-scores.js';
export { Sessions } from './stores/legacy-sessions.js';
export { Tasks } from './stores/mcp-tasks.js';
export { type OAuthRecord, OAuthRecords, type StoredOAuthRecord } from './stores/oauth-records.js';
export { OAuthRevocations, type Revocation } from './stores/oauth-revocations.js';
export { type OAuthUser, OAuthUsers } from './stores/oauth-users.js';
export { ParkedCallRows } from './stores/parked-calls.js';
export { type PinDetail, Pins } from './stores/pins.js';
export { Registry, type RegistryRow } from './stores/registry.js';
export { RegistryCopy } from './stores/registry-copy.js';
export { ReplicaChoices } from './stores/replica-choices.js';
export { RoutingOutcomes } from './stores/routing-outcomes.js';
export { SpentApprovals } from './stores/spent-approvals.js';
export { type UpstreamClientKey, UpstreamClients } from './stores/upstream-clients.js';
export { UpstreamLogins } from './stores/upstream-logins.js';
export {
  type NewStatus,
  type VaultEntry,
  type VaultKey,
  type VaultRow,
  VaultRows,
  type VaultState,
} from './stores/vault.js';
export {
  type Claimed,
  type DeadLetter,
  type Dropped,
  type Message,
  messageStatement,
  Outbox,
} from './stores/webhook-outbox.js';

export interface StateOptions {
  /** The folder for local files: the embedded database and the generated keyring. */
  data: string;
  /** postgres://… for replicas that share one database; default: embedded SQLite in `data`. */
  db?: string;
  /**
   * postgres://… of the server itself, if `db` is the address of a pooler in transaction mode such as PgBouncer.
   * Notifications, leases and migrations need a connection that stays the same.
   */
  directDb?: string;
  /** redis://… or redis+cluster://… for events, leases and counters; default: the database. */
  bus?: string;
  /** The keys with which all replicas seal; required with `db`, otherwise generated in `data`. */
  keys?: readonly KeySetting[];
  log?: Log;
  audit?: AuditOptions;
  /** Polling interval in addition to wake-ups, for tests. */
  pollMs?: number;
  /** Interval between removals of expired rows; 0: never. */
  sweepMs?: number;
  /** How long audit records and dead deliveries are kept; default: forever. */
  retention?: { auditMs?: number; deadDeliveriesMs?: number };
}

export interface PartHealth {
  ok: boolean;
  /** The time until the answer or the failure, in milliseconds. */
  ms: number;
  error?: string;
}

export interface Health {
  ok: boolean;
  db: PartHealth;
  bus: PartHealth;
}

export interface State {
  readonly db: Db;
  readonly bus: Bus;
  readonly keyring: Keyring;
  readonly verdicts: Verdicts;
  readonly scores: Scores;
  readonly registry: Registry;
  readonly pins: Pins;
  readonly sessions: Sessions;
  readonly parked: ParkedCallRows;
  readonly tasks: Tasks;
  readonly spentApprovals: SpentApprovals;
  readonly outbox: Outbox;
  readonly agentTasks: AgentTasks;
  readonly agentPushes: AgentPushes;
  readonly apiKeys: ApiKeys;
  readonly audit: Audit;
  readonly oauthRecords: OAuthRecords;
  readonly oauthRevocations: OAuthRevocations;
  readonly oauthUsers: OAuthUsers;
  readonly vault: VaultRows;
  readonly upstreamLogins: UpstreamLogins;
  readonly upstreamClients: UpstreamClients;
  readonly replicaChoices: ReplicaChoices;
  readonly routingOutcomes: RoutingOutcomes;
  /** Queries the database and the bus; their own timeouts apply. */
  health(): Promise<Health>;
  close(): Promise<void>;
}

const KEYRING_FILE = 'keyring.json';
/** Polling interval for writes of other processes that share the data folder. */
const EMBEDDED_POLL_MS = 500;
const SWEEP_MS = 60_000;
/** Interval at which each replica names the heads of the audit chains of the others. */
const CHECKPOINT_MS = 60_000;
/** Short timeouts, so that a lease can be renewed in several attempts before it expires. */
const LEASE_CONNECTIONS = { max: 2, connectTimeoutMs: 1_000, queryTimeoutMs: 1_000, clock: false };

export async function openState(options: StateOptions): Promise<State> {
  check(options);
  const keyring = options.keys
    ? new ConfiguredKeyring(options.keys)
    : await FileKeyring.open(join(options.data, KEYRING_FILE));
  const db = await openDb(options);
  let bus: Bus;
  try {
    bus = await openBus(options, db);
  } catch (error) {
    await db.close();
    throw error;
  }
  return assemble(db, bus, keyring, options);
}

function check({ db, directDb, bus, keys }: StateOptions): void {
  if (directDb !== undefined && db === undefined) {
    throw new StateError('config', 'state.directDb is the server behind the pooler of state.db: set state.db too');
  }
  if (db !== undefined && !/^postgres(?:ql)?:\/\//.test(db)) {
    throw new StateError('config', 'state.db must be a postgres:// URL');
  }
  if (bus !== undefined && !/^rediss?(?:\+cluster)?:\/\//.test(bus)) {
    throw new StateError(
      'config',
      'state.bus must be a redis://, rediss://, redis+cluster:// or rediss+cluster:// address',
    );
  }
  if (bus !== undefined && db === undefined) {
    throw new StateError('config', 'replicas with a Redis bus also need a shared database: set state.db');
  }
  if (db !== undefined && keys === undefined) {
    throw new StateError(
      'config',
      'replicas open values that other replicas sealed: set the same state.keys on all of them (openssl rand -base64 32)',
    );
  }
}

async function openBus({ db: pooled, directDb, bus, pollMs }: StateOptions, db: Db): Promise<Bus> {
  const poll = pollMs === undefined ? {} : { pollMs };
  const url = directDb ?? pooled;
  if (bus !== undefined) {
    const { RedisBus } = await import('./redis/bus.js');
    return RedisBus.open(bus, poll);
  }
  if (url !== undefined) {
    const [{ PostgresHints }, { PostgresDb }] = await Promise.all([
      import('./postgres/listen-notify.js'),
      import('./postgres/postgres.js'),
    ]);
    const leases = await PostgresDb.open(url, LEASE_CONNECTIONS);
    return new SqlBus(db, { ...poll, leases, hints: new PostgresHints(url, db) });
  }
  return new SqlBus(db, {
    pollMs: pollMs ?? EMBEDDED_POLL_MS,
    counters: new Counters(),
    changed: otherProcessWrote(db),
  });
}

/** `data_version` changes if another connection commits. Commits of this connection are announced directly. */
function otherProcessWrote(db: Db): () => Promise<boolean> {
  let seen: number | undefined;
  return async () => {
    const [row] = await db.q<{ data_version: number }>('PRAGMA data_version');
    const changed = row?.data_version !== seen;
    seen = row?.data_version;
    return changed;
  };
}

function assemble(db: Db, bus: Bus, keyring: Keyring, options: StateOptions): State {
  const { pollMs, retention = {}, sweepMs = SWEEP_MS, log } = options;
  const { auditMs, deadDeliveriesMs } = retention;
  const envelope = new Envelope(keyring);
  // Processes that share an embedded database send each other no hints. They poll for changes, so a change is in effect
  // within a second.
  const registryPollMs = pollMs ?? (options.db === undefined ? EMBEDDED_POLL_MS : undefined);
  const stores = {
    verdicts: new Verdicts(db),
    scores: new Scores(db),
    registry: new Registry(db, bus, { envelope, log, ...(registryPollMs !== undefined && { pollMs: registryPollMs }) }),
    pins: new Pins(db, bus, pollMs === undefined ? {} : { pollMs }),
    sessions: new Sessions(db),
    parked: new ParkedCallRows(db),
    tasks: new Tasks(db),
    spentApprovals: new SpentApprovals(db),
    outbox: new Outbox(db, deadDeliveriesMs === undefined ? {} : { keepDeadMs: deadDeliveriesMs }),
    agentTasks: new AgentTasks(db),
    agentPushes: new AgentPushes(db),
    oauthRecords: new OAuthRecords(db),
    oauthRevocations: new OAuthRevocations(db),
    oauthUsers: new OAuthUsers(db),
    apiKeys: new ApiKeys(db),
    audit: new Audit(db, keyring, {
      checkpointMs: CHECKPOINT_MS,
      ...options.audit,
      ...(auditMs !== undefined && { keepMs: auditMs }),
    }),
    vault: new VaultRows(db, envelope),
    upstreamLogins: new UpstreamLogins(db, envelope),
    upstreamClients: new UpstreamClients(db, envelope),
    replicaChoices: new ReplicaChoices(db),
    routingOutcomes: new RoutingOutcomes(db, bus, pollMs === undefined ? {} : { pollMs }),
  };
  const { sessions, parked, tasks, spentApprovals, agentTasks, verdicts, outbox, audit } = stores;
  const { oauthRecords, oauthRevocations, vault, upstreamLogins, replicaChoices, scores, routingOutcomes } = stores;
  const expiring = [
    ...[sessions, parked, tasks, spentApprovals, agentTasks, verdicts, outbox, audit],
    ...[oauthRecords, oauthRevocations, vault, upstreamLogins, replicaChoices, scores, routingOutcomes],
  ];
  const all = bus instanceof SqlBus ? [...expiring, ...bus.expiring] : expiring;
  const sweeper = sweepMs > 0 ? new Sweeper({ bus, stores: all, everyMs: sweepMs, log }) : undefined;

  let closed: Promise<void> | undefined;
  const close = async (): Promise<void> => {
    await sweeper?.close();
    await stores.audit.close();
    await bus.close();
    await db.close();
  };
  return {
    db,
    bus,
    keyring,
    ...stores,
    health: async () => {
      const [dbHealth, busHealth] = await Promise.all([ask(() => db.q('SELECT 1 AS one')), ask(() => bus.ping())]);
      return { ok: dbHealth.ok && busHealth.ok, db: dbHealth, bus: busHealth };
    },
    close: () => {
      closed ??= close();
      return closed;
    },
  };
}

async function ask(question: () => Promise<unknown>): Promise<PartHealth> {
  const began = monotonicMs();
  try {
    await question();
    return { ok: true, ms: monotonicMs() - began };
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return { ok: false, ms: monotonicMs() - began, error: message };
  }
}
