import { ProtocolError } from '../protocol/errors.js';
import type { Notification } from '../protocol/mcp/model.js';
import { Cancellation } from './caller.js';
import { failed, type Outcome } from './gateway.js';
import { type Allowance, TokenBucket } from './token-bucket.js';

/** Limits for the notifications of one call. */
export interface NotificationLimits {
  /** Beyond these limits only the newest progress is kept, and log messages are dropped (LOG-05). */
  readonly events: Allowance;
  readonly bytes: Allowance;
  /** Beyond this limit the call ends, because reading so many messages would starve all other calls (fault 19). */
  readonly flood: Allowance;
}

const NOTIFICATION_LIMITS: NotificationLimits = {
  events: { burst: 1_000, second: 100 },
  bytes: { burst: 32 * 1024 * 1024, second: 4 * 1024 * 1024 },
  flood: { burst: 20_000, second: 1_000 },
};

/**
 * Limits the notifications that a server sends during one call, because the client may read slowly or not at all. There
 * is no queue: the newest progress replaces all earlier progress.
 */
export class NotificationLimiter {
  /** Cancelled when the call is cancelled, and when the server exceeds the flood limit. */
  readonly cancellation = new Cancellation();
  private readonly events: TokenBucket;
  private readonly bytes: TokenBucket;
  private readonly flood: TokenBucket;
  private newest: Notification | undefined;
  private timer: NodeJS.Timeout | undefined;
  private flooded = false;

  constructor(
    call: Cancellation,
    private readonly deliver: (notification: Notification) => void,
    limits: NotificationLimits = NOTIFICATION_LIMITS,
  ) {
    call.onCancel((reason) => {
      this.drop();
      this.cancellation.cancel(reason);
    });
    this.events = new TokenBucket(limits.events);
    this.bytes = new TokenBucket(limits.bytes);
    this.flood = new TokenBucket(limits.flood);
  }

  notify(notification: Notification): void {
    if (this.flooded) return;
    if (!this.flood.take(1)) {
      this.flooded = true;
      this.drop();
      this.cancellation.cancel('The server sent more notifications than one call may have');
      return;
    }
    const progress = notification.method === 'notifications/progress';
    if (this.newest && progress) this.newest = notification;
    else if (this.allows(notification)) this.deliver(notification);
    else if (progress) this.keep(notification);
    // Excess log messages are dropped. Other notifications are rare and always delivered.
    else if (notification.method !== 'notifications/message') this.deliver(notification);
  }

  private allows(notification: Notification): boolean {
    return this.events.take(1) && this.bytes.take(sizeOf(notification));
  }

  private keep(notification: Notification): void {
    this.newest = notification;
    this.timer = setTimeout(() => this.retry(), PAUSE).unref();
  }

  private retry(): void {
    const { newest } = this;
    this.newest = undefined;
    if (!newest) return;
    if (this.allows(newest)) this.deliver(newest);
    else this.keep(newest);
  }

  private drop(): void {
    clearTimeout(this.timer);
    this.newest = undefined;
  }

  /** Called at the end of the call: delivers the waiting progress before the answer. */
  settle(outcome: Outcome): Outcome {
    const { newest } = this;
    this.drop();
    if (newest) this.deliver(newest);
    if (!this.flooded) return outcome;
    return failed(
      new ProtocolError('upstream_error', 'The server sent more notifications than one call may have', {
        outcome: 'unknown',
      }),
    );
  }
}

const PAUSE = 50;

/** An estimate: the text is the only long part of a notification. */
function sizeOf({ params }: Notification): number {
  const text = params['message'] ?? params['data'];
  if (text === undefined) return 1;
  return typeof text === 'string' ? text.length + 1 : JSON.stringify(text).length;
}
