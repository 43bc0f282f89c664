/** The real parts that push notifications pass through, on a real database, and a receiver that can misbehave. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { agentRecords } from '../../src/app/a2a-records.js';
import { PushNotifications, type QueuedPush } from '../../src/core/a2a/push/push-notifications.js';
import type { AgentRecords, TaskKey, TaskRecord } from '../../src/core/a2a/tasks/task-records.js';
import type { Caller } from '../../src/core/caller.js';
import { GATEWAY, principalOf } from '../../src/core/caller.js';
import { Seal } from '../../src/core/seal.js';
import { sleep } from '../../src/core/timing.js';
import { Egress, type EgressSettings, type LookupAll } from '../../src/outbound/egress.js';
import { HttpClient } from '../../src/outbound/http/index.js';
import { DeadLetters } from '../../src/outbound/webhooks/dead-letters.js';
import type { Signing } from '../../src/outbound/webhooks/headers-and-signature.js';
import { type WebhookLimits, WebhookSender } from '../../src/outbound/webhooks/sender.js';
import type { DialectId } from '../../src/protocol/a2a/dialect.js';
import { dialect } from '../../src/protocol/a2a/index.js';
import type { StreamResponse, TaskPushNotificationConfig, TaskState } from '../../src/protocol/a2a/model.js';
import { Outbox, openState, type State, type StateOptions } from '../../src/state/index.js';
import type { OutboxOptions } from '../../src/state/stores/webhook-outbox.js';
import { SILENT } from '../../src/telemetry/log.js';

export { sleep };

export async function until(what: string, holds: () => boolean | Promise<boolean>, ms = 20_000): Promise<void> {
  const end = Date.now() + ms;
  while (!(await holds())) {
    if (Date.now() > end) throw new Error(`never: ${what}`);
    await sleep(10);
  }
}

export interface Delivered {
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
  readonly at: number;
}

export type Behaviour = (req: IncomingMessage, res: ServerResponse) => void;
export const ok: Behaviour = (_, res) => res.writeHead(204).end();
export const status =
  (code: number, headers: Record<string, string> = {}): Behaviour =>
  (_, res) =>
    res.writeHead(code, headers).end('no');

/** Listens on this machine and records every request, whatever it answers. */
export class Receiver {
  readonly got: Delivered[] = [];
  connections = 0;
  behave: Behaviour = ok;
  private readonly server: Server;
  private readonly sockets = new Set<Socket>();

  private constructor() {
    this.server = createServer((req, res) => {
      const chunks: Buffer[] = [];
      req.on('data', (chunk: Buffer) => chunks.push(chunk));
      req.on('end', () => {
        const body = Buffer.concat(chunks).toString();
        this.got.push({ path: req.url ?? '', headers: req.headers, body, at: Date.now() });
        this.behave(req, res);
      });
    });
    this.server.on('connection', (socket) => {
      this.connections += 1;
      this.sockets.add(socket.on('close', () => this.sockets.delete(socket)));
    });
  }

  static async start(behave: Behaviour = ok): Promise<Receiver> {
    const receiver = new Receiver();
    receiver.behave = behave;
    await new Promise<void>((resolve) => receiver.server.listen(0, '127.0.0.1', resolve));
    return receiver;
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  url(path = '/hook'): string {
    return `http://127.0.0.1:${this.port}${path}`;
  }

  get open(): number {
    return this.sockets.size;
  }

  /** The ids of notifications in the order of their first arrival. */
  ids(path?: string): string[] {
    return [...new Set(this.got.filter((one) => !path || one.path === path).map(idOf))];
  }

  async stop(): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    await new Promise((resolve) => this.server.close(resolve));
  }
}

export const idOf = ({ headers }: Delivered): string => String(headers['webhook-id']);

export const ALICE: Caller = { ...GATEWAY, principal: principalOf({ subject: 'alice' }) };
export const AGENT = 'planner';

