import type { Bus } from '../bus.js';
import { wallMs } from '../clock.js';
import type { Db, Row, Statement, Value } from '../db.js';
import type { Expiring } from '../sweeper.js';

/** A successful call after a search. Callers and searches are hashes, terms are stems. */
export interface RoutingOutcome {
  readonly caller: string;
  readonly query: number;
  readonly terms: readonly string[];
  readonly tool: { readonly server: string; readonly name: string };
  /** The words of the search, if they may be kept. */
  readonly text?: string | undefined;
}

export interface RoutingWeights {
  readonly terms: number;
  readonly votes: number;
}

/** Selects the outcomes to remove: those that match every given value. */
export interface RoutingForget {
  readonly caller?: string | undefined;
  readonly server?: string | undefined;
  readonly tool?: string | undefined;
}

export interface RoutingOutcomesOptions {
  readonly pollMs?: number;
  /** The maximum number of outcomes of all callers, and of one caller. */
  readonly most?: number;
  readonly mostPerCaller?: number;
}

interface OutcomeRow extends Row {
  caller: string;
  query: number;
  server: string;
  tool: string;
  terms: string;
  text: string | null;
}

const TOPIC = 'routing';
const POLL_MS = 500;
const MOST = 5_000;
const MOST_PER_CALLER = 1_000;
/**
 * Rows are removed only when a limit is exceeded by this share, because a removal makes every replica read all rows
 * again.
 */
const SLACK = 0.1;
/** The number of days after which an outcome no longer counts. */
const KEPT_MS = 90 * 24 * 60 * 60 * 1000;
/** A repetition this soon does not count, so that repetitions cause few writes. */
const REPEATED_MS = 60 * 60 * 1000;
/** Weights are stored as integers: the weight times this number. */
const UNIT = 1_000;

// The version increases in the same transaction as the rows, so that a replica that misses the hint sees the change.
const RAISE = `INSERT INTO meta (key, value) VALUES ('routing', 1)
  ON CONFLICT (key) DO UPDATE SET value = meta.value + 1`;
const RAISE_REMOVED = `INSERT INTO meta (key, value) SELECT 'routing.removed', value FROM meta WHERE key = 'routing'
  ON CONFLICT (key) DO UPDATE SET value = excluded.value`;
const RAISE_REPLAY = `INSERT INTO meta (key, value) VALUES ('routing.replay', 1)
  ON CONFLICT (key) DO UPDATE SET value = meta.value + 1`;
const SET = `INSERT INTO meta (key, value) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value`;
const KEYS = 'caller, query, server, tool';
/** Numbers the outcomes of each caller by age: 1 is the newest. */
const AGED = `(SELECT ${KEYS}, rev, ROW_NUMBER() OVER (PARTITION BY caller ORDER BY rev DESC, query, server, tool) AS age
  FROM routing_outcomes) aged`;

/** The outcomes that the search learns from, limited in total and per caller. The oldest outcomes are removed first. */
export class RoutingOutcomes implements Expiring {
  readonly batch = 500;
  readonly #db: Db;
  readonly #bus: Bus;
  readonly #pollMs: number;
  readonly #most: number;
  readonly #mostPerCaller: number;

  constructor(db: Db, bus: Bus, options: RoutingOutcomesOptions = {}) {
    this.#db = db;
    this.#bus = bus;
    this.#pollMs = options.pollMs ?? POLL_MS;
    this.#most = options.most ?? MOST;
    this.#mostPerCaller = options.mostPerCaller ?? MOST_PER_CALLER;
  }

