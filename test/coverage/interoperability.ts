/**
 * The interoperability score of the founding documents: six dimensions of running MCP and A2A in one program. A
 * dimension counts the features of its row that have tests, from 0 to 10; `npm test` runs these tests.
 */

export const DIMENSIONS: Readonly<Record<string, readonly string[]>> = {
  'Routes of both protocols': ['S1-56', 'S1-59', 'S1-76'],
  'Switches of each protocol': ['S1-57', 'S1-58'],
  'Equal errors': ['S1-61', 'S1-62', 'S1-63'],
  'Equal telemetry': ['S1-65', 'S1-66', 'S1-67', 'S1-68', 'S1-69', 'S1-79'],
  'Protection of private addresses': ['S0-16', 'S1-64'],
  'Negotiation of versions': ['S0-20', 'S1-60'],
};

export interface Dimension {
  readonly name: string;
  /** The features that apply. */
  readonly ids: readonly string[];
  readonly shown: number;
  /** From 0 to 10. */
  readonly score: number;
}

const round = (value: number): number => Math.round(value * 10) / 10;

export function dimensions(hasTest: (id: string) => boolean, applies: (id: string) => boolean): Dimension[] {
  return Object.entries(DIMENSIONS).map(([name, all]) => {
    const ids = all.filter(applies);
    const shown = ids.filter(hasTest).length;
    return { name, ids, shown, score: round((10 * shown) / ids.length) };
  });
}

/** The mean of the dimensions, from 0 to 100. */
export const interoperability = (scores: readonly number[]): number =>
  Math.round((10 * scores.reduce((sum, score) => sum + score, 0)) / scores.length);
