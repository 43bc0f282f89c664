/**
 * The types of metrics: counters, histograms and gauges. A caller looks a series up once and then updates it without
 * building labels again.
 */

export interface MetricSpec {
  readonly name: string;
  readonly help: string;
  readonly labels: readonly string[];
  /** Upper bounds of a histogram. */
  readonly buckets?: readonly number[];
  /** Maximum number of series; further combinations of labels share one series whose labels are all `other`. */
  readonly most?: number;
}

/** The label value of everything beyond the limits. */
export const OTHER = 'other';
/** Maximum number of series of one metric, unless its specification sets another number. */
const MOST_SERIES = 1_000;

/** One value of a gauge with its labels. */
export type Sample = readonly [labels: readonly string[], value: number];
/** Reads a gauge when the metrics are read; undefined if there is no value. */
export type ReadGauge = () => number | undefined | Iterable<Sample> | Promise<number | undefined | Iterable<Sample>>;

/** A metric as it was read. */
export type ReadMetric = { readonly spec: MetricSpec } & (
  | { readonly type: 'counter' | 'gauge'; readonly samples: readonly Sample[] }
  | {
      readonly type: 'histogram';
      readonly series: readonly { readonly labels: readonly string[]; readonly series: HistogramSeries }[];
    }
);

export class CounterSeries {
  value = 0;

  add(by = 1): void {
    this.value += by;
  }
}

export class HistogramSeries {
  /** One count per bucket, and one for values above all bounds; not cumulative. */
  readonly counts: Float64Array;
  sum = 0;

  constructor(readonly bounds: readonly number[]) {
    this.counts = new Float64Array(bounds.length + 1);
  }

  observe(value: number): void {
    const { bounds, counts } = this;
    let at = 0;
    while (at < bounds.length && value > bounds[at]!) at++;
    counts[at]!++;
    this.sum += value;
  }
}

/** The series of one metric, by their labels. */
class Family<S> {
  private readonly series = new Map<string, { readonly labels: readonly string[]; readonly series: S }>();

  constructor(
    readonly spec: MetricSpec,
    private readonly make: () => S,
  ) {
    // A metric without labels has a value from the start, so that rates begin at zero.
    if (spec.labels.length === 0) this.of();
  }

  /** The series of these label values, in the order of the specification. */
  of(...values: string[]): S {
    const key = values.join('\n');
    const known = this.series.get(key);
    if (known) return known.series;
    const { labels, most = MOST_SERIES } = this.spec;
    const others = labels.map(() => OTHER);
    const otherKey = others.join('\n');
    if (key !== otherKey && this.series.size >= most) return this.of(...others);
    const made = this.make();
    this.series.set(key, { labels: values, series: made });
    return made;
  }

  all(): Iterable<{ readonly labels: readonly string[]; readonly series: S }> {
    return this.series.values();
  }
}

export type Counter = Pick<Family<CounterSeries>, 'of'>;
export type Histogram = Pick<Family<HistogramSeries>, 'of'>;

export class MetricRegistry {
  private readonly counters: Family<CounterSeries>[] = [];
  private readonly histograms: Family<HistogramSeries>[] = [];
  private readonly gauges: {
    readonly spec: MetricSpec;
    readonly type: 'gauge' | 'counter';
    readonly read: ReadGauge;
  }[] = [];

  counter(spec: MetricSpec): Counter {
    const family = new Family(spec, () => new CounterSeries());
    this.counters.push(family);
    return family;
  }

  histogram(spec: MetricSpec): Histogram {
    const family = new Family(spec, () => new HistogramSeries(spec.buckets ?? []));
    this.histograms.push(family);
    return family;
  }

  /** Adds a gauge, whose value is read when the metrics are read. */
  gauge(spec: MetricSpec, read: ReadGauge): void {
    this.gauges.push({ spec, type: 'gauge', read });
  }

  /** Adds a counter that another part of the gateway counts; its value is read when the metrics are read. */
  counted(spec: MetricSpec, read: ReadGauge): void {
    this.gauges.push({ spec, type: 'counter', read });
  }

  /** All metrics with their current values. A gauge that cannot be read has no sample. */
  async read(): Promise<ReadMetric[]> {
    const sums = this.counters.map(
      (family): ReadMetric => ({
        spec: family.spec,
        type: 'counter',
        samples: [...family.all()].map(({ labels, series }) => [labels, series.value]),
      }),
    );
    const histograms = this.histograms.map(
      (family): ReadMetric => ({ spec: family.spec, type: 'histogram', series: [...family.all()] }),
    );
    const gauges = this.gauges.map(
      async ({ spec, type, read }): Promise<ReadMetric> => ({ spec, type, samples: await samplesOf(read) }),
    );
    return [...sums, ...histograms, ...(await Promise.all(gauges))];
  }
}

async function samplesOf(read: ReadGauge): Promise<readonly Sample[]> {
  try {
    const given = await read();
    if (given === undefined) return [];
    return typeof given === 'number' ? [[[], given]] : [...given].slice(0, MOST_SERIES);
  } catch {
    // Other metrics are needed most when, for example, the database is away, so one failing gauge must not fail them.
    return [];
  }
}
