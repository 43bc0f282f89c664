import type { PushNotifications, QueuedPush } from '../../core/a2a/push/push-notifications.js';
import type { DeadLetter, Outbox } from '../../state/index.js';

/** A notification that could not be delivered. Its content and its full URL are not included. */
export interface LostNotification {
  readonly id: string;
  readonly agent: string;
  readonly owner: string;
  readonly task: string;
  readonly config: string;
  readonly seq: number;
  /** The receiver's origin. */
  readonly target: string;
  readonly attempts: number;
  readonly createdAt: number;
  readonly error: string | null;
}

export interface LostPage {
  readonly notifications: LostNotification[];
  /** The cursor of the next page; undefined on the last page. */
  readonly next: string | undefined;
}

const LOOK_AT = 200;

/** Undelivered notifications: lists them and queues them again. */
export class DeadLetters {
  constructor(
    private readonly outbox: Pick<Outbox<QueuedPush>, 'dead' | 'replay' | 'depth'>,
    private readonly pushes: Pick<PushNotifications, 'disable'>,
    private readonly queued: () => void = () => {},
  ) {}

  /** The undelivered notifications of one owner, or of all owners. */
  async deadLetters(owner?: string, page: { after?: string; limit?: number } = {}): Promise<LostPage> {
    const limit = Math.min(Math.max(page.limit ?? 100, 1), 1_000);
    const notifications: LostNotification[] = [];
    let after = page.after ?? '';
    for (;;) {
      const found = await this.outbox.dead({ after, limit: LOOK_AT });
      for (const letter of found) {
        if (owner !== undefined && letter.value.owner !== owner) continue;
        if (notifications.length === limit) return { notifications, next: notifications.at(-1)!.id };
        notifications.push(shown(letter));
      }
      const last = found.at(-1);
      if (!last || found.length < LOOK_AT) return { notifications, next: undefined };
      after = last.id;
    }
  }

  /** Queues a notification again under its old id and enables its configuration. Returns false if the id is unknown. */
  async replay(id: string, owner?: string): Promise<boolean> {
    const letter = await this.find(id);
    if (!letter || (owner !== undefined && letter.value.owner !== owner)) return false;
    await this.pushes.disable(letter.value, false);
    const replayed = await this.outbox.replay(id);
    if (replayed) this.queued();
    return replayed;
  }

  /** Number of queued and of undelivered notifications, and the time since when the oldest is queued. */
  depth(): Promise<{ waiting: number; dead: number; oldestAt: number | null }> {
    return this.outbox.depth();
  }

  private async find(id: string): Promise<DeadLetter<QueuedPush> | undefined> {
    const [letter] = await this.outbox.dead({ id });
    return letter;
  }
}

function shown({ id, target, attempts, createdAt, error, value }: DeadLetter<QueuedPush>): LostNotification {
  const { agent, owner, task, config, seq } = value;
  return { id, agent, owner, task, config, seq, target, attempts, createdAt, error };
}
