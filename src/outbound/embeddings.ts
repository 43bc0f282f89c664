import { type Embedder, RefusedTexts } from '../core/search/tool-vectors.js';

export interface EmbeddingsOptions {
  /** The address of an OpenAI-compatible service, such as http://127.0.0.1:8080/v1/embeddings. */
  readonly url: string;
  readonly model: string;
  readonly key: string | undefined;
  /** Sends the body with limits of time and size. Rejects if there is no complete reply. */
  post(url: string, headers: readonly string[], body: string): Promise<EmbeddingsReply>;
}

export interface EmbeddingsReply {
  readonly status: number;
  readonly body: Buffer;
}

const MOST_DIMENSIONS = 4_096;
/** Statuses with which services refuse a text, for example because the text is too long for the model. */
const REFUSALS: ReadonlySet<number> = new Set([400, 413, 422]);

/**
 * Vectors from an OpenAI-compatible endpoint that the operator runs or chose. Its answers are checked, because they may
 * be wrong.
 */
export class Embeddings implements Embedder {
  constructor(private readonly options: EmbeddingsOptions) {}

  async embed(texts: readonly string[]): Promise<readonly Float32Array[]> {
    const { url, model, key } = this.options;
    const headers = ['content-type', 'application/json', 'accept', 'application/json'];
    if (key !== undefined) headers.push('authorization', `Bearer ${key}`);
    const body = JSON.stringify({ model, input: texts, encoding_format: 'float' });
    const reply = await this.options.post(url, headers, body);
    if (REFUSALS.has(reply.status)) throw new RefusedTexts(`the embeddings endpoint refuses with ${reply.status}`);
    if (reply.status !== 200) throw new Error(`the embeddings endpoint answered with status ${reply.status}`);
    return vectorsIn(reply.body.toString('utf8'), texts.length);
  }
}

function vectorsIn(body: string, count: number): Float32Array[] {
  let answer: unknown;
  try {
    answer = JSON.parse(body);
  } catch {
    throw new Error('the answer of the embeddings endpoint is not JSON');
  }
  const data = (answer as { data?: unknown } | null)?.data;
  if (!Array.isArray(data) || data.length !== count)
    throw new Error(`the embeddings endpoint did not answer with ${count} vectors`);
  const vectors = new Array<Float32Array | undefined>(count).fill(undefined);
  for (const [place, entry] of data.entries()) {
    const { index = place, embedding } = (entry ?? {}) as { index?: unknown; embedding?: unknown };
    if (typeof index === 'number' && index in vectors) vectors[index] = unitVector(embedding);
  }
  const dimensions = vectors[0]?.length;
  if (vectors.some((vector) => vector === undefined || vector.length !== dimensions))
    throw new Error('the embeddings endpoint answered with invalid vectors or with vectors of different lengths');
  return vectors as Float32Array[];
}

function unitVector(given: unknown): Float32Array | undefined {
  if (!Array.isArray(given) || given.length === 0 || given.length > MOST_DIMENSIONS) return undefined;
  if (!given.every((value) => typeof value === 'number' && Number.isFinite(value))) return undefined;
  const vector = Float32Array.from(given as number[]);
  const length = Math.hypot(...vector);
  return Number.isFinite(length) && length > 0 ? vector.map((value) => value / length) : undefined;
}
