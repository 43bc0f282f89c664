import type { AuditActor, AuditTrail, ChangeAction } from '../core/audit-trail.js';
import { ProtocolError } from '../protocol/errors.js';
import type { Registry, RegistryRow } from '../state/index.js';

/** A registration, or the removal of an entry that the configuration file still has. */
export type Entry = RegistrationRecord | { readonly removed: true };

export interface RegistrationRecord {
  readonly settings: object;
  /** Data of adapters beside the settings. */
  readonly meta?: object;
  readonly createdAt?: number;
  readonly createdBy?: string;
  readonly updatedBy?: string;
}

/** The stored and the configured form of one entry when a change begins. */
export interface Before {
  readonly row: RegistryRow<Entry> | undefined;
  /**
   * The settings of the registration. If there is no registration, the settings of the configuration file. Undefined if
   * there is no entry.
   */
  readonly settings: object | undefined;
  readonly source: 'registration' | 'configuration' | undefined;
}

export interface Write {
  readonly by: AuditActor;
  /** `create` requires that the name is free, `replace` requires an entry in effect. */
  readonly mode: 'create' | 'replace' | 'any';
  readonly expected?: readonly string[] | undefined;
  readonly meta?: object | undefined;
  /** Examines the new settings before they are stored; throws to refuse them. */
  readonly examine?: ((settings: object, before: object | undefined) => Promise<void>) | undefined;
}

export interface RegistrationWritesOptions {
  readonly kind: 'server' | 'agent';
  readonly registry: Registry<Entry>;
  readonly audit: AuditTrail;
  /** The settings of the configuration file. */
  configured(name: string): object | undefined;
  /** The version of the settings of the configuration file. */
  fingerprint(settings: object): string;
  /** The number of registrations. */
  count(): number;
  now(): number;
}

/** Limit on the registrations of each kind: every replica holds all of them in memory. */
const MOST = 10_000;
/**
 * Maximum number of attempts of a change that names no version, if other writers change the same entry at the same
 * time.
 */
const ATTEMPTS = 5;

/** Stores registrations. Each change applies to the version that was read before it, or fails. */
export class RegistrationWrites {
  constructor(private readonly options: RegistrationWritesOptions) {}

  async put(name: string, settings: (before: Before) => object, write: Write): Promise<void> {
    const { registry, now, count } = this.options;
    await this.change(name, 'put', write, (before) => {
      const { mode, by, meta, examine } = write;
      if (mode === 'create' && before.settings) throw exists(this.options.kind, name);
      if (mode === 'replace' && !before.settings) throw missing(this.options.kind, name);
      if (!before.row && count() >= MOST)
        throw new ProtocolError('rate_limited', `The gateway keeps at most ${MOST} registrations; remove some first`);
      const old = before.row && !('removed' in before.row.value) ? before.row.value : undefined;
      const kept = meta ?? old?.meta;
      const value: Entry = {
        settings: settings(before),
        ...(kept && { meta: kept }),
        createdAt: old?.createdAt ?? now(),
        createdBy: old?.createdBy ?? by.caller,
        updatedBy: by.caller,
      };
      return async () => {
        await examine?.(value.settings, before.settings);
        return (await registry.put(this.options.kind, name, value, before.row?.rev ?? 0)) !== undefined;
      };
    });
  }

  /** Returns false if there is no entry. */
  async remove(name: string, write: Omit<Write, 'mode'>): Promise<boolean> {
    const { kind, registry, configured } = this.options;
    return this.change(name, 'remove', write, ({ row, settings }) => {
      if (!settings) return undefined;
      if (!configured(name)) return () => registry.remove(kind, name, row!.rev);
      return async () => (await registry.put(kind, name, { removed: true }, row?.rev ?? 0)) !== undefined;
    });
  }

  /** Drops the registration or removal of a configured entry. */
  async restore(name: string, write: Omit<Write, 'mode'>): Promise<void> {
    const { kind, registry, configured } = this.options;
    await this.change(name, 'restore', write, ({ row }) => {
      if (!configured(name))
        throw new ProtocolError('not_found', `The configuration file has no ${kind} ${JSON.stringify(name)}`);
      return row && (() => registry.remove(kind, name, row.rev));
    });
  }

  /** The version of an entry that is in effect. */
  versionOf({ row, settings }: Before): string | undefined {
    if (!settings) return undefined;
    return row ? versionOfRev(row.rev) : this.options.fingerprint(settings);
  }

  private async before(name: string): Promise<Before> {
    const { kind, registry, configured } = this.options;
    const row = await registry.get(kind, name);
    if (!row) {
      const settings = configured(name);
      return { row, settings, source: settings && 'configuration' };
    }
    if ('removed' in row.value) return { row, settings: undefined, source: undefined };
    return { row, settings: row.value.settings, source: 'registration' };
  }

  /**
   * Reads the entry, decides about the change and writes it. Starts again if another writer changed the entry in
   * between. Returns false if there was nothing to do.
   */
  private async change(
    name: string,
    verb: 'put' | 'remove' | 'restore',
    { by, expected }: Omit<Write, 'mode'>,
    decide: (before: Before) => (() => Promise<boolean>) | undefined,
  ): Promise<boolean> {
    const { kind, audit } = this.options;
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const before = await this.before(name);
      this.compare(kind, name, before, expected);
      const work = decide(before);
      if (!work) return false;
      const action: ChangeAction = `${kind}.${verb}`;
      const done = await audit.change({ ...by, action, subject: name }, work, (written) => (written ? {} : undefined));
      if (done) return true;
    }
    throw new ProtocolError(
      'precondition_failed',
      `Other requests change the ${kind} ${JSON.stringify(name)} at the same time; try again`,
    );
  }

  private compare(kind: string, name: string, before: Before, expected: readonly string[] | undefined): void {
    if (!expected) return;
    const version = this.versionOf(before);
    if (version === undefined || !expected.includes(version))
      throw new ProtocolError(
        'precondition_failed',
        `The ${kind} ${JSON.stringify(name)} has changed since it was read; read it again`,
      );
  }
}

export const versionOfRev = (rev: number): string => `r${rev}`;

const exists = (kind: string, name: string): ProtocolError =>
  new ProtocolError(
    'already_exists',
    `There is a ${kind} ${JSON.stringify(name)} already; change it, or choose another name`,
  );

export const missing = (kind: string, name: string): ProtocolError =>
  new ProtocolError('not_found', `There is no ${kind} ${JSON.stringify(name)}`);
