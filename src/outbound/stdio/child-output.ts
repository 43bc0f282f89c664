import type { OutputLine } from '../../core/upstream.js';
import type { Log } from '../../telemetry/log.js';
import { LastOutputLines } from './last-output-lines.js';
import type { Clock } from './supervisor-types.js';

/** Maximum number of output lines of a server that are logged per second, at level debug. */
const MAX_LOGGED = 200;

export interface ChildOutputOptions {
  readonly server: string;
  readonly clock: Clock;
  readonly log: Log | undefined;
  /** Hides the secrets of the configured command in a text. */
  hide(text: string): string;
}

/** The output of all processes of one server: the last lines are kept, and lines are logged at level debug. */
export class ChildOutput {
  readonly #options: ChildOutputOptions;
  readonly #kept = new LastOutputLines();
  #logging = { second: 0, lines: 0 };

  constructor(options: ChildOutputOptions) {
    this.#options = options;
  }

  add(pid: number, stream: OutputLine['stream'], text: string): void {
    const { server, clock, log, hide } = this.#options;
    this.#kept.add({ at: Date.now(), pid, stream, text });
    if (stream === 'process' || !log?.isLevelEnabled('debug')) return;
    // A server that floods its stderr must not flood the gateway's log.
    const second = Math.floor(clock.now() / 1000);
    if (this.#logging.second !== second) this.#logging = { second, lines: 0 };
    if (++this.#logging.lines > MAX_LOGGED) return;
    const left = this.#logging.lines === MAX_LOGGED ? { note: 'omitting further lines of this second' } : {};
    log.debug({ server, pid, [stream]: hide(text), ...left }, 'output of a stdio server');
  }

  lines(): readonly OutputLine[] {
    return this.#kept.lines().map((line) => ({ ...line, text: this.#options.hide(line.text) }));
  }
}
