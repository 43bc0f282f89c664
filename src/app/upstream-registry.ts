import { ConfigError, type Problem } from '../config/problem.js';
import { showEntry } from '../config/show.js';
import { maskEntry, unmasked, urlsOf } from '../config/written-settings.js';
import type {
  NewSettings,
  RegistryChange,
  UpstreamEntry,
  UpstreamKind,
  UpstreamRegistry,
  UpstreamSettings,
} from '../core/upstream-registry.js';
import { ProtocolError } from '../protocol/errors.js';
import type { Tracing } from '../telemetry/tracing/finished-span.js';
import { ATTRIBUTES as A, REGISTRATION, spanName } from '../telemetry/tracing/names.js';
import { traced } from '../telemetry/tracing/work-span.js';
import { type Before, missing, versionOfRev } from './registration-writes.js';
import type { Known, Registrations } from './registrations.js';

type AnyRegistrations = Registrations<'server'> | Registrations<'agent'>;

export interface RegistryServiceOptions {
  readonly servers: Registrations<'server'>;
  readonly agents: Registrations<'agent'>;
  /** The version of settings of the configuration file. */
  fingerprint(settings: object): string;
  /** Receives the spans of registrations; undefined without traces. */
  readonly tracing: Tracing | undefined;
  /** Examines settings before they are stored; throws to refuse them. */
  examine?(kind: UpstreamKind, name: string, settings: object, before: object | undefined): Promise<void>;
}

const SECTION = { server: 'servers', agent: 'agents' } as const;
/** Limits on the JSON of the settings and of the data of adapters, in bytes. */
const MOST_SETTINGS = 256 * 1024;
const MOST_META = 64 * 1024;

/** The registrations of servers and agents for adapters: masks secrets, compares versions, reports problems as data. */
export class RegistryService implements UpstreamRegistry {
  constructor(private readonly options: RegistryServiceOptions) {}

  list(kind: UpstreamKind): readonly UpstreamEntry[] {
    const registrations = this.of(kind);
    return registrations.entries().map(([name, known]) => this.shown(kind, name, known));
  }

  names(kind: UpstreamKind): readonly string[] {
    return this.of(kind)
      .entries()
      .map(([name]) => name);
  }

  get(kind: UpstreamKind, name: string): UpstreamEntry | undefined {
    const known = this.of(kind).entry(name);
    return known && this.shown(kind, name.toLowerCase(), known);
  }

  check(kind: UpstreamKind, name: string, settings: UpstreamSettings): string {
    return this.checked(kind, name, unmasked(SECTION[kind], settings, undefined, maskRefused));
  }

  async create(kind: UpstreamKind, name: string, given: NewSettings): Promise<UpstreamEntry> {
    return this.write(kind, this.check(kind, name, given.settings), given, 'create', () => given.settings);
  }

  async replace(kind: UpstreamKind, name: string, given: NewSettings): Promise<UpstreamEntry> {
    return this.write(kind, name.toLowerCase(), given, 'replace', () => given.settings);
  }

  async patch(kind: UpstreamKind, name: string, given: NewSettings): Promise<UpstreamEntry> {
    const key = name.toLowerCase();
    return this.write(kind, key, given, 'replace', ({ settings = {}, source }) => {
      const shown =
        source === 'configuration' ? showEntry(SECTION[kind], settings) : maskEntry(SECTION[kind], settings);
      return merged(shown, given.settings) as UpstreamSettings;
    });
  }

  async remove(kind: UpstreamKind, name: string, { by, expected }: RegistryChange): Promise<boolean> {
    const registrations = this.of(kind);
    const removed = await registrations.writes.remove(name.toLowerCase(), { by, expected });
    if (removed) await registrations.align();
    return removed;
  }

  async restore(kind: UpstreamKind, name: string, { by, expected }: RegistryChange): Promise<UpstreamEntry> {
    const registrations = this.of(kind);
    const key = name.toLowerCase();
    await registrations.writes.restore(key, { by, expected });
    await registrations.align();
    return this.present(kind, key);
  }

  private async write(
    kind: UpstreamKind,
    name: string,
    { by, expected, meta }: NewSettings,
    mode: 'create' | 'replace',
    wanted: (before: Before) => UpstreamSettings,
  ): Promise<UpstreamEntry> {
    bounded(meta, MOST_META, 'The data beside the settings');
    const registrations = this.of(kind);
    const settings = (before: Before): object => {
      const given = withSecrets(kind, name, wanted(before), before);
      bounded(given, MOST_SETTINGS, 'The settings');
      const checked = this.checked(kind, name, given);
      // Entries are stored under normalized names. If `name` is not normalized, no entry can have this name.
      if (checked !== name) throw missing(kind, name);
      return given;
    };
    const { examine, tracing } = this.options;
    const attributes = { [kind === 'server' ? A.server : A.a2aAgent]: name, [A.caller]: by.caller };
    await traced(tracing, { name: spanName(REGISTRATION[kind], name), attributes }, async () => {
      await registrations.writes.put(name, settings, {
        ...{ by, expected, meta, mode },
        examine: examine && ((given, before) => examine(kind, name, given, before)),
      });
      await registrations.align();
    });
    return this.present(kind, name);
  }

