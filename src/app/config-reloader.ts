/** Reads the configuration again while the gateway runs, and applies it if it is valid. */
import { type ConfigChange, configDiff } from '../config/config-diff.js';
import type { Loaded } from '../config/load.js';
import { ConfigError, formatOrigin, type Problem } from '../config/problem.js';
import { type AuditActor, OPERATOR } from '../core/audit-trail.js';
import type { Log } from '../telemetry/log.js';
import type { LogLevelSwitch } from '../telemetry/log-level.js';
import type { Reloadable } from './running-gateway.js';

/** A problem of the configuration, with secrets masked. */
export interface ReloadProblem {
  readonly severity: Problem['severity'];
  readonly code: string;
  readonly key: string;
  readonly message: string;
  readonly fix: string;
  /** The place of the problem, such as `parley.yaml:12` or the name of a variable. */
  readonly at: string | null;
}

export interface ReloadReport {
  /**
   * `applied`: the changes are in effect, except changes that need a restart. `unchanged`: nothing differs from the
   * configuration that was read last. `preview`: nothing was applied, because the request asked for the changes only.
   * `invalid`: the file has errors, and the configuration in use stays in effect. `failed`: the gateway could not apply
   * every change; the next reload tries again.
   */
  readonly outcome: 'applied' | 'unchanged' | 'preview' | 'invalid' | 'failed';
  /** The keys that differ from the configuration that was read last. */
  readonly changes: readonly ConfigChange[];
  /**
   * All keys of the file whose values are not in effect until a restart, including keys that changed at earlier
   * reloads.
   */
  readonly restart: readonly string[];
  readonly problems: readonly ReloadProblem[];
}

export interface ReloadRequest {
  /** The caller or operator that asked, for the audit trail. */
  readonly by?: AuditActor;
  /** Validates the file and returns the changes without applying them. */
  readonly preview?: boolean;
  /**
   * Whether to do nothing if no key changed. A signal does not set this, because a reload by signal also reads the
   * certificates again.
   */
  readonly ifChanged?: boolean;
}

export interface ConfigReloaderOptions {
  /** Reads and validates the configuration; throws a `ConfigError`. */
  readonly load: () => Loaded;
  /** The configuration that the gateway starts with. */
  readonly first: Loaded;
  readonly log: Log;
  /** Sets the level of the log, which is a key of the configuration. */
  readonly levels: Pick<LogLevelSwitch, 'set'>;
}

/**
 * Reloads run one after the other. A reload validates the whole file first: a file with errors changes nothing.
 */
export class ConfigReloader {
  private last: Loaded;
  private gateway: Reloadable | undefined;
  /** Whether the last reload failed midway, so that the gateway may use parts of a newer file than `last`. */
  private incomplete = false;
  private turn: Promise<unknown> = Promise.resolve();

  constructor(private readonly options: ConfigReloaderOptions) {
    this.last = options.first;
  }

  /** The configuration that was read last without errors. */
  get loaded(): Loaded {
    return this.last;
  }

  /** Sets the gateway that the changes are applied to. Until then every reload fails. */
  attach(gateway: Reloadable | undefined): void {
    this.gateway = gateway;
  }

  reload(request: ReloadRequest = {}): Promise<ReloadReport> {
    const next = this.turn.then(() => this.reloadNow(request));
    this.turn = next.catch(() => {});
    return next;
  }

  private async reloadNow({ by = OPERATOR, preview = false, ifChanged = false }: ReloadRequest): Promise<ReloadReport> {
    const { log, load, levels } = this.options;
    let next: Loaded;
    try {
      next = load();
    } catch (error) {
      if (!(error instanceof ConfigError)) {
        log.error({ err: error }, 'configuration not reloaded: it could not be read; the next reload tries again');
        return { outcome: 'failed', changes: [], restart: [], problems: [] };
      }
      if (!preview) {
        logProblems(error.problems, log);
        log.error({}, 'configuration not reloaded: the file has errors; the configuration in use stays in effect');
      }
      return { outcome: 'invalid', changes: [], restart: [], problems: error.problems.map(asJson) };
    }
    const changes = configDiff(this.last, next);
    const problems = next.warnings.map(asJson);
    const later = changes.filter(({ restart }) => restart).map(({ key }) => key);
    if (preview) return { outcome: 'preview', changes, restart: later, problems };
    const differs = changes.length > 0 || this.incomplete;
    if (ifChanged && !differs) return { outcome: 'unchanged', changes, restart: [], problems };
    const { gateway } = this;
    if (gateway === undefined) return { outcome: 'failed', changes, restart: later, problems };
    logProblems(next.warnings, log);
    try {
      const restart = await gateway.reload(next.config, by);
      const { level } = next.config.log;
      // If an operator switched the log level by a signal, that level stays unless the file has a new level.
      if (level !== this.last.config.log.level) levels.set(level);
      this.last = next;
      this.incomplete = false;
      log.info(
        { keys: changes.slice(0, MOST_KEYS).map(({ key }) => key) },
        'configuration reloaded: servers, agents, views, policy, routing and log.level are in effect',
      );
      if (restart.length > 0) log.warn({ keys: restart }, 'these keys changed and take effect only after a restart');
      return { outcome: differs ? 'applied' : 'unchanged', changes, restart, problems };
    } catch (error) {
      this.incomplete = true;
      log.error({ err: error }, 'configuration not reloaded completely; the next reload tries again');
      return { outcome: 'failed', changes, restart: later, problems };
    }
  }
}

/** Limit on the changed keys that a log line names. */
const MOST_KEYS = 100;

export function logProblems(problems: readonly Problem[], log: Log): void {
  for (const { severity, code, key, message, fix, origin } of problems) {
    const fields = { code, key, at: formatOrigin(origin) || undefined, fix };
    if (severity === 'error') log.error(fields, `configuration: ${message}`);
    else log.warn(fields, `configuration: ${message}`);
  }
}

function asJson({ severity, code, key, message, fix, origin }: Problem): ReloadProblem {
  return { severity, code, key, message, fix, at: formatOrigin(origin) || null };
}
