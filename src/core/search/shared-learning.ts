import type { Log } from '../../telemetry/log.js';
import { BoundedCache } from '../bounded-cache.js';
import type { Principal } from '../caller.js';
import { callerKey } from './caller-key.js';
import { Learning, type Weights } from './learning.js';
import type { OutcomeRecords, SharedOutcome } from './outcome-records.js';
import { idOf, type KeptOutcome, keptOf } from './outcomes.js';
import { RecentSearches, type Searched } from './recent-searches.js';
import type { LearnedScores, ToolKey } from './tool-key.js';
import type { ToolRanking } from './tool-ranking.js';

/**
 * `off` records nothing. `shadow` learns and measures, but the ranking stays the same. `on` also uses what was learned
 * for the ranking.
 */
export type LearnMode = 'off' | 'shadow' | 'on';

export interface LearningSettings {
  readonly learn: LearnMode;
  /** Whether the words of searches are kept besides their stems. */
  readonly keepTexts: boolean;
}

export interface SharedLearningOptions {
  readonly settings: LearningSettings;
  readonly records: OutcomeRecords;
  /** Whether the gateway authenticates callers. If not, search does not learn. */
  readonly identified: boolean;
  /** The index that served the last search, for replays. */
  index(): ToolRanking | undefined;
  readonly log: Log;
  /** Milliseconds of a clock that never goes back. */
  readonly now?: () => number;
}

/** How well searches ranked the tools that were called after them. */
export interface RankQuality {
  /**
   * The number of searches since the start of this replica, and the number of these whose first five tools learning
   * changes.
   */
  readonly searches: number;
  readonly changed: number;
  /**
   * The number of outcomes since the start of this replica, and the mean reciprocal rank of their tools without and
   * with learning.
   */
  readonly outcomes: number;
  readonly plain: number;
  readonly learned: number;
}

export interface LearningStats {
  readonly mode: LearnMode;
  readonly outcomes: number;
  readonly callers: number;
  /** The number of loud callers: they have so many outcomes that no other caller learns from them. */
  readonly loudCallers: number;
  readonly weights: Weights;
  readonly tools: readonly { readonly server: string; readonly name: string; readonly outcomes: number }[];
  readonly replica: RankQuality;
}

/**
 * The most outcomes in memory. This is more than the limit of the database, because the database exceeds its limit by a
 * tenth before it removes rows.
 */
const MOST_KEPT = 6_000;
const MOST_PER_CALLER = 1_200;
/** The most outcomes that wait to be stored, in total and of one caller. */
const MOST_PENDING = 400;
const MOST_PENDING_OF_CALLER = 40;
const FLUSH_MS = 100;
/** The number of new outcomes after which the weights are chosen again. */
const REPLAY_AFTER = 10;
const LONGEST_TEXT = 500;
const LONGEST_NAME = 512;
const MOST_LISTED = 50;
const COMPARED = 5;
/** After this time, in milliseconds, a repeated outcome becomes the latest outcome of its caller again. */
const REPEATED_MS = 60 * 60_000;

/**
 * Learns from the calls that succeed after a search. The database has the outcomes and the weights. Every replica keeps
 * a copy in memory, so that all replicas rank alike.
 */
export class SharedLearning {
  private readonly learning = new Learning({ most: MOST_KEPT, mostPerCaller: MOST_PER_CALLER });
  private readonly recent: RecentSearches;
  /** The times at which this replica last stored each outcome. */
  private readonly storedAt = new BoundedCache<string, number>(MOST_KEPT);
  private readonly now: () => number;
  private settings: LearningSettings;
  private pending: SharedOutcome[] = [];
  private version = 0;
  private replayed = 0;
  /** The number of outcomes since the last replay. */
  private fresh = 0;
  /**
   * Whether this replica stored outcomes since the last replay. A replica that stored none leaves the replay to other
   * replicas.
   */
  private stored = false;
  private replaying = false;
  private timer: NodeJS.Timeout | undefined;
  private unwatch: (() => void) | undefined;
  private reading: Promise<void> | undefined;
  private readAgain = false;
  private away = false;
  private readonly counts = { searches: 0, changed: 0, outcomes: 0, plain: 0, learned: 0 };

