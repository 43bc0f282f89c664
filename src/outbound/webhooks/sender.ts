import type { PushNotifications, PushTarget, QueuedPush } from '../../core/a2a/push/push-notifications.js';
import { Cancellation } from '../../core/caller.js';
import { sleep } from '../../core/timing.js';
import { retryAfterMs } from '../../protocol/http/retry-after.js';
import type { Claimed, Outbox } from '../../state/index.js';
import type { Log } from '../../telemetry/log.js';
import type { HttpClient } from '../http/index.js';
import { notificationHeaders, type Signing } from './headers-and-signature.js';
import { type HostLimits, Hosts } from './host-limits.js';
import { type Post, post } from './post.js';

export interface WebhookSenderOptions {
  readonly outbox: Pick<Outbox<QueuedPush>, 'claim' | 'ack' | 'fail' | 'giveUp' | 'release' | 'leaseMs'>;
  readonly pushes: Pick<PushNotifications, 'target' | 'attempted' | 'disable'>;
  /** An HTTP client that refuses private addresses when it connects. Not the client for configured agents. */
  readonly client: Pick<HttpClient, 'request'>;
  /** If absent, notifications carry no signature of the gateway. */
  readonly signing?: Signing;
  readonly log: Log;
  /** The clock of the queue, also used in headers. By default the clock of this machine. */
  readonly now?: () => number;
}

export interface WebhookLimits extends Partial<HostLimits> {
  /** Polling interval of the queue without a `nudge`. */
  readonly pollMs?: number;
  /** Time limit of a delivery, up to the status line. */
  readonly budgetMs?: number;
  /** Maximum number of concurrent deliveries, to all hosts. */
  readonly atOnce?: number;
  /** How long `close` waits for deliveries that are under way. */
  readonly graceMs?: number;
}

type Delivery = Claimed<QueuedPush>;

const DEFAULTS = {
  pollMs: 1_000,
  budgetMs: 10_000,
  atOnce: 64,
  graceMs: 5_000,
  perHost: 5,
  failures: 10,
  restMs: 30_000,
  longestRestMs: 10 * 60_000,
} as const;

/**
 * Delivers queued notifications at least once, in order per task and configuration. A failed delivery is repeated with
 * the delays of `state/stores/webhook-outbox.ts`. A slow host does not delay other hosts. Any number of replicas may run a
 * sender. Notifications that a dead replica had claimed return to the queue when its lease ends.
 */
export class WebhookSender {
  private readonly limits: Required<WebhookLimits>;
  private readonly hosts: Hosts;
  private readonly now: () => number;
  private readonly underWay = new Set<Promise<void>>();
  private readonly posts = new Set<Post>();
  /** Number of claimed notifications per target, waiting or being delivered. */
  private readonly claimed = new Map<string, number>();
  /** Failures that are being stored, by lane. */
  private readonly failing = new Map<string, Promise<void>>();
  private running: Promise<void> | undefined;
  private stopped = false;
  private nudged = false;
  private wake: (() => void) | undefined;

  constructor(
    private readonly options: WebhookSenderOptions,
    limits: WebhookLimits = {},
  ) {
    this.limits = { ...DEFAULTS, ...limits };
    this.now = options.now ?? Date.now;
    this.hosts = new Hosts(this.limits, () => performance.now());
  }

  start(): void {
    this.running ??= this.run();
  }

  /** A notification was queued: look at the queue now. */
  nudge(): void {
    this.nudged = true;
    this.wake?.();
  }

  /** Claims no more notifications and waits for those under way. Returns the rest to the queue after a time limit. */
  async close(): Promise<void> {
    this.stopped = true;
    this.wake?.();
    this.hosts.close();
    await this.running;
    const grace = setTimeout(() => {
      for (const { abort } of this.posts) abort();
    }, this.limits.graceMs);
    await Promise.all(this.underWay);
    clearTimeout(grace);
  }

  private async run(): Promise<void> {
    while (!this.stopped) {
      this.nudged = false;
      const taken = await this.take();
      if (taken === 0 || this.underWay.size >= this.limits.atOnce) await this.rest();
    }
  }

  private async rest(): Promise<void> {
    if (this.nudged || this.stopped) return;
    const nudge = new Cancellation();
    this.wake = () => nudge.cancel();
    await sleep(this.limits.pollMs, { until: nudge });
    this.wake = undefined;
  }

  /** Claims as many notifications as there are free places, and starts to deliver them. */
  private async take(): Promise<number> {
    const room = this.limits.atOnce - this.underWay.size;
    if (room <= 0) return 0;
    try {
      const claimedAt = performance.now();
      const claimed = await this.options.outbox.claim(room, {
        perTarget: this.limits.perHost,
        except: [...this.hosts.busy(), ...this.full()],
      });
      for (const delivery of claimed) this.begin(delivery, claimedAt);
      return claimed.length;
    } catch (error) {
      this.options.log.warn({ err: error }, 'could not read the queue of notifications; trying again');
      return 0;
    }
  }

  /**
   * Targets that already have enough waiting notifications. The lease of further notifications would end while they
   * wait.
   */
  private full(): string[] {
    return [...this.claimed].flatMap(([target, count]) => (count >= this.limits.perHost ? [target] : []));
  }

