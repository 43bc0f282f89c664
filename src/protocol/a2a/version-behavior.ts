/**
 * How the versions behave on HTTP, apart from their wire format. Endpoints ask for a behavior instead of comparing
 * versions.
 */
import type { DialectId, Version } from './dialect.js';

export const VERSION_HEADER = 'a2a-version';
export const A2A_JSON = 'application/a2a+json';

export interface VersionBehavior {
  /** Whether the dialect has the form of the 1.0 model, so that a received text may be sent on unchanged. */
  readonly isModel: boolean;
  /** The response header that lists the activated extensions. */
  readonly extensionsHeader: string;
  /**
   * A refused streaming request is answered with a stream that contains the error, because strict clients of these
   * versions accept only a stream (S-43).
   */
  readonly refusesInStream: boolean;
  /** Whether the last event of a stream is marked as the last. */
  readonly marksLast: boolean;
  /** Whether the events of a stream have names (C-29). */
  readonly namesEvents: boolean;
}

const CURRENT: VersionBehavior = {
  isModel: true,
  extensionsHeader: 'A2A-Extensions',
  refusesInStream: false,
  marksLast: false,
  namesEvents: false,
};
const OLDER: VersionBehavior = {
  isModel: false,
  extensionsHeader: 'X-A2A-Extensions',
  refusesInStream: true,
  marksLast: true,
  namesEvents: false,
};

const BEHAVIORS: Readonly<Record<DialectId, VersionBehavior>> = {
  '1.0': CURRENT,
  '0.3': OLDER,
  '0.3-proto': OLDER,
  '0.2': OLDER,
  '0.1': { ...OLDER, namesEvents: true },
};

export const behavior = (id: DialectId): VersionBehavior => BEHAVIORS[id];

/**
 * The dialect for a client whose method exists in several versions: that of the task's creator, reduced to the shape
 * these versions share.
 */
export function sharedDialect(createdIn: DialectId | undefined, spoken: DialectId): DialectId {
  if (createdIn === undefined) return spoken;
  return createdIn === '1.0' || createdIn === '0.3-proto' ? '0.3' : createdIn;
}

/**
 * The dialect for an error if the request's version is unknown: the version the client names, otherwise a guess from
 * the method's spelling.
 */
export function refusalDialect(named: Version | 'unsupported' | undefined, method?: string): DialectId {
  if (named === 'unsupported') return '1.0';
  return named ?? (method !== undefined && /^[A-Z]/.test(method) ? '1.0' : '0.3');
}

/** The dialect of `GET {url}/../agent/authenticatedExtendedCard`. Only this version has it. */
export const EXTENDED_CARD_BY_GET: DialectId = '0.2';
