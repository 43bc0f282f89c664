/**
 * The servers and agents behind the gateway as data, for every adapter that lists or changes them. The adapters
 * translate their own wire formats; the registry handles names, checks, secrets, versions, storage and audit for all
 * adapters.
 */
import type { AuditActor } from './audit-trail.js';

export type UpstreamKind = 'server' | 'agent';

/** Settings in the form of the configuration file. */
export type UpstreamSettings = Readonly<Record<string, unknown>>;

/** One server or agent. All secrets are masked. */
export interface UpstreamEntry {
  readonly kind: UpstreamKind;
  readonly name: string;
  /** Whether the settings come from the configuration file, or were registered while the gateway runs. */
  readonly source: 'configuration' | 'registration';
  /** Whether the registration replaces an entry of the configuration file, which `restore` brings back. */
  readonly replacesConfigured: boolean;
  readonly enabled: boolean;
  /** The settings with secrets masked. For an entry of the configuration file, these are the settings in effect. */
  readonly settings: UpstreamSettings;
  /**
   * Data that an adapter stores beside the settings, such as fields of another product. Not interpreted, never secret.
   */
  readonly meta: UpstreamSettings;
  /** Changes with every change of the entry; the same on all replicas. */
  readonly version: string;
  readonly createdAt?: number;
  readonly createdBy?: string;
  readonly updatedAt?: number;
  readonly updatedBy?: string;
  /** The registered settings are not valid any more, and the entry is not in use. */
  readonly problem?: string;
}

/** The person or program that makes a change, and the version that the change is based on. */
export interface RegistryChange {
  readonly by: AuditActor;
  /** Change only these versions; undefined changes any version. */
  readonly expected?: readonly string[] | undefined;
}

export interface NewSettings extends RegistryChange {
  /** Settings in the form of the configuration file. A masked secret keeps its stored value. */
  readonly settings: UpstreamSettings;
  /** The data to store beside the settings; undefined keeps the stored data. */
  readonly meta?: UpstreamSettings | undefined;
}

/**
 * The registry checks a change and stores it. The change is in effect on this replica when the promise resolves, and
 * within a second on the other replicas. Rejects with a `ProtocolError`: `invalid_settings` (its data lists every
 * problem), `already_exists`, `not_found`, `precondition_failed`, `rate_limited` at the limit of registrations,
 * `audit_unavailable`.
 */
export interface UpstreamRegistry {
  /** All entries of a kind, sorted by name, including those that are switched off. */
  list(kind: UpstreamKind): readonly UpstreamEntry[];
  /** The names of all entries of a kind, sorted. */
  names(kind: UpstreamKind): readonly string[];
  get(kind: UpstreamKind, name: string): UpstreamEntry | undefined;
  /** Checks settings without storing them. Returns the normalized name. */
  check(kind: UpstreamKind, name: string, settings: UpstreamSettings): string;
  /** Adds an entry; `already_exists` if the name is in use. */
  create(kind: UpstreamKind, name: string, given: NewSettings): Promise<UpstreamEntry>;
  /** Replaces the settings of an entry; `not_found` if there is none. */
  replace(kind: UpstreamKind, name: string, given: NewSettings): Promise<UpstreamEntry>;
  /** Changes some settings (JSON Merge Patch, RFC 7396). */
  patch(kind: UpstreamKind, name: string, given: NewSettings): Promise<UpstreamEntry>;
  /**
   * Removes an entry. An entry of the configuration file stays removed until `restore`. Returns false if there is none.
   */
  remove(kind: UpstreamKind, name: string, change: RegistryChange): Promise<boolean>;
  /** Drops the registration of this name, so that the entry of the configuration file is in effect. */
  restore(kind: UpstreamKind, name: string, change: RegistryChange): Promise<UpstreamEntry>;
}