  private checked(kind: UpstreamKind, name: string, settings: object): string {
    try {
      return this.of(kind).check(name, settings);
    } catch (error) {
      throw error instanceof ConfigError ? invalid(error.problems) : error;
    }
  }

  /** The entry after a change. Throws if another replica has removed the entry in the meantime. */
  private present(kind: UpstreamKind, name: string): UpstreamEntry {
    const entry = this.get(kind, name);
    if (!entry) throw missing(kind, name);
    return entry;
  }

  private of(kind: UpstreamKind): AnyRegistrations {
    return kind === 'server' ? this.options.servers : this.options.agents;
  }

  private shown(kind: UpstreamKind, name: string, known: Known<'server'> | Known<'agent'>): UpstreamEntry {
    const { settings, row, problem } = known;
    const common = { kind, name, enabled: settings?.enabled ?? false };
    if (!row) {
      const configured = settings as object;
      return {
        ...common,
        source: 'configuration',
        replacesConfigured: false,
        settings: showEntry(SECTION[kind], configured),
        meta: {},
        version: this.options.fingerprint(configured),
      };
    }
    const { meta = {}, createdAt, createdBy, updatedBy } = row.value;
    return {
      ...common,
      source: 'registration',
      replacesConfigured: this.of(kind).hasConfigured(name),
      settings: maskEntry(SECTION[kind], row.value.settings),
      meta: meta as UpstreamSettings,
      version: versionOfRev(row.rev),
      ...(createdAt !== undefined && { createdAt }),
      ...(createdBy !== undefined && { createdBy }),
      updatedAt: row.updatedAt,
      ...(updatedBy !== undefined && { updatedBy }),
      ...(problem !== undefined && { problem }),
    };
  }
}

/**
 * Puts the stored secrets in place of their masks, but only if no URL changes. Otherwise a caller who cannot read a
 * secret could let the gateway send it to a URL of the caller.
 */
function withSecrets(kind: UpstreamKind, name: string, given: UpstreamSettings, { settings, source }: Before): object {
  const section = SECTION[kind];
  const kept = source === 'configuration' ? escaped(settings) : settings;
  let masks = 0;
  const whole = unmasked(section, given, kept as object | undefined, maskRefused);
  unmasked(section, given, undefined, () => (masks += 1));
  if (masks > 0 && settings && urlsOf(section, whole).join() !== urlsOf(section, kept as object).join())
    throw invalid([
      {
        severity: 'error',
        code: 'conflict',
        key: `${section}.${name}`,
        message: 'has another URL than before, so the stored secrets are not kept',
        fix: 'write the secrets again',
        origin: {},
      },
    ]);
  return whole;
}

function maskRefused(key: string): never {
  throw invalid([
    {
      severity: 'error',
      code: 'conflict',
      key,
      message: 'is the mask of a secret',
      fix: 'write the secret itself; only a mask that was read from this entry keeps its secret',
      origin: {},
    },
  ]);
}

/** Values of the configuration file are expanded already, so `${` in them is literal. */
function escaped(value: unknown): unknown {
  if (typeof value === 'string') return value.replaceAll('${', () => '$${');
  if (Array.isArray(value)) return value.map(escaped);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, escaped(inner)]));
}

/** Applies a JSON merge patch (RFC 7396). */
function merged(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch;
  const result = new Map<string, unknown>(isObject(target) ? Object.entries(target) : []);
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) result.delete(key);
    else result.set(key, merged(result.get(key), value));
  }
  return Object.fromEntries(result);
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function bounded(value: object | undefined, most: number, what: string): void {
  if (value && Buffer.byteLength(JSON.stringify(value)) > most)
    throw new ProtocolError('body_too_large', `${what} exceed ${most} bytes`);
}

/** An error that contains every problem as data, so that a form can show each problem at its field. */
export function invalid(problems: readonly Problem[]): ProtocolError {
  const errors = problems.filter(({ severity }) => severity === 'error');
  const listed = errors.map(({ key, code, message, fix }) => ({ key, code, message, fix }));
  const said = errors.map(({ key, message, fix }) => `${key} ${message} (${fix})`).join('; ');
  return new ProtocolError('invalid_settings', `The settings are not valid: ${said}`, { data: { problems: listed } });
}
