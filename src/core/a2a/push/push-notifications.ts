import { createHash, randomBytes } from 'node:crypto';
import type { Dialect, DialectId } from '../../../protocol/a2a/dialect.js';
import type {
  ListPushConfigsRequest,
  ListPushConfigsResponse,
  PushConfigRequest,
  StreamResponse,
  TaskPushNotificationConfig,
} from '../../../protocol/a2a/model.js';
import { ProtocolError } from '../../../protocol/errors.js';
import type { Caller, CredentialRef } from '../../caller.js';
import { type Seal, SealBroken } from '../../seal.js';
import type { Exchange } from '../agent.js';
import { outwardEvent, outwardTask } from '../tasks/gateway-notes.js';
import {
  type AgentRecords,
  keyOf,
  type NumberedEvent,
  type PushRecord,
  type QueuedNotification,
  type TaskKey,
  type TaskRecord,
} from '../tasks/task-records.js';
import { checkPushConfig } from './push-config-checks.js';

export interface PushNotificationsOptions {
  readonly records: Pick<AgentRecords, 'find' | 'putPush' | 'pushes' | 'removePush' | 'disablePush' | 'countPush'>;
  readonly seal: Seal;
  dialect(id: DialectId): Pick<Dialect, 'writeNotification'>;
  /** Throws if the gateway must not send to this URL. Uses no DNS. */
  checkUrl(url: string): unknown;
  /** Whether the credential that created a configuration was revoked. Notifications for the configuration then end. */
  revoked?(credential: CredentialRef): Promise<boolean>;
  /** The most configurations of one task. */
  readonly limit: number;
  /** Changes or drops an event before it is queued. Undefined if no interceptor needs this. Never rejects. */
  readonly pass?: ((task: TaskKey, event: StreamResponse) => Promise<StreamResponse | undefined>) | undefined;
  /** False if the gateway sends no notifications (S-50). */
  readonly enabled?: boolean;
}

/** A queued notification. Its body is encoded when it is queued, so every attempt sends the same bytes. */
export interface QueuedPush {
  readonly agent: string;
  readonly owner: string;
  readonly task: string;
  readonly config: string;
  /** Distinguishes a configuration from a deleted configuration with the same id. */
  readonly registration: string;
  readonly seq: number;
  readonly contentType: string;
  readonly body: string;
}

/** The destination of a notification and its secrets. */
export interface PushTarget {
  readonly url: string;
  readonly token: string | undefined;
  /** The `Authorization` header. */
  readonly authorization: string | undefined;
  /** The key that signs the request. */
  readonly key: Buffer;
  readonly failures: number;
}

/**
 * The sealed content of a row. It contains the whole configuration, because the URL of the webhook may be a secret too.
 */
interface Sealed {
  readonly config: TaskPushNotificationConfig;
  readonly key: string;
  /** The credential with which the configuration was created. */
  readonly credential?: CredentialRef;
  /**
   * S18: the row that the sealed value belongs to. The encryption authenticates it, so a value that is copied to
   * another row does not open. Rows of earlier versions of the gateway lack this member. For them, the ids in `config`
   * are compared.
   */
  readonly row?: string;
}

/** The lifetime of the seal. The row is deleted with its task, so the seal only has to outlive the task. */
const SEALED_FOR = 10 * 365 * 24 * 60 * 60 * 1000;
const CURSOR_LIFE = 24 * 60 * 60 * 1000;
const MOST_PER_PAGE = 100;

/** Identifies the row of a configuration. */
const rowOf = ({ agent, owner, id: task }: TaskKey, id: string): string => JSON.stringify([agent, owner, task, id]);

const byId = (a: PushRecord, b: PushRecord): number => (a.config.id < b.config.id ? -1 : 1);

/**
 * The push configurations of tasks, and the notifications for them. The client's URL and secrets stay at the gateway:
 * no agent sees them, they are stored sealed, and only their owner reads them.
 */
export class PushNotifications {
  constructor(private readonly options: PushNotificationsOptions) {}

  /** Checks a configuration inside a message: throws `invalid_params` if `create` would refuse it. */
  check(config: TaskPushNotificationConfig): void {
    this.supported();
    checkPushConfig(config, (url) => this.options.checkUrl(url));
  }

