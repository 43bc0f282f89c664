/** Stores a sample of the choices among equivalent servers and agents, and reads it for a replay. */
import type { Config } from '../config/schema.js';
import { RecentMap } from '../core/recent-map.js';
import type { ChoiceLog, RecordedChoice } from '../core/replica-choice/choice-log.js';
import { type PolicyEstimate, replay } from '../core/replica-choice/estimate-policies.js';
import { TokenBucket } from '../core/token-bucket.js';
import type { ReplicaChoices, State } from '../state/index.js';
import type { Log } from '../telemetry/log.js';
import { withCommandStorage } from './commands/command-storage.js';

/** The stored sample of each pool. */
const SAMPLE = { burst: 200, second: 20 };
const MOST_POOLS = 1_000;
/** Limit on the choices that wait for the database. Further choices are dropped. */
const MOST_WAITING = 2_000;
const FLUSH_AFTER = 500;
const LIFETIME = 7 * 24 * 60 * 60 * 1000;
/**
 * The number of stored choices that a new process starts with. Older choices have almost no influence on estimates.
 */
const RECALLED = 500;
const MOST_REPLAYED = 100_000;

export class StoredChoices implements ChoiceLog {
  private readonly samples = new RecentMap<TokenBucket>(MOST_POOLS);
  private waiting: { readonly pool: string; readonly value: RecordedChoice }[] = [];
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly store: ReplicaChoices,
    private readonly log: Log,
  ) {}

  wants(pool: string): boolean {
    let sample = this.samples.get(pool);
    if (!sample) {
      sample = new TokenBucket(SAMPLE);
      this.samples.set(pool, sample);
    }
    return sample.take(1);
  }

  record(choice: RecordedChoice): void {
    if (this.waiting.length >= MOST_WAITING) return;
    this.waiting.push({ pool: choice.pool, value: choice });
    this.timer ??= setTimeout(() => void this.flush(), FLUSH_AFTER).unref();
  }

  async latest(pool: string): Promise<readonly RecordedChoice[]> {
    return (await this.store.latest(pool, RECALLED)) as RecordedChoice[];
  }

  /** Writes the waiting choices. Never fails, because a lost sample does no harm. */
  async flush(): Promise<void> {
    clearTimeout(this.timer);
    this.timer = undefined;
    const { waiting } = this;
    this.waiting = [];
    try {
      await this.store.add(waiting, LIFETIME);
    } catch (error) {
      this.log.debug({ err: error, choices: waiting.length }, 'recorded choices of replicas were lost');
    }
  }
}

/** The log of the configuration; undefined if it records no choices. */
export const choiceLogOf = ({ routing }: Config, { replicaChoices }: State, log: Log): StoredChoices | undefined =>
  routing.recordChoices ? new StoredChoices(replicaChoices, log) : undefined;

export interface PoolReplay {
  readonly pool: string;
  readonly policies: readonly PolicyEstimate[];
}

/** Judges policies by the stored choices of all pools, or of one pool. */
export function replayStored(config: Config, only?: string): Promise<PoolReplay[]> {
  return withCommandStorage(config, async ({ state: { replicaChoices } }) => {
    const pools = (await replicaChoices.pools()).map(({ pool }) => pool);
    const wanted = only === undefined ? pools : pools.filter((pool) => pool === only || pool === `server:${only}`);
    const replays: PoolReplay[] = [];
    for (const pool of wanted) {
      const choices = (await replicaChoices.latest(pool, MOST_REPLAYED)) as RecordedChoice[];
      const [, name = ''] = pool.split(/:(.*)/s);
      const objective = config.servers[name]?.objective ?? config.routing.objective;
      replays.push({ pool, policies: replay(choices, objective) });
    }
    return replays;
  });
}
