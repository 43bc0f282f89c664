/** Renews a secret only once, even if many calls on many replicas need the secret at the same time. */
import { backoff, sleep, within } from '../../core/timing.js';
import type { Bus } from '../../state/index.js';
import type { Log } from '../../telemetry/log.js';
import type { Vault, VaultEntry, VaultKey, VaultState } from './vault.js';

/** A renewal that did not give a secret. */
export class RefreshFailed extends Error {
  override readonly name = 'RefreshFailed';

  constructor(
    /** `needs_reauth` if only the user can help, `failed` if a later attempt may succeed. */
    readonly state: Extract<VaultState, 'needs_reauth' | 'failed'>,
    /** The reason, for people. It contains no secret. */
    readonly reason: string,
    /** When the gateway tries again; undefined if it does not. */
    readonly retryAt?: number,
  ) {
    super(reason);
  }
}

export interface Renewed<T> {
  readonly secret: T;
  readonly expiresAt?: number | undefined;
  /** When the row may be removed; default: after more than a year. */
  readonly purgeAt?: number | undefined;
}

export interface RefreshJob<T extends object> {
  readonly key: VaultKey;
  /**
   * Whether this entry has to be renewed. Called again after every wait, because another replica may have renewed the
   * entry.
   */
  due(entry: VaultEntry<T> | undefined): boolean;
  /** Whether the old secret may still be used if the renewal fails. */
  usable(entry: VaultEntry<T>): boolean;
  /** Obtains a new secret. Runs on one replica at a time. Throws `RefreshFailed`. */
  run(entry: VaultEntry<T> | undefined): Promise<Renewed<T>>;
  /** Whether a missing row is created. If false, a secret that was removed stays removed. */
  readonly creates: boolean;
}

export interface SingleFlightRefreshOptions {
  readonly vault: Vault;
  readonly bus: Pick<Bus, 'lease' | 'renew' | 'release'>;
  /** Identifies this process among the replicas. */
  readonly self: string;
  readonly log: Log;
}

/** The result of one renewal in this process; `renewed` is false if there was nothing to do. */
interface Flight<T extends object> {
  readonly entry: VaultEntry<T>;
  readonly renewed: boolean;
}

/** A replica that dies while it renews is replaced after this time. */
const LEASE_MS = 10_000;
const RENEW_MS = 3_000;
/** Time limit for one renewal. */
const RUN_MS = 30_000;
/** Time limit for a call that waits for the renewal of another replica. */
const WAIT_MS = 45_000;
const POLL_MS = 100;
/** Pauses between attempts after failures: a failed renewal is not repeated by every call. */
const PAUSES = { first: 5_000, longest: 300_000, jitter: 0.2 };

export class SingleFlightRefresh {
  private readonly running = new Map<string, Promise<Flight<object>>>();

  constructor(private readonly options: SingleFlightRefreshOptions) {}

  /** The renewed entry, or the present entry if no renewal is due. Throws `RefreshFailed`. */
  async refresh<T extends object>(job: RefreshJob<T>): Promise<VaultEntry<T>> {
    const id = this.options.vault.idOf(job.key);
    for (;;) {
      const running = this.running.get(id) as Promise<Flight<T>> | undefined;
      const { entry, renewed } = await (running ?? this.start(id, job));
      // The renewal of another call may have found nothing to do, although this call knows that the secret was refused.
      // In that case, try again.
      if (renewed || !running || !job.due(entry)) return entry;
    }
  }

  private start<T extends object>(id: string, job: RefreshJob<T>): Promise<Flight<T>> {
    const started = this.once(id, job).finally(() => this.running.delete(id));
    this.running.set(id, started);
    return started;
  }

  private async once<T extends object>(id: string, job: RefreshJob<T>): Promise<Flight<T>> {
    const { vault, bus, self } = this.options;
    const lease = `vault:${id}`;
    for (const end = performance.now() + WAIT_MS; ; await sleep(POLL_MS * (0.5 + Math.random()))) {
      const entry = this.settled(await vault.read<T>(job.key), job);
      if (entry) return { entry, renewed: false };
      if ((await bus.lease(lease, self, LEASE_MS)) !== undefined) {
        const flight = await this.leased(lease, job);
        if (flight) return flight;
      }
      if (performance.now() > end)
        throw new RefreshFailed('failed', 'another replica renews the credential and has not finished in time');
    }
  }