  /**
   * Creates a configuration, or replaces the one with the same id. Without an id the configuration gets the id of the
   * task, because in some versions a task has one configuration, and clients replace it by setting it again.
   */
  async create(
    caller: Caller,
    record: TaskKey,
    given: TaskPushNotificationConfig,
    dialect: DialectId,
    _exchange?: Exchange,
  ): Promise<TaskPushNotificationConfig> {
    this.check(given);
    const key = this.owned(caller, record);
    const { records, seal, limit } = this.options;
    const id = given.id || key.id;
    const known = await records.pushes(key);
    const before = known.find(({ config }) => config.id === id);
    if (!before && known.length >= limit)
      throw new ProtocolError(
        'invalid_params',
        `A task may have at most ${limit} push configurations; delete one first`,
        {
          outcome: 'not_executed',
        },
      );
    const config = { ...given, id, taskId: key.id };
    const { credential } = caller.principal;
    const sealed: Sealed = {
      config,
      key: randomBytes(32).toString('base64'),
      row: rowOf(key, id),
      ...(credential && { credential }),
    };
    const registration = before ? registrationOf(before) : randomBytes(12).toString('base64url');
    await records.putPush({
      key,
      config: { id, taskId: key.id, url: new URL(given.url).origin, registration },
      dialect,
      secret: seal.close('push', key.owner, sealed, SEALED_FOR),
      failures: 0,
      disabled: false,
    });
    return config;
  }

  async get(caller: Caller, record: TaskKey, { id }: PushConfigRequest): Promise<TaskPushNotificationConfig> {
    this.supported();
    const key = this.owned(caller, record);
    const known = await this.options.records.pushes(key);
    // Clients of versions before 1.0 omit the id. They mean the configuration that was created without an id, otherwise
    // the first one.
    const found = id ? known.find(({ config }) => config.id === id) : (known.find(isUnnamed) ?? known[0]);
    const opened = found && this.open(found);
    // A missing configuration is a TaskNotFoundError in every version.
    if (!opened) throw new ProtocolError('task_not_found', 'Task not found: it has no such push configuration');
    return opened.config;
  }

  async list(caller: Caller, record: TaskKey, request: ListPushConfigsRequest): Promise<ListPushConfigsResponse> {
    this.supported();
    const key = this.owned(caller, record);
    const { pageSize = 0, pageToken = '' } = request;
    if (!Number.isInteger(pageSize) || pageSize < 0)
      throw new ProtocolError('invalid_params', 'pageSize must be a whole number, 0 or more');
    const size = pageSize === 0 ? MOST_PER_PAGE : Math.min(pageSize, MOST_PER_PAGE);
    const after = this.readCursor(key, pageToken);
    const rest = (await this.options.records.pushes(key)).sort(byId).filter(({ config }) => config.id > after);
    const page = rest.slice(0, size);
    const last = page.at(-1);
    return {
      configs: page.flatMap((push) => this.open(push)?.config ?? []),
      nextPageToken: last && rest.length > size ? this.writeCursor(key, last.config.id) : '',
    };
  }

  /**
   * Removes a configuration. Idempotent (S-51). Notifications that are still queued for the configuration are not
   * delivered.
   */
  async remove(caller: Caller, record: TaskKey, { id }: PushConfigRequest): Promise<void> {
    this.supported();
    const key = this.owned(caller, record);
    if (!id) throw new ProtocolError('invalid_params', 'The id of the push configuration is missing');
    await this.options.records.removePush(key, id);
  }

  /**
   * The notifications for new events of a task, to be queued in the same write as the change. Each has the dialect of
   * its configuration (S-54). A dialect that sends snapshots gets one notification with the newest snapshot.
   */
  async notifications(record: TaskRecord, events: readonly NumberedEvent[]): Promise<QueuedNotification[]> {
    if (this.options.enabled === false || events.length === 0) return [];
    const queued: QueuedNotification[] = [];
    const pushes = (await this.options.records.pushes(keyOf(record))).filter(({ disabled }) => !disabled);
    if (pushes.length === 0) return [];
    const task = (await this.passed(record, { task: outwardTask(record.task) }))?.task;
    // If the task was dropped, no dialect can write a notification about the task.
    if (!task) return [];
    const shown: NumberedEvent[] = [];
    for (const { seq, event } of events) {
      const passed = await this.passed(record, outwardEvent(event));
      if (passed) shown.push({ seq, event: passed });
    }
    for (const push of pushes) {
      const registration = registrationOf(push);
      const lane = laneOf(record, push.config.id, registration);
      const writer = this.options.dialect(push.dialect);
      for (const { seq, event } of shown) {
        const { body, contentType } = writer.writeNotification(event, task);
        const value: QueuedPush = {
          agent: record.agent,
          owner: record.owner,
          task: record.id,
          config: push.config.id,
          registration,
          seq,
          contentType,
          body: JSON.stringify(body),
        };
        // The id sorts by event number within its lane. A change that is written twice has the same id, so the webhook
        // gets it once.
        queued.push({ id: `${lane}.${String(seq).padStart(12, '0')}`, lane, target: push.config.url, value });
      }
    }
    return queued;
  }

