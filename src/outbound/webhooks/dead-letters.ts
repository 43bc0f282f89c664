import type { PushNotifications, QueuedPush } from '../../core/a2a/push/push-notifications.js';
import type { DeadLetter, Outbox } from '../../state/index.js';

/** A notification that was given up. Neither its content nor where exactly it should have gone is told. */
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
  /** Ask for what comes after this; undefined where nothing does. */
  readonly next: string | undefined;
}

const LOOK_AT = 200;

/** What could not be delivered, to be seen and to be tried again. */
export class DeadLetters {
  constructor(
    private readonly outbox: Pick<Outbox<QueuedPush>, 'dead' | 'replay' | 'depth'>,
    private readonly pushes: Pick<PushNotifications, 'disable'>,
    private readonly queued: () => void = () => {},
  ) {}

  /** Those of one owner, or of everybody. */
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

  /** Queues it again under its old id, and its configuration is used again. False where there is no such letter. */
  async replay(id: string, owner?: string): Promise<boolean> {
    const letter = await this.find(id);
    if (!letter || (owner !== undefined && letter.value.owner !== owner)) return false;
    await this.pushes.disable(letter.value, false);
    const replayed = await this.outbox.replay(id);
    if (replayed) this.queued();
    return replayed;
  }

  /** How many wait, how many were given up, and since when the oldest waits. */
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
