export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

/**
 * The log that every layer writes to. A line has fields for programs and a message for people; an error goes into the
 * field `err`. The logger of pino is one.
 */
export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  /** Whether lines of this level are written, for lines that are costly to make. */
  isLevelEnabled(level: LogLevel): boolean;
}

/** The event of a failure that no code expected. Lines with it show the stack on a terminal, too. */
export const FAILURE_EVENT = 'process.failure';

/** Writes nothing. */
export const SILENT: Log = {
  debug: () => {},
  info: () => {},
  warn: () => {},
  error: () => {},
  isLevelEnabled: () => false,
};
