import { matcherOf, type TailFilter, type TailLine } from './live-tail.js';

/** The contents of a finished call as JSON texts, read only if a recorder wants them. */
export interface CallContents {
  arguments(): Buffer | string | undefined;
  result(): Buffer | string | undefined;
}

/** Takes the calls of a recording. */
export interface Recorder {
  /** Takes a call, and the number of calls missed before it; returns false if there is no room. */
  take(line: TailLine, contents: CallContents, missed: number): boolean;
}

interface Running {
  readonly recorder: Recorder;
  readonly matches: (line: TailLine) => boolean;
  missed: number;
}

/** The most recordings of one process. */
const MOST_RECORDINGS = 4;

/**
 * Passes finished calls of this process with their contents to recorders. Contents are never sent to other replicas,
 * because the bus between replicas would store them.
 */
export class CallRecordings {
  private readonly running = new Set<Running>();

  /** Whether a recording is running. Without a recording, calls cost nothing extra. */
  active(): boolean {
    return this.running.size > 0;
  }

  /** Returns the function that ends the recording, or undefined if too many recordings are running. */
  start(filter: TailFilter, recorder: Recorder): (() => void) | undefined {
    if (this.running.size >= MOST_RECORDINGS) return undefined;
    const started: Running = { recorder, matches: matcherOf(filter), missed: 0 };
    this.running.add(started);
    return () => this.running.delete(started);
  }

  publish(line: TailLine, contents: CallContents): void {
    for (const each of this.running) {
      if (!each.matches(line)) continue;
      if (each.recorder.take(line, contents, each.missed)) each.missed = 0;
      else each.missed++;
    }
  }
}