export interface RigOptions {
  state: StateOptions;
  outbox?: OutboxOptions;
  sender?: WebhookLimits;
  egress?: EgressSettings;
  lookup?: LookupAll;
  signing?: Signing;
}

export class Rig {
  readonly outbox: Outbox<QueuedPush>;
  readonly records: AgentRecords;
  readonly seal: Seal;
  readonly pushes: PushNotifications;
  readonly sender: WebhookSender;
  readonly letters: DeadLetters;
  readonly logged: string[] = [];
  private readonly client: HttpClient;

  private constructor(
    readonly state: State,
    { outbox, sender, egress: settings, lookup, signing }: RigOptions,
  ) {
    // The schedule divided by a thousand: 5 ms, 30 ms, 120 ms, 600 ms …
    this.outbox = new Outbox<QueuedPush>(state.db, { random: () => 0.001, ...outbox });
    this.records = agentRecords(state, { taskTtl: 3_600_000, shared: false });
    this.seal = new Seal(state.keyring);
    const egress = new Egress(settings ?? { allowPrivate: true, ports: [] }, ...(lookup ? [lookup] : []));
    const { records, seal } = this;
    this.pushes = new PushNotifications({ records, seal, dialect, checkUrl: (url) => egress.checkUrl(url), limit: 20 });
    this.client = new HttpClient({ connectTimeout: 5_000, egress });
    this.sender = new WebhookSender(
      {
        outbox: this.outbox,
        pushes: this.pushes,
        client: this.client,
        ...(signing && { signing }),
        log: { ...SILENT, warn: (fields, message) => this.logged.push(`${JSON.stringify(fields)} ${message}`) },
      },
      { pollMs: 10, ...sender },
    );
    this.letters = new DeadLetters(this.outbox, this.pushes, () => this.sender.nudge());
  }

  static async open(options: RigOptions): Promise<Rig> {
    return new Rig(await openState({ sweepMs: 0, ...options.state }), options);
  }

  async close(): Promise<void> {
    await this.sender.close();
    await this.client.close();
    await this.state.close();
  }

  /** Creates a running task with a push configuration. */
  async task(id: string, config: TaskPushNotificationConfig, as: DialectId = '1.0'): Promise<TaskKey> {
    const key: TaskKey = { agent: AGENT, owner: ALICE.principal.key, id };
    const now = Date.now();
    const task = { id, contextId: `${id}-context`, status: { state: 'TASK_STATE_SUBMITTED' as const } };
    const record: TaskRecord = {
      ...{ ...key, upstreamId: id, contextId: task.contextId, task, seq: 1, dialect: as },
      ...{ createdAt: now, updatedAt: now },
    };
    await this.records.save({
      ...{ record, after: 0, events: [{ seq: 1, event: { task } }], notifications: [], followedUntil: null },
    });
    await this.pushes.create(ALICE, key, config, as);
    return key;
  }

  /** Updates the task and queues its notifications in the same write. Returns the ids of the notifications. */
  async news(key: TaskKey, text: string, state: TaskState = 'TASK_STATE_WORKING'): Promise<string[]> {
    const before = (await this.records.find(key))!;
    const seq = before.seq + 1;
    const status = {
      state,
      message: { messageId: `${key.id}-${seq}`, role: 'ROLE_AGENT' as const, parts: [{ text }] },
    };
    const event: StreamResponse = { statusUpdate: { taskId: key.id, contextId: before.contextId, status } };
    const record = { ...before, seq, task: { ...before.task, status }, updatedAt: Date.now() };
    const events = [{ seq, event }];
    const notifications = await this.pushes.notifications(record, events);
    const saved = await this.records.save({ record, after: before.seq, events, notifications, followedUntil: null });
    if (!saved) throw new Error('another writer changed the task');
    return notifications.map(({ id }) => id);
  }

  async empty(): Promise<boolean> {
    return (await this.outbox.depth()).waiting === 0;
  }
}
