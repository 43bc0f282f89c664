/** How the versions behave on HTTP, beside how they write: what an endpoint asks instead of which version it has before it. */
import type { DialectId, Version } from './dialect.js';

export const VERSION_HEADER = 'a2a-version';
export const A2A_JSON = 'application/a2a+json';

export interface VersionBehavior {
  /** The version is the model itself: a text that came in it may leave as it is. */
  readonly isModel: boolean;
  /** The header with the extensions of an answer. */
  readonly extensionsHeader: string;
  /** A refused stream is a stream with an error in it: strict clients of these versions take nothing else (S-43). */
  readonly refusesInStream: boolean;
  /** The last event says that it is the last. */
  readonly marksLast: boolean;
  /** Events of a stream have names (C-29). */
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

/** What a client reads whose method is of several versions: how its task was made, in what all of them have in common. */
export function sharedDialect(createdIn: DialectId | undefined, spoken: DialectId): DialectId {
  if (createdIn === undefined) return spoken;
  return createdIn === '1.0' || createdIn === '0.3-proto' ? '0.3' : createdIn;
}

/** How to refuse what could not be told to be of any version: as the client names it, else by how its method looks. */
export function refusalDialect(named: Version | 'unsupported' | undefined, method?: string): DialectId {
  if (named === 'unsupported') return '1.0';
  return named ?? (method !== undefined && /^[A-Z]/.test(method) ? '1.0' : '0.3');
}

/** The dialect of `GET {url}/../agent/authenticatedExtendedCard`, which one version alone has. */
export const EXTENDED_CARD_BY_GET: DialectId = '0.2';
