import type { Parameter } from './parameters.js';
import { bigramsOf, hashOf, termsOf } from './tokenize.js';

/** A tool, or a skill of an agent, as the text that search reads. */
export interface SearchDocument {
  /** Identifies the document in results. The key is unique within a server; by default it is the name. */
  readonly key?: string;
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly parameters?: readonly Parameter[];
  readonly tags?: readonly string[];
  /** Examples of messages that the skill is meant for. */
  readonly examples?: readonly string[];
}

/** The server or agent of the documents. */
export interface SearchServer {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  /** How much the operator trusts the server's descriptions; 1 by default. Scores are multiplied by it. */
  readonly trust?: number;
}

/**
 * The settings of a field. `b`: how strongly the length of the field lowers a score. `pivot`: the length that does not
 * change the score. `most`: the most terms that are read.
 */
interface Field {
  readonly weight: number;
  readonly b: number;
  readonly pivot: number;
  readonly most: number;
  readonly bigrams: boolean;
  /**
   * Whether the field is the same for all tools of a server. In such a field a term counts only once, and a short text
   * does not raise the score.
   */
  readonly shared?: boolean;
}

/**
 * Tuned on the train and dev splits of `npm run bench:routing`. The pivots are constants instead of mean lengths over
 * the index, so that a server with long descriptions cannot change the scores of another server.
 */
const FIELDS = {
  name: { weight: 1.2, b: 0.5, pivot: 3, most: 16, bigrams: true },
  description: { weight: 1, b: 0.8, pivot: 10, most: 200, bigrams: true },
  parameterNames: { weight: 0.56, b: 0.6, pivot: 6, most: 60, bigrams: true },
  parameterDescriptions: { weight: 0.6, b: 0.6, pivot: 25, most: 300, bigrams: false },
  // The text of a server counts for all of its tools, so these settings keep a text that names every need from raising
  // scores.
  server: { weight: 1, b: 0.8, pivot: 8, most: 40, bigrams: false, shared: true },
  tags: { weight: 0.5, b: 0.6, pivot: 6, most: 30, bigrams: false },
  examples: { weight: 0.5, b: 0.6, pivot: 20, most: 100, bigrams: false },
} as const satisfies Record<string, Field>;

/** The BM25 constant for the saturation of a term's weighted frequency. */
const K1 = 0.84;
/** The most occurrences of a term that count in one field, so that repeating a word does not raise the score. */
const MOST_REPEATS = 3;
/** The number of characters that are read of one text. The rest of a longer text is ignored. */
const LONGEST_TEXT = 8_000;
/** A text with at least `STUFFED_TERMS` terms counts as stuffed if one term makes up `STUFFED_SHARE` of the text. */
const STUFFED_TERMS = 30;
const STUFFED_SHARE = 0.25;
/** A description with more distinct terms than this also counts as stuffed, because it does not describe one tool. */
const STUFFED_DISTINCT = 400;
/** Scores of a stuffed document are multiplied by this factor. */
const STUFFED_TRUST = 0.3;

/** The index entry of one document: each term's hash with its saturated weight, from 0 to 1. */
export interface AnalysedDocument {
  readonly impacts: ReadonlyMap<number, number>;
  /** The document repeats a word too often, or has too many different words. */
  readonly stuffed: boolean;
  /** The factor of the document's scores: the trust in the server, reduced for a stuffed document. */
  readonly trust: number;
  /** The sorted terms of name and description. */
  readonly text: Uint32Array;
  /** Equal for equal sets of parameter names. */
  readonly shape: number;
}

export function analyse(document: SearchDocument, server: SearchServer): AnalysedDocument {
  const parameters = document.parameters ?? [];
  const texts: Record<keyof typeof FIELDS, string[]> = {
    name: [document.name, ...(document.title === undefined ? [] : [document.title])],
    description: [document.description ?? ''],
    parameterNames: parameters.map(({ name }) => name),
    parameterDescriptions: parameters.map(({ description }) => description),
    server: [server.title ?? server.name, server.description ?? ''],
    tags: [...(document.tags ?? [])],
    examples: [...(document.examples ?? [])],
  };
  const weights = new Map<number, number>();
  const text = new Set<number>();
  let stuffed = false;
  for (const [name, field] of Object.entries(FIELDS) as [keyof typeof FIELDS, Field][]) {
    const all = termsWithin(texts[name], name === 'description' ? STUFFED_DISTINCT + 100 : field.most);
    if (name !== 'server') stuffed ||= isStuffed(all);
    const terms = all.length > field.most ? all.slice(0, field.most) : all;
    addField(weights, terms, field);
    if (name === 'name' || name === 'description') for (const term of terms) text.add(hashOf(term));
  }
  const trust = (server.trust ?? 1) * (stuffed ? STUFFED_TRUST : 1);
  for (const [term, weight] of weights) weights.set(term, (trust * weight) / (K1 + weight));
  return { impacts: weights, stuffed, trust, text: Uint32Array.from(text).sort(), shape: shapeOf(parameters) };
}

function shapeOf(parameters: readonly Parameter[]): number {
  return hashOf(
    parameters
      .map(({ name }) => name.toLowerCase())
      .sort()
      .join(' '),
  );
}

function termsWithin(texts: readonly string[], most: number): string[] {
  const terms: string[] = [];
  for (const text of texts) {
    if (terms.length >= most) break;
    for (const term of termsOf(text.length > LONGEST_TEXT ? text.slice(0, LONGEST_TEXT) : text)) terms.push(term);
  }
  return terms;
}

function addField(weights: Map<number, number>, terms: readonly string[], field: Field): void {
  if (terms.length === 0) return;
  const length = field.shared ? Math.max(terms.length, field.pivot) : terms.length;
  const norm = field.weight / (1 - field.b + (field.b * length) / field.pivot);
  const repeats = field.shared ? 1 : MOST_REPEATS;
  const counts = new Map<string, number>();
  for (const term of terms) counts.set(term, Math.min((counts.get(term) ?? 0) + 1, repeats));
  if (field.bigrams) for (const pair of bigramsOf(terms)) counts.set(pair, 1);
  for (const [term, count] of counts) {
    const hash = hashOf(term);
    weights.set(hash, (weights.get(hash) ?? 0) + count * norm);
  }
}

function isStuffed(terms: readonly string[]): boolean {
  if (terms.length < STUFFED_TERMS) return false;
  const counts = new Map<string, number>();
  let most = 0;
  for (const term of terms) {
    const count = (counts.get(term) ?? 0) + 1;
    counts.set(term, count);
    if (count > most) most = count;
  }
  return most / terms.length > STUFFED_SHARE || counts.size > STUFFED_DISTINCT;
}