  constructor(private readonly options: SharedLearningOptions) {
    this.settings = options.settings;
    this.now = options.now ?? (() => performance.now());
    this.recent = new RecentSearches(this.now);
  }

  get mode(): LearnMode {
    return this.settings.learn;
  }

  /**
   * Reads the stored outcomes and weights. If the database is unavailable, the gateway starts without them and tries
   * again.
   */
  async start(): Promise<void> {
    await this.configure(this.settings);
  }

  async configure(settings: LearningSettings): Promise<void> {
    this.settings = settings;
    if (settings.learn === 'off') {
      this.unwatch?.();
      this.unwatch = undefined;
      return;
    }
    this.unwatch ??= this.options.records.watch(() => void this.read());
    await this.read();
  }

  /** Whether search currently learns from calls. */
  get active(): boolean {
    return this.options.identified && this.mode !== 'off';
  }

  /** The learned suggestions for the caller with this principal. Only in mode `on` may an answer use them. */
  for(principal: Pick<Principal, 'key'>): LearnedScores | undefined {
    return this.mode === 'off' ? undefined : this.learning.for(this.keyOf(principal));
  }

  get weights(): Weights {
    return this.learning.weights;
  }

  /** Remembers a search, to find the calls that follow it. */
  searched(principal: Principal, search: Searched): void {
    const caller = this.keyOf(principal);
    if (!this.active || caller === undefined) return;
    this.counts.searches += 1;
    if (search.learned && namesOf(search.learned) !== namesOf(search.plain)) this.counts.changed += 1;
    this.recent.add(caller, { ...search, text: this.keptText(search.text) });
  }

  /**
   * Learns from a successful call of a tool that an earlier search of the caller showed, and ignores other calls. The
   * function `succeeded` may have to parse the result, so it runs only if there was such a search.
   */
  called(principal: Principal, tool: ToolKey, succeeded: () => boolean): void {
    const caller = this.keyOf(principal);
    if (!this.active || caller === undefined) return;
    const search = this.recent.take(caller, tool, succeeded);
    if (!search) return;
    this.counts.outcomes += 1;
    this.counts.plain += reciprocalRank(search.plain, tool);
    this.counts.learned += reciprocalRank(search.learned ?? search.plain, tool);
    const kept = keptOf({ caller, terms: search.terms, tool });
    if (kept && isStorable(tool) && this.isDue(kept)) {
      this.enqueue({ ...kept, ...(this.settings.keepTexts && search.text !== '' && { text: search.text }) });
    }
  }

  /**
   * The part of a search's text that may be stored. It is a copy, because a substring would keep the whole text in
   * memory.
   */
  private keptText(text: string): string {
    if (!this.settings.keepTexts) return '';
    return Buffer.from(text.slice(0, LONGEST_TEXT).replaceAll('\0', ' ')).toString();
  }

  /**
   * Whether an outcome must be stored: either the outcome is new, or it was last stored long ago. The stored time of a
   * repeated outcome must stay recent, because old outcomes expire.
   */
  private isDue(outcome: KeptOutcome): boolean {
    const id = `${outcome.caller}\n${idOf(outcome)}`;
    const last = this.storedAt.get(id);
    const now = this.now();
    if (this.learning.outcomes.has(outcome) && last !== undefined && now - last < REPEATED_MS) return false;
    this.storedAt.set(id, now);
    return true;
  }

  stats(): LearningStats {
    const { outcomes, weights } = this.learning;
    const tools = new Map<string, { server: string; name: string; outcomes: number }>();
    for (const { tool } of outcomes) {
      const id = `${tool.server}\n${tool.name}`;
      const known = tools.get(id);
      if (known) known.outcomes += 1;
      else tools.set(id, { ...tool, outcomes: 1 });
    }
    const { all, loud } = outcomes.callers;
    const { searches, changed, outcomes: seen, plain, learned } = this.counts;
    const mean = (sum: number): number => (seen === 0 ? 0 : Math.round((1_000 * sum) / seen) / 1_000);
    return {
      mode: this.mode,
      outcomes: outcomes.size,
      callers: all,
      loudCallers: loud,
      weights,
      tools: [...tools.values()].sort((a, b) => b.outcomes - a.outcomes).slice(0, MOST_LISTED),
      replica: { searches, changed, outcomes: seen, plain: mean(plain), learned: mean(learned) },
    };
  }

