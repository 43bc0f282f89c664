/** A log whose level can change while the process runs; a pino logger is one. */
export interface LeveledLog {
  level: string;
  info(fields: object, message: string): void;
  isLevelEnabled(level: string): boolean;
}

/** Switches the log to `debug`; the next call switches back to the level before. */
export class LogLevelSwitch {
  private before: string | undefined;

  constructor(private readonly log: LeveledLog) {}

  toggle(): void {
    const { log } = this;
    if (this.before !== undefined) {
      this.set(this.before);
      return;
    }
    if (log.isLevelEnabled('debug')) return;
    const { level } = log;
    this.set('debug');
    this.before = level;
  }

  /** Sets the level; the next `toggle` starts from it. */
  set(level: string): void {
    const { log } = this;
    this.before = undefined;
    // Written at the more verbose one of the old and the new level, so that the change is visible.
    const verbose = log.isLevelEnabled('info');
    if (verbose) log.info({ to: level }, 'the level of the log changes');
    log.level = level;
    if (!verbose && log.isLevelEnabled('info')) log.info({ to: level }, 'the level of the log changed');
  }
}

/** Toggles the level on SIGUSR2. Returns a function that stops following the signal. */
export function followLevelSignal(levels: LogLevelSwitch): () => void {
  const toggle = (): void => levels.toggle();
  process.on('SIGUSR2', toggle);
  return () => process.off('SIGUSR2', toggle);
}
