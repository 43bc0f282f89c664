import { ProtocolError } from '../protocol/errors.js';
import type { Notification } from '../protocol/mcp/model.js';
import { Cancellation } from './caller.js';
import { failed, type Outcome } from './gateway.js';
import { type Allowance, TokenBucket } from './token-bucket.js';

/** What one call may bring beside its answer. */
export interface NotificationLimits {
  /** Beyond these, progress is thinned out to the newest and log lines are left out (LOG-05). */
  readonly events: Allowance;
  readonly bytes: Allowance;
  /** Beyond this the call is ended: whoever reads so much has no time for anybody else (fault 19). */
  readonly flood: Allowance;
}

const NOTIFICATION_LIMITS: NotificationLimits = {
  events: { burst: 1_000, second: 100 },
  bytes: { burst: 32 * 1024 * 1024, second: 4 * 1024 * 1024 },
  flood: { burst: 20_000, second: 1_000 },
};

/**
 * What a server says while it works on one call, on its way to a caller that may be slower than the server, or does not
 * read at all. Nothing of it waits in a queue: the newest progress says what all before it said.
 */
export class NotificationLimiter {
  /** Cancelled with the call, and when the server floods it. */
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
      this.cancellation.cancel('The server sends more than one call may bring');
      return;
    }
    const progress = notification.method === 'notifications/progress';
    if (this.newest && progress) this.newest = notification;
    else if (this.allows(notification)) this.deliver(notification);
    else if (progress) this.keep(notification);
    // Log lines that are too many are left out; anything else is rare, and told.
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

  /** The call came to its end: what still waits goes ahead of the answer. */
  settle(outcome: Outcome): Outcome {
    const { newest } = this;
    this.drop();
    if (newest) this.deliver(newest);
    if (!this.flooded) return outcome;
    return failed(
      new ProtocolError('upstream_error', 'The server sent more messages than one call may bring', {
        outcome: 'unknown',
      }),
    );
  }
}

const PAUSE = 50;

/** About; what is long in a notification is its text. */
function sizeOf({ params }: Notification): number {
  const text = params['message'] ?? params['data'];
  if (text === undefined) return 1;
  return typeof text === 'string' ? text.length + 1 : JSON.stringify(text).length;
}
