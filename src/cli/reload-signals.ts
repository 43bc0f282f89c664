import type { ConfigReloader } from '../app/config-reloader.js';
import type { Reloadable } from '../app/running-gateway.js';
import type { Logger } from '../telemetry/log-output.js';
import { FileWatch } from './file-watch.js';

/** A closing terminal sends SIGHUP. All later writes to the terminal fail; these errors are ignored. */
const ignore = (): void => {};

/**
 * Reads the configuration again at SIGHUP and when its file changes. The signal never ends the process, neither before
 * the gateway runs nor while the gateway stops. If the file has errors, the configuration in use stays in effect.
 */
export class Reloads {
  private reloader: ConfigReloader | undefined;
  private watch: FileWatch | undefined;
  private wanted: 'signal' | 'file' | undefined;
  private work: Promise<void> | undefined;

  constructor() {
    process.on('SIGHUP', this.onSignal);
    for (const stream of [process.stdout, process.stderr]) stream.on('error', ignore);
  }

  private readonly onSignal = (): void => {
    this.wanted = 'signal';
    this.begin();
  };

  /** Begins to reload on signals and changes of the file. A signal that arrived earlier triggers a reload now. */
  follow(reloader: ConfigReloader, gateway: Reloadable, log: Logger): void {
    reloader.attach(gateway);
    this.reloader = reloader;
    const { file } = reloader.loaded;
    if (file !== undefined)
      this.watch = new FileWatch(file, {
        changed: () => this.onChange(),
        removed: () =>
          log.warn({ file }, 'the configuration file was removed; the configuration in use stays in effect'),
      });
    // The file may have changed while the gateway started.
    if (file === undefined) this.begin();
    else this.onChange();
  }

  private onChange(): void {
    if (this.reloader?.loaded.config.reload.watch === true) this.wanted ??= 'file';
    this.begin();
  }

  /** Ignores further signals and changes. Resolves when a reload under way has ended. */
  async stop(): Promise<void> {
    this.watch?.close();
    this.reloader = undefined;
    await this.work;
  }

  release(): void {
    this.watch?.close();
    process.off('SIGHUP', this.onSignal);
    for (const stream of [process.stdout, process.stderr]) stream.off('error', ignore);
  }

  private begin(): void {
    if (this.reloader && this.wanted) this.work ??= this.run().finally(() => (this.work = undefined));
  }

  /** Any number of signals during a reload cause one more reload. */
  private async run(): Promise<void> {
    while (this.reloader && this.wanted) {
      const ifChanged = this.wanted === 'file';
      this.wanted = undefined;
      await this.reloader.reload({ ifChanged });
    }
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
