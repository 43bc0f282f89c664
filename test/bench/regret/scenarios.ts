/** Scenarios of equivalent replicas whose behaviour changes over time. */
export interface Behaviour {
  /** The probability of a success. */
  readonly success: number;
  /** The median latency in milliseconds, and that of a failure. */
  readonly latency: number;
  readonly failureLatency?: number;
  readonly quality?: number;
}

export interface Scenario {
  readonly name: string;
  readonly replicas: number;
  readonly calls: number;
  readonly classes: readonly string[];
  /** Milliseconds until the outcome of a finished call is known. */
  readonly delay: number;
  /** The behaviour of a replica at a time of the run, from 0 (start) to 1 (end). */
  at(replica: number, share: number, requestClass: string): Behaviour;
}

const CALLS = 4_000;
const base = { replicas: 5, calls: CALLS, classes: ['any'], delay: 0 };
const LATENCIES = [60, 90, 120, 160, 220];
const steady = (replica: number): Behaviour => ({ success: 0.98, latency: LATENCIES[replica % 5]! });

export const SCENARIOS: readonly Scenario[] = [
  { ...base, name: 'stationary', at: steady },
  {
    ...base,
    name: 'outage',
    at: (replica, share) =>
      replica === 0 && share > 0.3 && share < 0.6 ? { success: 0, latency: 60, failureLatency: 500 } : steady(replica),
  },
  {
    ...base,
    name: 'brown-out',
    at: (replica, share) => (replica === 0 && share > 0.4 ? { success: 0.9, latency: 450 } : steady(replica)),
  },
  {
    ...base,
    name: 'fast failure',
    at: (replica) => (replica === 0 ? { success: 0.05, latency: 100, failureLatency: 2 } : steady(replica)),
  },
  {
    ...base,
    name: 'late improver',
    at: (replica, share) => (replica === 4 && share > 0.4 ? { success: 0.99, latency: 20 } : steady(replica)),
  },
  {
    ...base,
    name: 'quality only',
    at: (replica) => ({ success: 0.98, latency: 80, quality: [0.9, 0.75, 0.6, 0.5, 0.4][replica]! }),
  },
  {
    ...base,
    name: 'per class',
    classes: ['short', 'long'],
    at: (replica, _, requestClass) => steady(requestClass === 'short' ? replica : 4 - replica),
  },
  {
    ...base,
    name: 'correlated failure',
    at: (replica, share) =>
      replica < 3 && share > 0.35 && share < 0.55
        ? { success: 0.1, latency: 200, failureLatency: 300 }
        : steady(replica),
  },
  { ...base, name: 'delayed feedback', delay: 2_000, at: steady },
  {
    ...base,
    name: '50 replicas',
    replicas: 50,
    calls: 3 * CALLS,
    at: (replica) => ({ success: 0.98, latency: 60 + 6 * ((replica * 17) % 50) }),
  },
];
