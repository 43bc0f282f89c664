export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

/**
 * The log that every layer writes to. A line has fields for programs and a message for people; an error goes into the
 * field `err`. A pino logger implements this interface.
 */
export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  /** Whether lines of this level are written. Callers check it before they build costly lines. */
  isLevelEnabled(level: LogLevel): boolean;
}

/** The event of an unexpected failure. Text output shows the stack for this event only. */
export const FAILURE_EVENT = 'process.failure';

/** Writes nothing. */
export const SILENT: Log = {
  debug: () => {},
  info: () => {},
  warn: () => {},
  error: () => {},
  isLevelEnabled: () => false,
};