  private async passed(record: TaskKey, event: StreamResponse): Promise<StreamResponse | undefined> {
    return this.options.pass ? this.options.pass(keyOf(record), event) : event;
  }

  /**
   * The destination of a notification, or why it must not be delivered. Called before every attempt, so that nothing is
   * delivered after a delete or a revocation.
   */
  async target(push: QueuedPush): Promise<PushTarget | 'deleted' | 'disabled' | 'expired' | 'revoked'> {
    const found = await this.find(push);
    if (!found) return (await this.options.records.find(taskOf(push))) ? 'deleted' : 'expired';
    if (found.disabled) return 'disabled';
    const opened = this.open(found);
    if (!opened) return 'disabled';
    if (opened.credential && (await this.options.revoked?.(opened.credential))) return 'revoked';
    const { url, token, authentication } = opened.config;
    const { scheme, credentials } = authentication ?? {};
    return {
      url,
      token: token || undefined,
      authorization: scheme && credentials ? `${scheme} ${credentials}` : undefined,
      // The client's own token is the key. Without a token the gateway uses a generated key.
      key: token ? Buffer.from(token) : Buffer.from(opened.key, 'base64'),
      failures: found.failures,
    };
  }

  /** Counts an attempt to deliver a notification. */
  async attempted(push: QueuedPush, delivered: boolean): Promise<void> {
    await this.options.records.countPush(taskOf(push), push.config, delivered);
  }

  /** Disables a configuration whose webhook does not answer any more, or enables it again. */
  async disable(push: QueuedPush, disabled = true): Promise<void> {
    const found = await this.find(push);
    if (!found || found.disabled === disabled) return;
    await this.options.records.disablePush(found, disabled);
  }

  private async find(push: QueuedPush): Promise<PushRecord | undefined> {
    const known = await this.options.records.pushes(taskOf(push));
    return known.find((found) => found.config.id === push.config && registrationOf(found) === push.registration);
  }

  private open({ key, config: { id }, secret }: PushRecord): Sealed | undefined {
    try {
      const opened = this.options.seal.open('push', key.owner, secret) as Sealed;
      const { config, row } = opened;
      const belongs = row === undefined ? config.id === id && config.taskId === key.id : row === rowOf(key, id);
      return belongs ? opened : undefined;
    } catch (error) {
      // The key of the seal was removed, so the configuration can no longer be read.
      if (error instanceof SealBroken) return undefined;
      throw error;
    }
  }

  private supported(): void {
    if (this.options.enabled === false)
      throw new ProtocolError('push_not_supported', 'Push notifications are disabled on this gateway', {
        outcome: 'not_executed',
      });
  }

  private owned(caller: Caller, record: TaskKey): TaskKey {
    if (record.id === '' || caller.principal.key !== record.owner)
      throw new ProtocolError('task_not_found', 'Task not found');
    return keyOf(record);
  }

  private writeCursor(key: TaskKey, after: string): string {
    return this.options.seal.close('cursor', key.owner, ['push', key.agent, key.id, after], CURSOR_LIFE);
  }

  private readCursor(key: TaskKey, token: string): string {
    if (token === '') return '';
    try {
      const place = this.options.seal.open('cursor', key.owner, token);
      if (Array.isArray(place) && place[0] === 'push' && place[1] === key.agent && place[2] === key.id)
        return String(place[3]);
    } catch (error) {
      if (!(error instanceof SealBroken)) throw error;
    }
    throw new ProtocolError('invalid_params', 'The pageToken does not belong to this list, or has expired');
  }
}

const isUnnamed = ({ key, config }: PushRecord): boolean => config.id === key.id;
const registrationOf = ({ config }: PushRecord): string => String(config['registration'] ?? '');
const taskOf = ({ agent, owner, task }: QueuedPush): TaskKey => ({ agent, owner, id: task });

/**
 * The lane of notifications. Notifications in one lane keep their order, and each pair of task and configuration has
 * one lane. Receivers see the lane, so it is a digest.
 */
function laneOf({ agent, owner, id }: TaskKey, config: string, registration: string): string {
  const names = JSON.stringify([agent, owner, id, config, registration]);
  return createHash('sha256').update(names).digest('base64url').slice(0, 24);
}

/** The same records, but `queued` is called after each change that queues a notification. */
export function withPushSignal(records: AgentRecords, queued: () => void): AgentRecords {
  return {
    ...records,
    save: async (change) => {
      const saved = await records.save(change);
      if (saved && change.notifications.length > 0) queued();
      return saved;
    },
  };
}
