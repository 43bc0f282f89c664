import type { Log } from '../../telemetry/log.js';
import { BoundedCache } from '../bounded-cache.js';
import type { Item } from '../catalog/server-list-cache.js';
import { within } from '../timing.js';
import type { ToolKey } from './tool-key.js';

/** The service works, but refuses one of the texts. */
export class RefusedTexts extends Error {}

/**
 * Turns texts into vectors, in the same order. Rejects on failure; `RefusedTexts` means that the service works but
 * refuses these texts.
 */
export interface Embedder {
  embed(texts: readonly string[]): Promise<readonly Float32Array[]>;
}

export interface ToolVectorsOptions {
  readonly embedder: Embedder;
  /** The share of the vectors in a score, from 0 to 1. */
  readonly weight: number;
  /** Milliseconds that a search waits for the vector of its query. */
  readonly patience: number;
  readonly log: Log;
}

/** The similarities of tools to a query. */
export interface Similarities {
  readonly weight: number;
  /** From 0 to 1; the most similar tool has 1. */
  readonly tools: readonly (readonly [ToolKey, number])[];
}

/** A tool that a caller sees. */
export interface EmbeddedTool extends ToolKey {
  readonly item: Item;
  /** The name of the tool's server, as people know it. */
  readonly about?: string;
}

/** The minimum number of vectors of tools in the full cache; the maximum is twice this number. */
const MOST_VECTORS = 10_000;
const MOST_QUERIES = 500;
const LONGEST_TEXT = 1_000;
const LONGEST_ABOUT = 100;
const BATCH = 64;
/** The vector of a refused text. Its length differs from every other vector, so its similarity is always 0. */
const NO_VECTOR = new Float32Array(0);
/** The most searches that wait for a vector at the same time. Further searches use words alone. */
const MOST_ASKING = 16;
/** Pause after a failure, in milliseconds. Searches use words alone until then. */
const PAUSE = 10_000;

/**
 * Optional vectors in addition to words. Each tool is embedded once in the background, and each query when it arrives.
 * While vectors are missing or the service is unavailable, search uses words alone.
 */
export class ToolVectors {
  private readonly known = new BoundedCache<string, Float32Array>(MOST_VECTORS);
  private readonly queries = new BoundedCache<string, Float32Array>(MOST_QUERIES);
  /** The texts of items, which stay the same until their server's list changes. */
  private readonly texts = new WeakMap<Item, { readonly about: string | undefined; readonly text: string }>();
  private readonly wanted = new Set<string>();
  private asking = 0;
  private working = false;
  private awayUntil = 0;

  constructor(private readonly options: ToolVectorsOptions) {}

  /** The similarities of the tools to a query; undefined while search uses words alone. */
  async similarities(query: string, tools: readonly EmbeddedTool[]): Promise<Similarities | undefined> {
    if (performance.now() < this.awayUntil || tools.length > MOST_VECTORS) return undefined;
    const vectors = tools.map((tool) => this.known.get(this.textOf(tool)));
    if (vectors.includes(undefined)) {
      for (const [index, tool] of tools.entries())
        if (!vectors[index] && this.wanted.size < MOST_VECTORS) this.wanted.add(this.textOf(tool));
      void this.embedWanted();
      return undefined;
    }
    const own = await this.queryVector(query.slice(0, LONGEST_TEXT));
    if (!own) return undefined;
    const found = tools.map(({ server, name }, index): [ToolKey, number] => [
      { server, name },
      Math.max(0, cosine(own, vectors[index]!)),
    ]);
    const highest = found.reduce((most, [, similarity]) => Math.max(most, similarity), 0);
    if (highest === 0) return undefined;
    return { weight: this.options.weight, tools: found.map(([tool, similarity]) => [tool, similarity / highest]) };
  }

  private textOf({ item, about }: EmbeddedTool): string {
    const known = this.texts.get(item);
    if (known && known.about === about) return known.text;
    const { title, description } = item.value;
    const text = [about?.slice(0, LONGEST_ABOUT), item.key, title, description]
      .filter((part) => typeof part === 'string')
      .join('\n')
      .slice(0, LONGEST_TEXT);
    this.texts.set(item, { about, text });
    return text;
  }

  private async queryVector(query: string): Promise<Float32Array | undefined> {
    const known = this.queries.get(query);
    if (known || this.asking >= MOST_ASKING) return known;
    this.asking += 1;
    try {
      const [vector] = (await within(this.options.embedder.embed([query]), this.options.patience)) ?? [];
      if (vector) this.queries.set(query, vector);
      else this.pause('the vector of a query did not arrive in time');
      return vector;
    } catch (error) {
      this.pause(messageOf(error));
      return undefined;
    } finally {
      this.asking -= 1;
    }
  }

  /** Embeds the texts that searches missed, in batches, one at a time. */
  private async embedWanted(): Promise<void> {
    if (this.working) return;
    this.working = true;
    try {
      while (this.wanted.size > 0) {
        const texts = [...this.wanted].slice(0, BATCH);
        for (const text of texts) this.wanted.delete(text);
        await this.embedBatch(texts);
      }
    } catch (error) {
      this.wanted.clear();
      this.pause(messageOf(error));
    } finally {
      this.working = false;
    }
  }

  /**
   * Embeds a batch of texts. If the service refuses the batch, each text is tried alone, so that one text, such as a
   * text that is too long for the model, does not keep other tools from their vectors. A refused text is similar to no
   * query.
   */
  private async embedBatch(texts: readonly string[]): Promise<void> {
    const { embedder, log } = this.options;
    const keep = (own: readonly string[], vectors: readonly Float32Array[]): void => {
      for (const [index, text] of own.entries()) this.known.set(text, vectors[index]!);
    };
    try {
      keep(texts, await embedder.embed(texts));
      return;
    } catch (error) {
      if (!(error instanceof RefusedTexts)) throw error;
    }
    for (const text of texts) {
      try {
        keep([text], await embedder.embed([text]));
      } catch (error) {
        if (!(error instanceof RefusedTexts)) throw error;
        this.known.set(text, NO_VECTOR);
        log.debug({ tool: text.slice(0, 80), reason: messageOf(error) }, 'the embeddings endpoint refuses a text');
      }
    }
  }

  private pause(reason: string): void {
    this.awayUntil = performance.now() + PAUSE;
    this.options.log.warn({ reason }, 'cannot get vectors for search; ranking by words only for a while');
  }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** The cosine of two unit vectors; 0 if their lengths differ, because the service changed its model. */
function cosine(a: Float32Array, b: Float32Array): number {
  if (a.length !== b.length) return 0;
  let sum = 0;
  for (let index = 0; index < a.length; index += 1) sum += a[index]! * b[index]!;
  return sum;
}
