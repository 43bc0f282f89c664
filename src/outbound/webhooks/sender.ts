import type { PushNotifications, PushTarget, QueuedPush } from '../../core/a2a/push/push-notifications.js';
import { Cancellation } from '../../core/caller.js';
import { sleep } from '../../core/timing.js';
import type { Claimed, Outbox } from '../../state/index.js';
import type { Log } from '../../telemetry/log.js';
import type { HttpClient } from '../http/index.js';
import { notificationHeaders, type Signing } from './headers.js';
import { type HostLimits, Hosts } from './hosts.js';
import { type Post, post, retryAfterMs } from './post.js';

export interface WebhookSenderOptions {
  readonly outbox: Pick<Outbox<QueuedPush>, 'claim' | 'ack' | 'fail' | 'giveUp' | 'release' | 'leaseMs'>;
  readonly pushes: Pick<PushNotifications, 'target' | 'attempted' | 'disable'>;
  /** Refuses private addresses at the moment it connects; not the client that configured agents are reached with. */
  readonly client: Pick<HttpClient, 'request'>;
  /** Without it notifications carry no proof of the gateway's own. */
  readonly signing?: Signing;
  readonly log: Log;
  /** The time of day that the queue goes by, and that receivers are told; that of this machine unless given. */
  readonly now?: () => number;
}

export interface WebhookLimits extends Partial<HostLimits> {
  /** How often the queue is looked at when nobody says that there is something in it. */
  readonly pollMs?: number;
  /** From the connection to the status line. */
  readonly budgetMs?: number;
  /** Deliveries at the same time, to all hosts. */
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
 * Delivers what is queued: at least once, in order per task and configuration, no host at the cost of another. Any
 * number of replicas may run one; what a dead one had claimed comes back when its lease ends.
 */
export class WebhookSender {
  private readonly limits: Required<WebhookLimits>;
  private readonly hosts: Hosts;
  private readonly now: () => number;
  private readonly underWay = new Set<Promise<void>>();
  private readonly posts = new Set<Post>();
  /** What is claimed of each target, delivered or in line. */
  private readonly claimed = new Map<string, number>();
  /** Failures that are being written down, by lane. */
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

  /** Something was queued. */
  nudge(): void {
    this.nudged = true;
    this.wake?.();
  }

  /** Takes nothing new and lets what is under way come to its end; what takes too long is given back. */
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

  /** Claims as much as there is room for, and begins to deliver it. */
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
      this.options.log.warn({ err: error }, 'queued notifications could not be looked up; trying again');
      return 0;
    }
  }

  /** Targets that have enough in line: what waits too long would outlive its lease. */
  private full(): string[] {
    return [...this.claimed].flatMap(([target, count]) => (count >= this.limits.perHost ? [target] : []));
  }

  private begin(delivery: Delivery, claimedAt: number): void {
    const { target: to } = delivery;
    this.claimed.set(to, (this.claimed.get(to) ?? 0) + 1);
    const work = this.deliver(delivery, claimedAt)
      .catch((error: unknown) => {
        // What is not settled comes back when its lease ends.
        const { id, target } = delivery;
        this.options.log.warn({ err: error, notification: id, target }, 'a notification could not be settled');
      })
      .finally(() => {
        this.underWay.delete(work);
        const left = this.claimed.get(to)! - 1;
        if (left > 0) this.claimed.set(to, left);
        else this.claimed.delete(to);
        // The next of its lane has come first.
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
      // It has waited in line, and the configuration may be gone meanwhile.
      target = await this.lookUp(delivery);
    }
    let answered: boolean | undefined;
    try {
      // Somebody else may take it over while it is sent, and send the next one before this one arrives.
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
    else
      await this.options.outbox.giveUp(
        id,
        target === 'expired' ? 'the task has expired' : 'the configuration is disabled',
      );
    return undefined;
  }

  /** True where the host did its part, whatever it thinks of this notification. */
  private async send(delivery: Delivery, target: PushTarget): Promise<boolean | undefined> {
    const { id, attempt, value } = delivery;
    const body = Buffer.from(value.body);
    let headers: string[];
    try {
      headers = await notificationHeaders({ id, attempt, push: value, body }, target, this.now(), this.options.signing);
    } catch (error) {
      this.options.log.warn({ err: error, notification: id }, 'a notification could not be signed');
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
      // What is wrong with one URL says nothing about its neighbours on the same host.
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
      // The next of its lane need not wait until this connection is through with its body.
      this.nudge();
      return;
    }
    if (status === 410) {
      // In this order: once this one is buried, the next of its lane can be claimed, and is sent unless it is disabled.
      await pushes.disable(delivery.value);
      await outbox.giveUp(delivery.id, 'HTTP 410: the receiver is gone');
      return;
    }
    const waits = status === 429 || status === 503;
    // A redirect is a failure like any other: where it leads nobody has checked.
    await this.failed(delivery, `HTTP ${status}`, waits ? retryAfterMs(after, this.now()) : 0);
  }

  /** The next of its lane can be claimed before it is known what this failure means for it, and waits for that. */
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
    log.warn({ notification: id, target, attempt, error, became }, 'a notification was not delivered');
    if (became !== 'lost') await pushes.attempted(value, false);
    // All this time without a single success: whoever registered it has gone (S-53).
    if (became === 'dead') await pushes.disable(value);
  }
}