  /** The changes after a version; all outcomes for version 0 and after a removal. */
  async since(version: number): Promise<{
    version: number;
    outcomes: RoutingOutcome[];
    all: boolean;
    weights: RoutingWeights;
    replay: number;
  }> {
    const meta = await this.#db.q<{ key: string; value: number }>(
      `SELECT key, value FROM meta WHERE key IN
        ('routing', 'routing.removed', 'routing.replay', 'routing.terms', 'routing.votes')`,
    );
    const value = (key: string): number => meta.find((row) => row.key === key)?.value ?? 0;
    const newest = value('routing');
    const weights = { terms: value('routing.terms') / UNIT, votes: value('routing.votes') / UNIT };
    const common = { version: newest, weights, replay: value('routing.replay') };
    if (newest === version) return { ...common, outcomes: [], all: false };
    const all = version === 0 || value('routing.removed') > version;
    const rows = await this.#db.q<OutcomeRow>(
      `SELECT ${KEYS}, terms, text FROM routing_outcomes WHERE rev > $1 ORDER BY rev, query, caller, server, tool`,
      [all ? 0 : version],
    );
    return { ...common, outcomes: rows.map(outcomeOf), all };
  }

  /**
   * Adds outcomes. An outcome that is stored already is not counted again; after an hour, its repetition makes it the
   * newest of its caller.
   */
  async add(outcomes: readonly RoutingOutcome[]): Promise<void> {
    await this.#db.tx([[RAISE, []], ...outcomes.map(insertion)]);
    await this.#trim();
    this.#bus.hint(TOPIC);
  }

  /** Stores the weights that a replay chose. */
  async choose({ terms, votes }: RoutingWeights): Promise<void> {
    await this.#db.tx([
      [RAISE, []],
      [RAISE_REPLAY, []],
      [SET, ['routing.terms', Math.round(terms * UNIT)]],
      [SET, ['routing.votes', Math.round(votes * UNIT)]],
    ]);
    this.#bus.hint(TOPIC);
  }

  /** Removes the outcomes that match every given value and returns their number. Without outcomes the weights are 0. */
  async forget({ caller, server, tool }: RoutingForget = {}): Promise<number> {
    const unset = (key: string): Statement => [
      'UPDATE meta SET value = 0 WHERE key = $1 AND NOT EXISTS (SELECT 1 FROM routing_outcomes)',
      [key],
    ];
    const params: Value[] = [caller ?? null, server ?? null, tool ?? null];
    const results = await this.#db.tx([
      [RAISE, []],
      [RAISE_REMOVED, []],
      [
        `DELETE FROM routing_outcomes WHERE (CAST($1 AS TEXT) IS NULL OR caller = $1)
           AND (CAST($2 AS TEXT) IS NULL OR server = $2) AND (CAST($3 AS TEXT) IS NULL OR tool = $3) RETURNING tool`,
        params,
      ],
      unset('routing.terms'),
      unset('routing.votes'),
    ]);
    this.#bus.hint(TOPIC);
    return results[2]!.length;
  }

  async sweep(): Promise<number> {
    const [old] = await this.#db.q('SELECT at FROM routing_outcomes WHERE at <= $1 LIMIT 1', [wallMs() - KEPT_MS]);
    if (!old) return 0;
    const sql = `DELETE FROM routing_outcomes WHERE (${KEYS}) IN
      (SELECT ${KEYS} FROM routing_outcomes WHERE at <= $1 ORDER BY at LIMIT $2) RETURNING tool`;
    return this.#remove([sql, [wallMs() - KEPT_MS, this.batch]]);
  }

  /** Calls `fn` on changes by any process, and at intervals. Returns a function that stops the watch. */
  watch(fn: () => void): () => void {
    const off = this.#bus.onHint(TOPIC, fn);
    const timer = setInterval(fn, this.#pollMs).unref();
    return () => {
      off();
      clearInterval(timer);
    };
  }

  /**
   * Removes the oldest outcomes of callers with too many outcomes. If the total is too large, also removes outcomes of
   * the callers with the most.
   */
  async #trim(): Promise<void> {
    const rows = await this.#db.q<{ n: number }>(
      'SELECT CAST(COUNT(*) AS INTEGER) AS n FROM routing_outcomes GROUP BY caller',
    );
    const counts = rows.map(({ n }) => Number(n));
    if (counts.some((count) => count > this.#mostPerCaller * (1 + SLACK)))
      await this.#remove([
        `DELETE FROM routing_outcomes WHERE (${KEYS}) IN (SELECT ${KEYS} FROM ${AGED} WHERE age > $1) RETURNING tool`,
        [this.#mostPerCaller],
      ]);
    const total = counts.reduce((sum, count) => sum + Math.min(count, this.#mostPerCaller), 0);
    if (total > this.#most * (1 + SLACK))
      await this.#remove([
        `DELETE FROM routing_outcomes WHERE (${KEYS}) IN
           (SELECT ${KEYS} FROM ${AGED} ORDER BY age DESC, rev LIMIT $1) RETURNING tool`,
        [total - this.#most],
      ]);
  }

  async #remove(statement: Statement): Promise<number> {
    const results = await this.#db.tx([[RAISE, []], [RAISE_REMOVED, []], statement]);
    return results[2]!.length;
  }
}

const insertion = ({ caller, query, terms, tool, text }: RoutingOutcome): Statement => [
  `INSERT INTO routing_outcomes (${KEYS}, terms, text, at, rev)
   VALUES ($1, $2, $3, $4, $5, $6, $7, (SELECT value FROM meta WHERE key = 'routing'))
   ON CONFLICT (${KEYS}) DO UPDATE SET text = excluded.text, at = excluded.at, rev = excluded.rev
     WHERE routing_outcomes.at <= excluded.at - ${REPEATED_MS}`,
  [caller, query, tool.server, tool.name, JSON.stringify(terms), text ?? null, wallMs()],
];

const outcomeOf = ({ caller, query, server, tool, terms, text }: OutcomeRow): RoutingOutcome => ({
  caller,
  query,
  terms: JSON.parse(terms) as string[],
  tool: { server, name: tool },
  ...(text !== null && { text }),
});