  /** Renews while this process holds the lease; undefined if it has lost the lease. */
  private async leased<T extends object>(lease: string, job: RefreshJob<T>): Promise<Flight<T> | undefined> {
    const { vault, bus, self } = this.options;
    const renewing = setInterval(() => void bus.renew(lease, self, LEASE_MS).catch(() => {}), RENEW_MS);
    try {
      // Another replica may have finished between the look at the row and the lease.
      const before = await vault.read<T>(job.key);
      const entry = this.settled(before, job);
      if (entry) return { entry, renewed: false };
      return (await this.holds(lease)) ? { entry: await this.run(before, job), renewed: true } : undefined;
    } finally {
      clearInterval(renewing);
      await bus.release(lease, self).catch(() => {});
    }
  }

  /**
   * Whether the lease is still held. A process that was suspended for a while has lost the lease, and its refresh token
   * may be used already: many issuers end the sign-in when they see a used token again.
   */
  private async holds(lease: string): Promise<boolean> {
    const { bus, self } = this.options;
    const asked = performance.now();
    return (await bus.renew(lease, self, LEASE_MS)) && performance.now() - asked < LEASE_MS / 2;
  }

  /** The entry if nothing has to be done. Throws if nothing can be done now. */
  private settled<T extends object>(entry: VaultEntry<T> | undefined, job: RefreshJob<T>): VaultEntry<T> | undefined {
    if (!entry) {
      if (job.creates) return undefined;
      throw new RefreshFailed('needs_reauth', 'there is no credential');
    }
    if (entry.state === 'needs_reauth') throw new RefreshFailed('needs_reauth', entry.reason ?? 'sign in again');
    if (!job.due(entry)) return entry;
    if (entry.retryAt === undefined || entry.retryAt <= this.options.vault.now) return undefined;
    if (entry.state !== 'failed' && job.usable(entry)) return entry;
    throw new RefreshFailed('failed', entry.reason ?? 'the last renewal failed', entry.retryAt);
  }

  private async run<T extends object>(entry: VaultEntry<T> | undefined, job: RefreshJob<T>): Promise<VaultEntry<T>> {
    const { vault } = this.options;
    let renewed: Renewed<T> | undefined;
    try {
      renewed = await within(job.run(entry), RUN_MS);
      if (!renewed) throw new RefreshFailed('failed', `the issuer did not answer within ${RUN_MS / 1000} s`);
    } catch (error) {
      return this.fail(entry, job, error);
    }
    const { secret, expiresAt, purgeAt } = renewed;
    const status = { state: 'active', expiresAt, purgeAt } as const;
    const written = entry ? await vault.update(entry, secret, status) : await vault.put(job.key, secret, status);
    if (written) return written;
    // The row changed during the renewal: the user signed in again, or somebody removed the secret.
    const now = await vault.read<T>(job.key);
    if (now?.state === 'active') return now;
    throw new RefreshFailed('needs_reauth', 'the credential was removed');
  }

  /** Records the failure, so that no replica repeats the attempt before its time. */
  private async fail<T extends object>(
    entry: VaultEntry<T> | undefined,
    job: RefreshJob<T>,
    error: unknown,
  ): Promise<VaultEntry<T>> {
    const { vault, log } = this.options;
    const failure = error instanceof RefreshFailed ? error : new RefreshFailed('failed', 'the renewal failed');
    const { key } = job;
    if (failure !== error) log.error({ err: error, upstream: key.upstream }, 'failed to renew a credential');
    else log.warn({ upstream: key.upstream, why: failure.reason }, 'failed to renew a credential');
    const attempts = (entry?.attempts ?? 0) + 1;
    const retryAt = failure.state === 'failed' ? Math.ceil(vault.now + backoff(attempts, PAUSES)) : undefined;
    const still = entry !== undefined && entry.state === 'active' && failure.state === 'failed' && job.usable(entry);
    const status = {
      state: still ? 'active' : failure.state,
      reason: failure.reason,
      expiresAt: entry?.expiresAt,
      retryAt,
      attempts,
    } as const;
    const written = entry
      ? await vault.update(entry, entry.secret, status)
      : job.creates
        ? await vault.put<object>(key, {}, status)
        : undefined;
    if (still) return (written as VaultEntry<T> | undefined) ?? entry;
    throw new RefreshFailed(failure.state, failure.reason, retryAt);
  }
}
