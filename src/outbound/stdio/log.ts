/** The part of a pino logger that is used here. */
export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  isLevelEnabled?(level: string): boolean;
}
