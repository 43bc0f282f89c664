import type { AgentFacts, AgentHealth } from '../../core/a2a/agent.js';
import { Backoff, within } from '../../core/timing.js';
import { cardDialect, dialect } from '../../protocol/a2a/index.js';
import type { AgentCard } from '../../protocol/a2a/model.js';
import { ProtocolError } from '../../protocol/errors.js';
import type { JsonObject } from '../../protocol/jsonrpc/raw.js';
import type { AgentContext } from './agent-context.js';
import { invalidReply, untrusted } from './agent-errors.js';
import { type CardSource, type FetchedCard, NoCard } from './card-discovery.js';
import type { Signatures, Verified } from './card-signature-check.js';

export type SignaturePolicy = 'ignore' | 'verify' | 'require';

export interface KnownCard {
  readonly fetched: FetchedCard;
  readonly facts: AgentFacts;
  /** Extensions that the agent requires. */
  readonly required: readonly string[];
}

export interface CardCacheOptions {
  readonly context: AgentContext;
  readonly source: Pick<CardSource, 'fetch'>;
  readonly signatures: Signatures;
  readonly policy: SignaturePolicy;
  /**
   * The card to use if the agent serves no card. Undefined unless the version and the binding of the agent are
   * configured.
   */
  readonly assumed: JsonObject | undefined;
}

export const UP: AgentHealth = { status: 'up' };

/**
 * Milliseconds. `CALLER_WAIT`: for at most this long, callers get the last failure instead of a new attempt. `WAITS`:
 * the pauses between attempts in the background. `LEAST_REFRESH`: the minimum time between two refreshes.
 */
const CALLER_WAIT = 5_000;
const WAITS = { first: 250, longest: 30_000 };
const LEAST_REFRESH = 30_000;
/** After a failed call, a card younger than this is not fetched again. */
const JUST_NOW = 2_000;
const RENEWAL = 3_000;

/** Caches the card of an agent. Concurrent requests share one fetch. Refreshes the card when it expires. */
export class CardCache {
  current: KnownCard | undefined;
  /** The health of the agent after its last answer or failure of any kind. */
  health: AgentHealth = { status: 'unknown' };
  private loading: Promise<KnownCard> | undefined;
  private fetchedAt = 0;
  private readonly waits = new Backoff(WAITS);
  private failure: { readonly error: unknown; readonly until: number } | undefined;
  private timer: NodeJS.Timeout | undefined;
  private readonly listeners = new Set<() => void>();
  private closed = false;

  constructor(private readonly options: CardCacheOptions) {}

  /** The cached card, if it has not expired. */
  get fresh(): KnownCard | undefined {
    return this.current && this.current.fetched.staleAt > Date.now() ? this.current : undefined;
  }

  /** The card, fetched if unknown. An expired card is still returned, and refreshed in the background (C-5). */
  async get(): Promise<KnownCard> {
    if (this.current) {
      if (!this.fresh && !(this.failure && this.failure.until > Date.now())) this.load().catch(() => {});
      return this.current;
    }
    if (this.failure && this.failure.until > Date.now() && !this.loading) throw this.failure.error;
    return this.load();
  }

  /**
   * Fetches the card again, because the agent seems to have changed. Returns undefined if the card was fetched a moment
   * ago or cannot be fetched.
   */
  async renew(): Promise<KnownCard | undefined> {
    if (Date.now() - this.fetchedAt < JUST_NOW && !this.loading) return undefined;
    // A short time limit: the caller has already waited for a connection.
    return within(
      this.load().catch(() => undefined),
      RENEWAL,
    );
  }

  onChanged(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.timer);
    this.listeners.clear();
  }

  private load(): Promise<KnownCard> {
    this.loading ??= this.ask().finally(() => {
      this.loading = undefined;
    });
    return this.loading;
  }

  private async ask(): Promise<KnownCard> {
    try {
      const known = await this.learn();
      this.failure = undefined;
      this.waits.reset();
      this.fetchedAt = Date.now();
      this.health = UP;
      this.later(Math.max(LEAST_REFRESH, known.fetched.staleAt - Date.now()));
      return known;
    } catch (error) {
      this.fetchedAt = Date.now();
      const wait = this.waits.next();
      this.failure = { error, until: Date.now() + Math.min(CALLER_WAIT, wait) };
      this.health = { status: 'down', detail: error instanceof Error ? error.message : String(error) };
      this.options.context.log.debug(
        { agent: this.options.context.name, error },
        'could not fetch the card of the agent',
      );
      this.later(wait);
      throw error;
    }
  }

  private later(milliseconds: number): void {
    clearTimeout(this.timer);
    if (this.closed) return;
    this.timer = setTimeout(() => this.load().catch(() => {}), milliseconds);
    this.timer.unref();
  }

  private async learn(): Promise<KnownCard> {
    const before = this.current;
    const fetched = await this.fetch(before?.fetched);
    const verified = await this.verify(fetched.card);
    if (this.options.policy === 'require' && verified.verdict !== 'verified') {
      this.change(undefined);
      throw untrusted(this.options.context, verified.verdict, verified.why);
    }
    const same = before && before.fetched.text === fetched.text && before.facts.original.signature === verified.verdict;
    const known = same ? { ...before, fetched } : this.read(fetched, verified);
    if (same) this.current = known;
    else this.change(known);
    return known;
  }

  private async fetch(before: FetchedCard | undefined): Promise<FetchedCard> {
    try {
      return await this.options.source.fetch(before);
    } catch (error) {
      const { assumed } = this.options;
      if (!(error instanceof NoCard) || !assumed) throw error;
      const text = JSON.stringify(assumed);
      return {
        url: '',
        text,
        card: assumed,
        etag: undefined,
        modified: undefined,
        staleAt: Date.now() + LEAST_REFRESH,
      };
    }
  }

  private change(known: KnownCard | undefined): void {
    const hadOne = this.current !== undefined || known !== undefined;
    this.current = known;
    if (hadOne) for (const listener of this.listeners) listener();
  }

  private async verify(card: JsonObject): Promise<Verified> {
    if (this.options.policy !== 'ignore') return this.options.signatures.verify(card);
    return Array.isArray(card['signatures']) && card['signatures'].length > 0
      ? { verdict: 'unverified', why: 'signatures are not checked' }
      : { verdict: 'unsigned' };
  }

  private read(fetched: FetchedCard, { verdict, why }: Verified): KnownCard {
    let card: AgentCard;
    try {
      card = dialect(cardDialect(fetched.card)).readCard(fetched.card);
    } catch (error) {
      if (error instanceof ProtocolError) throw error;
      throw invalidReply(this.options.context, 'has a card that cannot be read');
    }
    if (verdict === 'invalid') {
      const { name, log } = this.options.context;
      log.warn({ agent: name, why }, "the signature of the agent's card is not valid");
    }
    const { streaming, pushNotifications, extensions } = card.capabilities;
    const stream = streaming === true;
    return {
      fetched,
      facts: {
        card,
        original: { text: fetched.text, signature: verdict, ...(why !== undefined && { why }) },
        can: { stream, push: pushNotifications === true, subscribe: stream },
      },
      required: (extensions ?? []).filter(({ required }) => required === true).map(({ uri }) => uri),
    };
  }
}