  private begin(delivery: Delivery, claimedAt: number): void {
    const { target: to } = delivery;
    this.claimed.set(to, (this.claimed.get(to) ?? 0) + 1);
    const work = this.deliver(delivery, claimedAt)
      .catch((error: unknown) => {
        // The notification returns to the queue when its lease ends.
        const { id, target } = delivery;
        this.options.log.warn({ err: error, notification: id, target }, 'could not store the result of a notification');
      })
      .finally(() => {
        this.underWay.delete(work);
        const left = this.claimed.get(to)! - 1;
        if (left > 0) this.claimed.set(to, left);
        else this.claimed.delete(to);
        // The next notification of the lane can be claimed now.
        this.nudge();
      });
    this.underWay.add(work);
  }

  private async deliver(delivery: Delivery, claimedAt: number): Promise<void> {
    const { outbox } = this.options;
    await this.failing.get(delivery.lane)?.catch(() => {});
    let target = await this.lookUp(delivery);
    if (!target) return;
    const { origin } = new URL(target.url);
    const entered = this.hosts.enter(origin);
    if (entered !== true) {
      if (!(await entered)) {
        await outbox.release(delivery, this.now() + this.limits.pollMs);
        return;
      }
      // The configuration may have been deleted while the notification waited.
      target = await this.lookUp(delivery);
    }
    let answered: boolean | undefined;
    try {
      // If the lease ended during the delivery, another replica could send the next notification before this
      // notification.
      const late = performance.now() - claimedAt > outbox.leaseMs - this.limits.budgetMs;
      if (target && (late || this.stopped)) await outbox.release(delivery);
      else if (target) answered = await this.send(delivery, target);
    } finally {
      this.hosts.leave(origin, answered);
    }
  }

  private async lookUp({ id, value }: Delivery): Promise<PushTarget | undefined> {
    const target = await this.options.pushes.target(value);
    if (typeof target !== 'string') return target;
    if (target === 'deleted') await this.options.outbox.ack(id);
    else if (target === 'revoked') await this.endRevoked(id, value);
    else
      await this.options.outbox.giveUp(
        id,
        target === 'expired' ? 'the task has expired' : 'the configuration is disabled',
      );
    return undefined;
  }

  /** A revoked key gets no further notifications, queued or new. */
  private async endRevoked(id: string, push: QueuedPush): Promise<void> {
    const { agent, owner, task } = push;
    this.options.log.warn(
      { event: 'webhook.ended', agent, owner, task, notification: id },
      'ended a webhook: the API key that registered it was revoked',
    );
    // Disable first: after `giveUp`, the next notification of the lane can be claimed and would be sent.
    await this.options.pushes.disable(push);
    await this.options.outbox.giveUp(id, 'the API key that registered the webhook was revoked');
  }

  /** Returns true if the host works, even if it refuses this notification. */
  private async send(delivery: Delivery, target: PushTarget): Promise<boolean | undefined> {
    const { id, attempt, value } = delivery;
    const body = Buffer.from(value.body);
    let headers: string[];
    try {
      headers = await notificationHeaders({ id, attempt, push: value, body }, target, this.now(), this.options.signing);
    } catch (error) {
      this.options.log.warn({ err: error, notification: id }, 'could not sign a notification');
      await this.failed(delivery, 'the notification could not be signed', 0);
      return undefined;
    }
    const sent = post(this.options.client, target.url, headers, body, this.limits.budgetMs);
    this.posts.add(sent);
    try {
      const answer = await sent.answer;
      if ('error' in answer) {
        if (this.stopped) await this.options.outbox.release(delivery);
        else await this.failed(delivery, answer.error, 0);
        return false;
      }
      await this.settle(delivery, target, answer.status, answer.retryAfter);
      await sent.over;
      // A 4xx status concerns one URL and not the host.
      return answer.status < 500;
    } finally {
      this.posts.delete(sent);
    }
  }

  private async settle(delivery: Delivery, target: PushTarget, status: number, after: string | undefined) {
    const { outbox, pushes } = this.options;
    if (status >= 200 && status < 300) {
      await outbox.ack(delivery.id);
      if (target.failures > 0) await pushes.attempted(delivery.value, true);
      // The next notification of the lane need not wait for the body of this answer.
      this.nudge();
      return;
    }
    if (status === 410) {
      // Disable first: after `giveUp`, the next notification of the lane can be claimed and would be sent.
      await pushes.disable(delivery.value);
      await outbox.giveUp(delivery.id, 'HTTP 410: the receiver is gone');
      return;
    }
    const waits = status === 429 || status === 503;
    // A redirect counts as a failure, because its target is not checked.
    await this.failed(delivery, `HTTP ${status}`, waits ? retryAfterMs(after, this.now()) : 0);
  }

  /** Stores a failure. The next notification of the lane may be claimed meanwhile; it waits for the result. */
  private async failed(delivery: Delivery, error: string, wait: number): Promise<void> {
    const { lane } = delivery;
    const settled = this.fail(delivery, error, wait);
    this.failing.set(lane, settled);
    try {
      await settled;
    } finally {
      if (this.failing.get(lane) === settled) this.failing.delete(lane);
    }
  }

  private async fail(delivery: Delivery, error: string, wait: number): Promise<void> {
    const { outbox, pushes, log } = this.options;
    const { id, target, attempt, value } = delivery;
    const became = await outbox.fail(delivery, { error, retryAfterMs: wait });
    log.warn({ notification: id, target, attempt, error, became }, 'could not deliver a notification');
    if (became !== 'lost') await pushes.attempted(value, false);
    // No attempt has succeeded, so the receiver is treated as gone (S-53).
    if (became === 'dead') await pushes.disable(value);
  }
}
