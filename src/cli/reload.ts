import type { Reloadable } from '../app/running.js';
import type { Loaded } from '../config/load.js';
import { ConfigError, formatOrigin, type Problem } from '../config/problem.js';
import type { Logger } from '../telemetry/process-log.js';

/** A closing terminal sends SIGHUP, and every later write to it fails; these errors are ignored. */
const ignore = (): void => {};

/**
 * Reads the configuration again at SIGHUP. The signal never ends the process: not before the gateway runs, not while it
 * stops, and not when the file is wrong, in which case the configuration in use stays in effect.
 */
export class Reloads {
  private running: { readonly load: () => Loaded; readonly gateway: Reloadable; readonly log: Logger } | undefined;
  private wanted = false;
  private work: Promise<void> | undefined;

  constructor() {
    process.on('SIGHUP', this.onSignal);
    for (const stream of [process.stdout, process.stderr]) stream.on('error', ignore);
  }

  private readonly onSignal = (): void => {
    this.wanted = true;
    this.begin();
  };

  /** Starts to reload on the signal. A signal that arrived earlier triggers a reload now. */
  follow(load: () => Loaded, gateway: Reloadable, log: Logger): void {
    this.running = { load, gateway, log };
    this.begin();
  }

  /** Ignores further signals. Resolves when a reload under way has ended. */
  async stop(): Promise<void> {
    this.running = undefined;
    await this.work;
  }

  release(): void {
    process.off('SIGHUP', this.onSignal);
    for (const stream of [process.stdout, process.stderr]) stream.off('error', ignore);
  }

  private begin(): void {
    if (this.running && this.wanted) this.work ??= this.run().finally(() => (this.work = undefined));
  }

  /** Signals during a reload cause one more reload. */
  private async run(): Promise<void> {
    while (this.running && this.wanted) {
      this.wanted = false;
      const { load, gateway, log } = this.running;
      await reload(load, gateway, log);
    }
  }
}

async function reload(load: () => Loaded, gateway: Reloadable, log: Logger): Promise<void> {
  try {
    const { config, warnings } = load();
    logProblems(warnings, log);
    const restart = await gateway.reload(config);
    log.level = config.log.level;
    log.info({}, 'configuration reloaded: servers, agents, policy and log.level are in effect');
    if (restart.length > 0) log.warn({ keys: restart }, 'these keys changed and take effect only after a restart');
  } catch (error) {
    if (!(error instanceof ConfigError)) {
      log.error({ err: error }, 'configuration not reloaded completely; the next SIGHUP tries again');
      return;
    }
    logProblems(error.problems, log);
    log.error({}, 'configuration not reloaded: the file has errors; the configuration in use stays in effect');
  }
}

export function logProblems(problems: readonly Problem[], log: Logger): void {
  for (const { severity, code, key, message, fix, origin } of problems) {
    const fields = { code, key, at: formatOrigin(origin) || undefined, fix };
    if (severity === 'error') log.error(fields, `configuration: ${message}`);
    else log.warn(fields, `configuration: ${message}`);
  }
}

/** Runs a command with the signals that reload its configuration. */
export async function withReloads(run: (reloads: Reloads) => Promise<number>): Promise<number> {
  const reloads = new Reloads();
  try {
    return await run(reloads);
  } finally {
    reloads.release();
  }
}