  async close(): Promise<void> {
    this.unwatch?.();
    this.unwatch = undefined;
    clearTimeout(this.timer);
    await this.reading;
    await this.flush();
  }

  private keyOf(principal: Pick<Principal, 'key'>): string | undefined {
    return this.options.identified ? callerKey(principal.key) : undefined;
  }

  /**
   * Adds an outcome to the next batch. Batches are stored at most a few times a second. Outcomes beyond a limit are
   * dropped.
   */
  private enqueue(outcome: SharedOutcome): void {
    const { pending } = this;
    const own = pending.filter(({ caller }) => caller === outcome.caller).length;
    if (pending.length >= MOST_PENDING || own >= MOST_PENDING_OF_CALLER) return;
    pending.push(outcome);
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      void this.flush().then(() => this.read());
    }, FLUSH_MS).unref();
  }

  private async flush(): Promise<void> {
    const outcomes = this.pending.splice(0);
    if (outcomes.length === 0) return;
    try {
      await this.options.records.add(outcomes);
      this.stored = true;
    } catch (error) {
      this.report(error);
    }
  }

  /** Reads the changes. Requests during a read cause one further read. */
  private read(): Promise<void> {
    this.readAgain = true;
    this.reading ??= this.readAll().finally(() => {
      this.reading = undefined;
    });
    return this.reading;
  }

  private async readAll(): Promise<void> {
    while (this.readAgain) {
      this.readAgain = false;
      try {
        await this.readChanges();
        this.away = false;
      } catch (error) {
        this.report(error);
      }
    }
    if (this.stored && this.fresh >= REPLAY_AFTER && !this.replaying) void this.replay();
  }

  private async readChanges(): Promise<void> {
    const { version, outcomes, all, weights, replay } = await this.options.records.since(this.version);
    if (version === this.version) return;
    const { learning } = this;
    if (all) learning.forget();
    for (const outcome of outcomes) learning.outcomes.keep(outcome);
    learning.outcomes.measureLoudness();
    learning.use(weights);
    this.fresh = replay === this.replayed ? this.fresh + outcomes.length : 0;
    this.replayed = replay;
    this.version = version;
  }

  /**
   * Chooses the weights again and shares them. If several replicas do this at the same moment, they choose from the
   * same outcomes.
   */
  private async replay(): Promise<void> {
    const index = this.options.index();
    if (!index || !this.active) return;
    this.replaying = true;
    this.stored = false;
    this.fresh = 0;
    try {
      const before = this.learning.weights;
      const chosen = await this.learning.replayInSlices(index);
      this.learning.use(before);
      await this.options.records.choose(chosen);
    } catch (error) {
      this.report(error);
    } finally {
      this.replaying = false;
    }
    if (this.unwatch) await this.read();
  }

  private report(error: unknown): void {
    if (this.away) return;
    this.away = true;
    this.options.log.warn(
      { err: error },
      'cannot store or read what search learned; search continues with the data in memory',
    );
  }
}

const namesOf = (tools: readonly ToolKey[]): string =>
  tools
    .slice(0, COMPARED)
    .map(({ server, name }) => `${server}\n${name}`)
    .join('\n\n');

function reciprocalRank(tools: readonly ToolKey[], { server, name }: ToolKey): number {
  const rank = tools.findIndex((tool) => tool.server === server && tool.name === name);
  return rank < 0 ? 0 : 1 / (rank + 1);
}

/** PostgreSQL stores no zero bytes, and servers choose the names of their tools. */
const isStorable = ({ name }: ToolKey): boolean => name.length <= LONGEST_NAME && !name.includes('\0');
